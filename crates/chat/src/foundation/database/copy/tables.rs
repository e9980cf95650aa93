//! The tables with their columns, in the order in which they can be filled.
//!
//! Invariant: the first columns of a table are its primary key. A test compares the tables with the migrations.

/// A table to copy.
#[derive(Debug)]
pub struct CopyTable {
    /// Name of the table.
    pub name: &'static str,
    /// Number of columns of the primary key.
    pub(crate) key_columns: usize,
    /// The columns as in SQL; a column without a type is text.
    columns: &'static str,
    /// Condition for the rows to copy; empty to copy all rows.
    row_filter: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: ColumnType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnType {
    Integer,
    Text,
}

/// All rows and these columns of a table.
pub(crate) const fn table(
    name: &'static str,
    key_columns: usize,
    columns: &'static str,
) -> CopyTable {
    CopyTable {
        name,
        key_columns,
        columns,
        row_filter: "",
    }
}

/// Omits rows of deleted conversations that are not removed yet.
const NOT_DELETED: &str =
    "conversation_id NOT IN (SELECT id FROM deleted_conversations WHERE rows_removed_at IS NULL)";

/// All tables. A table comes after the tables that it references.
pub static TABLES: &[CopyTable] = &[
    CopyTable {
        // This row is the database id, which also marks an incomplete copy.
        row_filter: "name <> 'database'",
        ..table("parlor", 1, "name, value")
    },
    table(
        "conversations",
        1,
        "id, kind, title, pair, open INTEGER, history, priority, created_by, created_at INTEGER, idempotency_key, \
         last_seq INTEGER, last_at INTEGER, rev INTEGER, members_version INTEGER, member_count INTEGER, \
         version INTEGER",
    ),
    table(
        "deleted_conversations",
        1,
        "id, deleted_at INTEGER, rows_removed_at INTEGER",
    ),
    table(
        "members",
        2,
        "conversation_id, user_id, role, joined_at INTEGER, joined_seq INTEGER, joined_version INTEGER, \
         delivered_seq INTEGER, read_seq INTEGER, badge_seq INTEGER, own_after INTEGER, position_version INTEGER, \
         muted_until INTEGER",
    ),
    CopyTable {
        row_filter: NOT_DELETED,
        ..table(
            "messages",
            2,
            "conversation_id, seq INTEGER, id, sender_id, sender_role, content, metadata, client_id, \
             created_at INTEGER, edited_at INTEGER, deleted_at INTEGER, rev INTEGER",
        )
    },
    CopyTable {
        row_filter: NOT_DELETED,
        ..table("mentions", 3, "user_id, conversation_id, seq INTEGER")
    },
    table(
        "users",
        1,
        "id, blocked_at INTEGER, blocked_reason, revoked_before INTEGER, block_adopted INTEGER",
    ),
    table(
        "sessions",
        1,
        "user_id, device_id, status, login_at INTEGER, last_seen INTEGER, ip_address",
    ),
    // A stopped server can leave entries, and the target store may lack their changes as well.
    table(
        "outbox",
        1,
        "id INTEGER, subject, kind, payload, created_at INTEGER, due_at INTEGER, claims INTEGER",
    ),
    table("apply_watermarks", 1, "node, applied_before INTEGER"),
];

impl CopyTable {
    /// The same columns, but only rows that meet a condition.
    pub(crate) const fn with_row_filter(self, row_filter: &'static str) -> Self {
        Self { row_filter, ..self }
    }

    /// Counts the rows.
    pub(crate) fn count_sql(&self) -> String {
        format!(
            "SELECT COUNT(*) FROM {}{}",
            self.name,
            self.where_clause(None)
        )
    }

    /// Selects rows in the order of their key. The last parameter is the maximum number of rows. With `after`, the
    /// other parameters are the key after which the page begins.
    pub(crate) fn page_sql(&self, after: bool) -> String {
        let (columns, key) = (
            column_list(&self.columns()),
            column_list(&self.primary_key()),
        );
        let places = placeholder_list(1, self.key_columns);
        let after = after.then(|| format!("({key}) > ({places})"));
        let limit = after.as_ref().map_or(1, |_| self.key_columns + 1);
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
        let (key, order) = (column_list(&self.primary_key()), order.join(", "));
        let (table, filter) = (self.name, self.where_clause(None));
        format!("SELECT {key} FROM {table}{filter} ORDER BY {order} LIMIT 1")
    }

    /// Inserts this number of rows.
    pub(crate) fn insert_sql(&self, rows: usize) -> String {
        let columns = self.columns();
        let width = columns.len();
        let rows: Vec<String> = (0..rows)
            .map(|row| format!("({})", placeholder_list(row * width + 1, width)))
            .collect();
        let (table, columns) = (self.name, column_list(&columns));
        format!("INSERT INTO {table} ({columns}) VALUES {}", rows.join(", "))
    }

    /// Deletes all rows.
    pub(super) fn delete_sql(&self) -> String {
        format!("DELETE FROM {}{}", self.name, self.where_clause(None))
    }

    /// All columns, those of the primary key first.
    pub(crate) fn columns(&self) -> Vec<Column> {
        let columns = self.columns.split(", ");
        let columns = columns.map(|column| match column.strip_suffix(" INTEGER") {
            Some(name) => Column {
                name,
                kind: ColumnType::Integer,
            },
            None => Column {
                name: column,
                kind: ColumnType::Text,
            },
        });
        columns.collect()
    }

    /// The columns of the primary key.
    pub(super) fn primary_key(&self) -> Vec<Column> {
        let mut columns = self.columns();
        columns.truncate(self.key_columns);
        columns
    }

    fn where_clause(&self, condition: Option<String>) -> String {
        let filter = Some(self.row_filter.to_owned()).filter(|it| !it.is_empty());
        let conditions: Vec<String> = filter.into_iter().chain(condition).collect();
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

/// `$3, $4` for two placeholders from the third on.
pub(crate) fn placeholder_list(first: usize, count: usize) -> String {
    let places: Vec<String> = (first..first + count).map(|it| format!("${it}")).collect();
    places.join(", ")
}

#[cfg(test)]
mod tests {
    use sqlx::Row as _;

    use super::super::super::{Database, DatabaseOptions, DatabaseUrl, PerBackend};
    use super::*;

    #[tokio::test]
    async fn these_are_the_tables_and_columns_of_the_migrations() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let url = DatabaseUrl::Sqlite(folder.path().join("a.db"));
        let database = Database::open(DatabaseOptions::new(url))
            .await
            .expect("open");
        let PerBackend::Sqlite(pool) = database.reader() else {
            panic!("a SQLite");
        };
        let columns = "
            SELECT m.name, p.name, p.type, p.pk FROM sqlite_master m JOIN pragma_table_info(m.name) p
            WHERE m.type = 'table' AND m.name <> '_sqlx_migrations' AND m.name NOT LIKE 'sqlite_%' ORDER BY m.name, p.cid";
        let rows = sqlx::query(columns).fetch_all(pool).await.expect("columns");
        let found = rows.iter().map(|row| {
            let number = row.get::<String, _>(2) == "INTEGER";
            (row.get(0), row.get(1), number, row.get::<i64, _>(3))
        });
        let mut tables: Vec<&CopyTable> = TABLES.iter().collect();
        tables.sort_by_key(|table| table.name);
        let known = tables.into_iter().flat_map(|table| {
            let columns = table.columns().into_iter().zip(1..);
            columns.map(move |(column, place)| {
                let key = if place <= table.key_columns {
                    place as i64
                } else {
                    0
                };
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
             WHERE conversation_id NOT IN (SELECT id FROM deleted_conversations WHERE rows_removed_at IS NULL) \
             AND (user_id, conversation_id, seq) > ($1, $2, $3) ORDER BY user_id, conversation_id, seq LIMIT $4"
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
