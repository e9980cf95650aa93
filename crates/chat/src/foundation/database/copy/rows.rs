//! Reads and writes the rows of any table, page by page.

use sqlx::{AssertSqlSafe, PgPool, SqlitePool};

use super::super::{PerBackend, for_backend};
use super::tables::CopyTable;

/// Rows per insert statement. Their parameters together must not exceed the limit of SQLite.
const ROWS_PER_INSERT: usize = 50;

pub(crate) type CopyPool = PerBackend<SqlitePool, PgPool>;

/// Value of one column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CellValue {
    Number(Option<i64>),
    Text(Option<String>),
}

/// The value as text, for the description of a key.
impl std::fmt::Display for CellValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(Some(number)) => write!(f, "{number}"),
            Self::Text(Some(text)) => f.write_str(text),
            Self::Number(None) | Self::Text(None) => f.write_str("NULL"),
        }
    }
}

pub(crate) type CellRow = Vec<CellValue>;

/// Binds values to the placeholders of a query.
macro_rules! bind_cells {
    ($query:expr, $cells:expr) => {{
        let mut query = $query;
        for cell in $cells {
            query = match cell {
                $crate::database::copy::CellValue::Number(number) => query.bind(*number),
                $crate::database::copy::CellValue::Text(text) => query.bind(text.clone()),
            };
        }
        query
    }};
}
pub(crate) use bind_cells;

/// Reads the values of these columns from a row.
macro_rules! read_cells {
    ($row:expr, $columns:expr) => {
        $columns
            .iter()
            .enumerate()
            .map(
                |(index, column): (usize, &$crate::database::copy::Column)| {
                    use $crate::database::copy::{CellValue, ColumnType};
                    Ok(match column.kind {
                        ColumnType::Integer => CellValue::Number(sqlx::Row::try_get($row, index)?),
                        ColumnType::Text => CellValue::Text(sqlx::Row::try_get($row, index)?),
                    })
                },
            )
            .collect::<Result<$crate::database::copy::CellRow, sqlx::Error>>()
    };
}
pub(crate) use read_cells;

pub(super) async fn count_rows(pool: &CopyPool, table: &CopyTable) -> Result<u64, sqlx::Error> {
    let sql = AssertSqlSafe(table.count_sql());
    let count: i64 = for_backend!(pool, pool => sqlx::query_scalar(sql).fetch_one(pool).await)?;
    Ok(count.unsigned_abs())
}

/// Reads up to `limit` rows after a key.
pub(super) async fn fetch_page(
    pool: &CopyPool,
    table: &CopyTable,
    after: Option<&[CellValue]>,
    limit: u32,
) -> Result<Vec<CellRow>, sqlx::Error> {
    let sql = AssertSqlSafe(table.page_sql(after.is_some()));
    let columns = table.columns();
    for_backend!(pool, pool => {
        let query = bind_cells!(sqlx::query(sql), after.into_iter().flatten());
        let rows = query.bind(i64::from(limit)).fetch_all(pool).await?;
        rows.iter().map(|row| read_cells!(row, columns)).collect()
    })
}

/// Reads the highest key; `None` if the table is empty.
pub(super) async fn fetch_last_key(
    pool: &CopyPool,
    table: &CopyTable,
) -> Result<Option<CellRow>, sqlx::Error> {
    let sql = AssertSqlSafe(table.last_key_sql());
    for_backend!(pool, pool => {
        let row = sqlx::query(sql).fetch_optional(pool).await?;
        row.map(|row| read_cells!(&row, table.primary_key())).transpose()
    })
}

/// Inserts all rows in one transaction.
pub(super) async fn insert_rows(
    pool: &CopyPool,
    table: &CopyTable,
    rows: &[CellRow],
) -> Result<(), sqlx::Error> {
    for_backend!(pool, pool => {
        let mut transaction = pool.begin().await?;
        for some in rows.chunks(ROWS_PER_INSERT) {
            let sql = AssertSqlSafe(table.insert_sql(some.len()));
            let query = bind_cells!(sqlx::query(sql), some.iter().flatten());
            query.execute(&mut *transaction).await?;
        }
        transaction.commit().await
    })
}

/// Deletes all rows of these tables in one transaction.
pub(super) async fn delete_rows<'a>(
    pool: &CopyPool,
    tables: impl Iterator<Item = &'a CopyTable>,
) -> Result<(), sqlx::Error> {
    for_backend!(pool, pool => {
        let mut transaction = pool.begin().await?;
        for table in tables {
            let sql = AssertSqlSafe(table.delete_sql());
            sqlx::query(sql).execute(&mut *transaction).await?;
        }
        transaction.commit().await
    })
}
