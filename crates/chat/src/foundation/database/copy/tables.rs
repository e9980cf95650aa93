//! The tables with their columns, in the order in which they can be filled.
//!
//! Invariant: the first columns of a table are its primary key. A test compares the tables with the migrations.

/// A table to copy.
#[derive(Debug)]
pub struct CopyTable {
    /// Name of the table.
    pub name: &'static str,
    /// Number of columns of the primary key.
    pub(super) key: usize,
    pub(super) columns: &'static [Column],
    /// Condition for the rows to copy; `None` copies all rows.
    row_filter: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: ColumnType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnType {
    Integer,
    Text,
}

const fn integer_column(name: &'static str) -> Column {
    Column {
        name,
        kind: ColumnType::Integer,
    }
}

const fn text_column(name: &'static str) -> Column {
    Column {
        name,
        kind: ColumnType::Text,
    }
}

const fn full_table(name: &'static str, key: usize, columns: &'static [Column]) -> CopyTable {
    CopyTable {
        name,
        key,
        columns,
        row_filter: None,
    }
}

/// All tables. A table comes after the tables that it references.
pub static TABLES: &[CopyTable] = &[
    CopyTable {
        // This row is the database id, which also marks an incomplete copy.
        row_filter: Some("name <> 'database'"),
        ..full_table("parlor", 1, &[text_column("name"), text_column("value")])
    },
    full_table(
        "conversations",
        1,
        &[
            text_column("id"),
            text_column("kind"),
            text_column("title"),
            text_column("pair"),
            integer_column("open"),
            text_column("history"),
            text_column("priority"),
            text_column("created_by"),
            integer_column("created_at"),
            text_column("idempotency_key"),
            integer_column("last_seq"),
            integer_column("last_at"),
            integer_column("rev"),
            integer_column("members_version"),
            integer_column("member_count"),
            integer_column("version"),
        ],
    ),
    full_table(
        "deleted_conversations",
        1,
        &[text_column("id"), integer_column("deleted_at")],
    ),
    full_table(
        "members",
        2,
        &[
            text_column("conversation_id"),
            text_column("user_id"),
            text_column("role"),
            integer_column("joined_at"),
            integer_column("joined_seq"),
            integer_column("joined_version"),
            integer_column("delivered_seq"),
            integer_column("read_seq"),
            integer_column("badge_seq"),
            integer_column("own_after"),
            integer_column("position_version"),
            integer_column("muted_until"),
        ],
    ),
    full_table(
        "messages",
        2,
        &[
            text_column("conversation_id"),
            integer_column("seq"),
            text_column("id"),
            text_column("sender_id"),
            text_column("sender_role"),
            text_column("content"),
            text_column("metadata"),
            text_column("client_id"),
            integer_column("created_at"),
            integer_column("edited_at"),
            integer_column("deleted_at"),
            integer_column("rev"),
        ],
    ),
    full_table(
        "mentions",
        3,
        &[
            text_column("user_id"),
            text_column("conversation_id"),
            integer_column("seq"),
        ],
    ),
    full_table(
        "users",
        1,
        &[
            text_column("id"),
            integer_column("blocked_at"),
            text_column("blocked_reason"),
            integer_column("revoked_before"),
        ],
    ),
    full_table(
        "sessions",
        1,
        &[
            text_column("user_id"),
            text_column("device_id"),
            text_column("status"),
            integer_column("login_at"),
            integer_column("last_seen"),
            text_column("ip_address"),
        ],
    ),
];

impl CopyTable {
    /// Counts the rows.
    pub(super) fn count_sql(&self) -> String {
        format!(
            "SELECT COUNT(*) FROM {}{}",
            self.name,
            self.where_clause(None)
        )
    }

    /// Selects rows in the order of their key. The last parameter is the maximum number of rows. With `after`, the
    /// other parameters are the key after which the page begins.
    pub(super) fn page_sql(&self, after: bool) -> String {
        let (columns, key) = (column_list(self.columns), column_list(self.primary_key()));
        let places = placeholder_list(1, self.key);
        let after = after.then(|| format!("({key}) > ({places})"));
        let limit = after.as_ref().map_or(1, |_| self.key + 1);
        let filter = self.where_clause(after);
        let table = self.name;
        format!("SELECT {columns} FROM {table}{filter} ORDER BY {key} LIMIT ${limit}")
    }

    /// Selects the highest key.
    pub(super) fn last_key_sql(&self) -> String {
        let order: Vec<String> = self
            .primary_key()
            .iter()
            .map(|it| format!("{} DESC", it.name))
            .collect();
        let (key, order) = (column_list(self.primary_key()), order.join(", "));
        let (table, filter) = (self.name, self.where_clause(None));
        format!("SELECT {key} FROM {table}{filter} ORDER BY {order} LIMIT 1")
    }

    /// Inserts this number of rows.
    pub(super) fn insert_sql(&self, rows: usize) -> String {
        let width = self.columns.len();
        let rows: Vec<String> = (0..rows)
            .map(|row| format!("({})", placeholder_list(row * width + 1, width)))
            .collect();
        let (table, columns) = (self.name, column_list(self.columns));
        format!("INSERT INTO {table} ({columns}) VALUES {}", rows.join(", "))
    }

    /// Deletes all rows.
    pub(super) fn delete_sql(&self) -> String {
        format!("DELETE FROM {}{}", self.name, self.where_clause(None))
    }

    pub(super) fn primary_key(&self) -> &'static [Column] {
        &self.columns[..self.key]
    }

    fn where_clause(&self, more: Option<String>) -> String {
        let only = self.row_filter.map(str::to_owned);
        let conditions: Vec<String> = only.into_iter().chain(more).collect();
        if conditions.is_empty() {
            return String::new();
        }
        format!(" WHERE {}", conditions.join(" AND "))
    }
}

fn column_list(columns: &[Column]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    names.join(", ")
}

fn placeholder_list(first: usize, count: usize) -> String {
    let places: Vec<String> = (first..first + count).map(|it| format!("${it}")).collect();
    places.join(", ")
}

#[cfg(test)]
mod tests {
    use sqlx::Row as _;

    use super::super::super::{Database, DatabaseOptions, DatabaseUrl, Either};
    use super::*;

    #[tokio::test]
    async fn these_are_the_tables_and_columns_of_the_migrations() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let url = DatabaseUrl::Sqlite(folder.path().join("a.db"));
        let database = Database::open(DatabaseOptions::new(url))
            .await
            .expect("open");
        let Either::Sqlite(pool) = database.reader() else {
            panic!("a SQLite");
        };
        let columns = "
            SELECT m.name, p.name, p.type, p.pk FROM sqlite_master m JOIN pragma_table_info(m.name) p
            WHERE m.type = 'table' AND m.name <> '_sqlx_migrations' ORDER BY m.name, p.cid";
        let rows = sqlx::query(columns).fetch_all(pool).await.expect("columns");
        let found = rows.iter().map(|row| {
            let number = row.get::<String, _>(2) == "INTEGER";
            (row.get(0), row.get(1), number, row.get::<i64, _>(3))
        });
        let mut tables: Vec<&CopyTable> = TABLES.iter().collect();
        tables.sort_by_key(|table| table.name);
        let known = tables.into_iter().flat_map(|table| {
            let columns = table.columns.iter().zip(1..);
            columns.map(|(column, place)| {
                let key = if place <= table.key { place as i64 } else { 0 };
                let number = column.kind == ColumnType::Integer;
                (table.name.to_owned(), column.name.to_owned(), number, key)
            })
        });
        let (known, found): (Vec<_>, Vec<_>) = (known.collect(), found.collect());
        assert_eq!(known, found);
        database.close().await;
    }

    #[test]
    fn a_page_begins_after_a_key_or_at_the_beginning() {
        let mentions = TABLES
            .iter()
            .find(|it| it.name == "mentions")
            .expect("the table mentions exists");
        assert_eq!(
            mentions.page_sql(true),
            "SELECT user_id, conversation_id, seq FROM mentions \
             WHERE (user_id, conversation_id, seq) > ($1, $2, $3) ORDER BY user_id, conversation_id, seq LIMIT $4"
        );
        assert_eq!(
            TABLES[0].page_sql(false),
            "SELECT name, value FROM parlor WHERE name <> 'database' ORDER BY name LIMIT $1"
        );
        assert_eq!(
            TABLES[0].insert_sql(2),
            "INSERT INTO parlor (name, value) VALUES ($1, $2), ($3, $4)"
        );
    }
}
