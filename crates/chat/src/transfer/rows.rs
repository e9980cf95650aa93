//! Reads and writes rows of any table on one connection.

use sqlx::{AssertSqlSafe, PgConnection, SqliteConnection};

use super::PAGE_SIZE;
use crate::database::copy::{
    CellRow, CellValue, Column, ColumnType, CopyTable, bind_cells, placeholder_list, read_cells,
};
use crate::database::{PerBackend, WriteTransaction, for_backend};

/// Rows per statement. Their parameters together must not exceed the limit of SQLite.
const ROWS_PER_STATEMENT: usize = 100;

/// A connection to either backend.
pub(super) type AnyConnection<'c> = PerBackend<&'c mut SqliteConnection, &'c mut PgConnection>;

/// A row to import.
pub(super) struct ImportRow {
    pub(super) line: u64,
    pub(super) cells: CellRow,
}

/// Reads the next rows after a key.
pub(super) async fn fetch_page(
    connection: AnyConnection<'_>,
    table: &CopyTable,
    after: Option<&[CellValue]>,
) -> Result<Vec<CellRow>, sqlx::Error> {
    let sql = AssertSqlSafe(table.page_sql(after.is_some()));
    let columns = table.columns();
    for_backend!(connection, c => {
        let query = bind_cells!(sqlx::query(sql), after.into_iter().flatten());
        let rows = query.bind(PAGE_SIZE as i64).fetch_all(c).await?;
        rows.iter().map(|row| read_cells!(row, columns)).collect()
    })
}

pub(super) async fn count_rows(
    connection: AnyConnection<'_>,
    table: &CopyTable,
) -> Result<u64, sqlx::Error> {
    let sql = AssertSqlSafe(table.count_sql());
    let count: i64 = for_backend!(connection, c => sqlx::query_scalar(sql).fetch_one(c).await)?;
    Ok(count.unsigned_abs())
}

/// Result of inserting rows.
#[derive(Default)]
pub(super) struct InsertOutcome {
    /// Number of new rows.
    pub(super) inserted: u64,
    /// Lines whose row exists with other values, or conflicts with another row.
    pub(super) conflicts: Vec<u64>,
}

/// Inserts rows that do not exist. Of a row that exists, the first `compared_columns` are compared.
pub(super) async fn insert_missing(
    tx: &mut WriteTransaction,
    table: &CopyTable,
    compared_columns: usize,
    rows: &[ImportRow],
) -> Result<InsertOutcome, sqlx::Error> {
    let mut outcome = InsertOutcome::default();
    for rows in rows.chunks(ROWS_PER_STATEMENT) {
        let sql = format!("{} ON CONFLICT DO NOTHING", table.insert_sql(rows.len()));
        let inserted = for_backend!(tx.connection(), c => {
            let query = bind_cells!(sqlx::query(AssertSqlSafe(sql)), rows.iter().flat_map(|row| &row.cells));
            query.execute(c).await?.rows_affected()
        });
        outcome.inserted += inserted;
        if inserted == rows.len() as u64 {
            continue;
        }
        let keys = rows.iter().map(|row| &row.cells[..table.key_columns]);
        let stored = fetch_by_key(tx, table, keys).await?;
        let is_equal = |row: &ImportRow| {
            let compared = &row.cells[..compared_columns];
            stored
                .iter()
                .any(|stored| &stored[..compared_columns] == compared)
        };
        outcome
            .conflicts
            .extend(rows.iter().filter(|row| !is_equal(row)).map(|row| row.line));
    }
    Ok(outcome)
}

/// Reads the rows with these keys, at most [`ROWS_PER_STATEMENT`].
async fn fetch_by_key<'k>(
    tx: &mut WriteTransaction,
    table: &CopyTable,
    keys: impl Iterator<Item = &'k [CellValue]>,
) -> Result<Vec<CellRow>, sqlx::Error> {
    let keys: Vec<&[CellValue]> = keys.collect();
    let columns = table.columns();
    let names: Vec<String> = columns
        .iter()
        .map(|column| format!("t.{}", column.name))
        .collect();
    let matches: Vec<String> = (0..table.key_columns)
        .map(|nth| format!("t.{} = k.column{}", columns[nth].name, nth + 1))
        .collect();
    // The join in this order makes SQLite look up each key.
    let sql = format!(
        "SELECT {} FROM (VALUES {}) AS k CROSS JOIN {} AS t WHERE {}",
        names.join(", "),
        value_list(keys.len(), table.key_columns),
        table.name,
        matches.join(" AND "),
    );
    for_backend!(tx.connection(), c => {
        let query = bind_cells!(sqlx::query(AssertSqlSafe(sql)), keys.into_iter().flatten());
        let rows = query.fetch_all(c).await?;
        rows.iter().map(|row| read_cells!(row, columns)).collect()
    })
}

/// Runs a statement for many rows of parameters. `sql` contains `{rows}` where the list of values belongs. Returns the
/// number of changed rows.
pub(super) async fn execute_for_rows(
    tx: &mut WriteTransaction,
    sql: &str,
    rows: &[CellRow],
) -> Result<u64, sqlx::Error> {
    let mut changed = 0;
    for rows in rows.chunks(ROWS_PER_STATEMENT) {
        let width = rows[0].len();
        let sql = sql.replace("{rows}", &value_list(rows.len(), width));
        changed += for_backend!(tx.connection(), c => {
            let query = bind_cells!(sqlx::query(AssertSqlSafe(sql)), rows.iter().flatten());
            query.execute(c).await?.rows_affected()
        });
    }
    Ok(changed)
}

/// Runs a query for many rows of parameters, as [`execute_for_rows`], and reads these columns.
pub(super) async fn query_for_rows(
    tx: &mut WriteTransaction,
    sql: &str,
    rows: &[CellRow],
    columns: &[ColumnType],
) -> Result<Vec<CellRow>, sqlx::Error> {
    let columns: Vec<Column> = columns
        .iter()
        .map(|kind| Column {
            name: "",
            kind: *kind,
        })
        .collect();
    let mut found = Vec::new();
    for rows in rows.chunks(ROWS_PER_STATEMENT) {
        let width = rows[0].len();
        let sql = sql.replace("{rows}", &value_list(rows.len(), width));
        let page: Vec<CellRow> = for_backend!(tx.connection(), c => {
            let query = bind_cells!(sqlx::query(AssertSqlSafe(sql)), rows.iter().flatten());
            let rows = query.fetch_all(c).await?;
            rows.iter().map(|row| read_cells!(row, columns)).collect::<Result<_, sqlx::Error>>()?
        });
        found.extend(page);
    }
    Ok(found)
}

/// `($1, $2), ($3, $4)` for two rows with two columns.
fn value_list(rows: usize, width: usize) -> String {
    let rows: Vec<String> = (0..rows)
        .map(|row| format!("({})", placeholder_list(row * width + 1, width)))
        .collect();
    rows.join(", ")
}
