//! The tables, column by column, in the order in which they can be filled.
//!
//! Always true: the primary key is the first columns of its table; a test compares this with the migrations.

/// A table.
#[derive(Debug)]
pub struct Table {
    /// What it is called.
    pub name: &'static str,
    /// How many of the columns are its primary key.
    pub(super) key: usize,
    pub(super) columns: &'static [Column],
    /// Which rows are copied, where not all are.
    only: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Number,
    Text,
}

const fn number(name: &'static str) -> Column {
    Column {
        name,
        kind: Kind::Number,
    }
}

const fn text(name: &'static str) -> Column {
    Column {
        name,
        kind: Kind::Text,
    }
}

const fn table(name: &'static str, key: usize, columns: &'static [Column]) -> Table {
    Table {
        name,
        key,
        columns,
        only: None,
    }
}

/// Every table; one that refers to another comes after it.
pub static TABLES: &[Table] = &[
    Table {
        // That one is the mark of the copy itself.
        only: Some("name <> 'database'"),
        ..table("parlor", 1, &[text("name"), text("value")])
    },
    table(
        "conversations",
        1,
        &[
            text("id"),
            text("kind"),
            text("title"),
            text("pair"),
            number("open"),
            text("history"),
            text("priority"),
            text("created_by"),
            number("created_at"),
            text("idempotency_key"),
            number("last_seq"),
            number("last_at"),
            number("rev"),
            number("members_version"),
            number("member_count"),
        ],
    ),
    table(
        "deleted_conversations",
        1,
        &[text("id"), number("deleted_at")],
    ),
    table(
        "members",
        2,
        &[
            text("conversation_id"),
            text("user_id"),
            text("role"),
            number("joined_at"),
            number("joined_seq"),
            number("joined_version"),
            number("delivered_seq"),
            number("read_seq"),
            number("badge_seq"),
            number("own_after"),
            number("position_version"),
            number("muted_until"),
        ],
    ),
    table(
        "messages",
        2,
        &[
            text("conversation_id"),
            number("seq"),
            text("id"),
            text("sender_id"),
            text("sender_role"),
            text("content"),
            text("metadata"),
            text("client_id"),
            number("created_at"),
            number("edited_at"),
            number("deleted_at"),
            number("rev"),
        ],
    ),
    table(
        "mentions",
        3,
        &[text("user_id"), text("conversation_id"), number("seq")],
    ),
    table(
        "users",
        1,
        &[
            text("id"),
            number("blocked_at"),
            text("blocked_reason"),
            number("revoked_before"),
        ],
    ),
    table(
        "sessions",
        1,
        &[
            text("user_id"),
            text("device_id"),
            text("status"),
            number("login_at"),
            number("last_seen"),
            text("ip_address"),
        ],
    ),
];

impl Table {
    /// How many rows there are.
    pub(super) fn count(&self) -> String {
        format!("SELECT COUNT(*) FROM {}{}", self.name, self.filter(None))
    }

    /// The rows in the order of their key, at most as many as the last parameter says; after the key of the other
    /// parameters, or from the beginning.
    pub(super) fn page(&self, after: bool) -> String {
        let (columns, key) = (names(self.columns), names(self.key()));
        let places = places(1, self.key);
        let after = after.then(|| format!("({key}) > ({places})"));
        let limit = after.as_ref().map_or(1, |_| self.key + 1);
        let filter = self.filter(after);
        let table = self.name;
        format!("SELECT {columns} FROM {table}{filter} ORDER BY {key} LIMIT ${limit}")
    }

    /// The highest key.
    pub(super) fn last(&self) -> String {
        let order: Vec<String> = self
            .key()
            .iter()
            .map(|it| format!("{} DESC", it.name))
            .collect();
        let (key, order) = (names(self.key()), order.join(", "));
        let (table, filter) = (self.name, self.filter(None));
        format!("SELECT {key} FROM {table}{filter} ORDER BY {order} LIMIT 1")
    }

    /// Adds this many rows.
    pub(super) fn insert(&self, rows: usize) -> String {
        let width = self.columns.len();
        let rows: Vec<String> = (0..rows)
            .map(|row| format!("({})", places(row * width + 1, width)))
            .collect();
        let (table, columns) = (self.name, names(self.columns));
        format!("INSERT INTO {table} ({columns}) VALUES {}", rows.join(", "))
    }

    /// Takes all rows out.
    pub(super) fn clear(&self) -> String {
        format!("DELETE FROM {}{}", self.name, self.filter(None))
    }

    pub(super) fn key(&self) -> &'static [Column] {
        &self.columns[..self.key]
    }

    fn filter(&self, more: Option<String>) -> String {
        let only = self.only.map(str::to_owned);
        let conditions: Vec<String> = only.into_iter().chain(more).collect();
        if conditions.is_empty() {
            return String::new();
        }
        format!(" WHERE {}", conditions.join(" AND "))
    }
}

fn names(columns: &[Column]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    names.join(", ")
}

fn places(first: usize, count: usize) -> String {
    let places: Vec<String> = (first..first + count).map(|it| format!("${it}")).collect();
    places.join(", ")
}

#[cfg(test)]
mod tests {
    use sqlx::Row as _;

    use super::super::super::{Database, DatabaseUrl, Either, Options};
    use super::*;

    #[tokio::test]
    async fn these_are_the_tables_and_columns_of_the_migrations() {
        let folder = tempfile::tempdir().expect("a folder");
        let url = DatabaseUrl::Sqlite(folder.path().join("a.db"));
        let database = Database::open(Options::new(url)).await.expect("open");
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
        let mut tables: Vec<&Table> = TABLES.iter().collect();
        tables.sort_by_key(|table| table.name);
        let known = tables.into_iter().flat_map(|table| {
            let columns = table.columns.iter().zip(1..);
            columns.map(|(column, place)| {
                let key = if place <= table.key { place as i64 } else { 0 };
                let number = column.kind == Kind::Number;
                (table.name.to_owned(), column.name.to_owned(), number, key)
            })
        });
        let (known, found): (Vec<_>, Vec<_>) = (known.collect(), found.collect());
        assert_eq!(known, found);
        database.close().await;
    }

    #[test]
    fn a_page_begins_after_a_key_or_at_the_beginning() {
        let mentions = TABLES.iter().find(|it| it.name == "mentions").expect("one");
        assert_eq!(
            mentions.page(true),
            "SELECT user_id, conversation_id, seq FROM mentions \
             WHERE (user_id, conversation_id, seq) > ($1, $2, $3) ORDER BY user_id, conversation_id, seq LIMIT $4"
        );
        assert_eq!(
            TABLES[0].page(false),
            "SELECT name, value FROM parlor WHERE name <> 'database' ORDER BY name LIMIT $1"
        );
        assert_eq!(
            TABLES[0].insert(2),
            "INSERT INTO parlor (name, value) VALUES ($1, $2), ($3, $4)"
        );
    }
}
