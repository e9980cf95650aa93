//! Which tables and columns an export contains, in the order of the file.
//!
//! Invariant: every table and every column of the migrations is in [`EXPORT_ORDER`] or in [`NOT_EXPORTED`]. A test
//! compares both with the migrations.

use super::records::RecordType;
use crate::database::copy::{CopyTable, table};

/// One part of an export: the records of one type, in the order of the primary key of their table.
#[derive(Debug)]
pub struct ExportTable {
    /// Type of the records.
    pub record_type: RecordType,
    /// The exported columns and rows.
    pub(super) table: &'static CopyTable,
}

/// The rows of a deleted conversation may still exist for a while.
const OF_EXISTING_CONVERSATION: &str = "conversation_id IN (SELECT id FROM conversations)";

pub(super) static USERS: CopyTable = table(
    "users",
    1,
    "id, blocked_at INTEGER, blocked_reason, revoked_before INTEGER, block_adopted INTEGER",
);
pub(super) static SESSIONS: CopyTable = table(
    "sessions",
    1,
    "user_id, device_id, status, login_at INTEGER, last_seen INTEGER, ip_address",
);
pub(super) static DELETED_CONVERSATIONS: CopyTable =
    table("deleted_conversations", 1, "id, deleted_at INTEGER");
pub(super) static CONVERSATIONS: CopyTable = table(
    "conversations",
    1,
    "id, kind, title, pair, open INTEGER, history, priority, created_by, created_at INTEGER, idempotency_key, \
     last_seq INTEGER, last_at INTEGER, rev INTEGER, members_version INTEGER, member_count INTEGER, version INTEGER",
);
/// Columns of a member; those after `muted_until` are exported as a record of the type `read`.
const MEMBER_COLUMNS: &str = "conversation_id, user_id, role, joined_at INTEGER, joined_seq INTEGER, \
     joined_version INTEGER, muted_until INTEGER, delivered_seq INTEGER, read_seq INTEGER, badge_seq INTEGER, \
     own_after INTEGER, position_version INTEGER";
/// Number of columns of a member before the positions.
pub(super) const MEMBER_COLUMNS_BEFORE_POSITIONS: usize = 7;
pub(super) static MEMBERS: CopyTable =
    table("members", 2, MEMBER_COLUMNS).with_row_filter(OF_EXISTING_CONVERSATION);
/// Members whose positions have changed since they joined.
static READS: CopyTable = table("members", 2, MEMBER_COLUMNS).with_row_filter(
    "conversation_id IN (SELECT id FROM conversations) AND (delivered_seq <> 0 OR read_seq <> 0 \
                 OR badge_seq <> joined_seq OR own_after <> 0 OR position_version <> 0)",
);
pub(super) static MESSAGES: CopyTable = table(
        "messages",
        2,
        "conversation_id, seq INTEGER, id, sender_id, sender_role, content, metadata, client_id, created_at INTEGER, \
         edited_at INTEGER, deleted_at INTEGER, rev INTEGER",
    ).with_row_filter(OF_EXISTING_CONVERSATION);
pub(super) static MENTIONS: CopyTable =
    table("mentions", 3, "user_id, conversation_id, seq INTEGER")
        .with_row_filter(OF_EXISTING_CONVERSATION);

const fn part(record_type: RecordType, table: &'static CopyTable) -> ExportTable {
    ExportTable { record_type, table }
}

/// The exported tables, in the order of the file.
pub(super) static EXPORT_ORDER: &[ExportTable] = &[
    part(RecordType::User, &USERS),
    part(RecordType::Session, &SESSIONS),
    part(RecordType::DeletedConversation, &DELETED_CONVERSATIONS),
    part(RecordType::Conversation, &CONVERSATIONS),
    part(RecordType::Member, &MEMBERS),
    part(RecordType::Message, &MESSAGES),
    part(RecordType::Mention, &MENTIONS),
    part(RecordType::Read, &READS),
];

/// Not in an export: a table, or a column of an exported table (`table.column`), with the reason.
#[cfg(test)]
const NOT_EXPORTED: &[(&str, &str)] = &[
    (
        "parlor",
        "describes the database itself: its id, and whether an import is incomplete",
    ),
    (
        "outbox",
        "changes that a server still has to apply to its store; a server applies them before it stops",
    ),
    (
        "apply_watermarks",
        "progress of the servers that use this database",
    ),
    (
        "deleted_conversations.rows_removed_at",
        "progress of a removal; in another database, no rows are left to remove",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sqlx::Row as _;

    use super::*;
    use crate::database::{Database, DatabaseOptions, DatabaseUrl, PerBackend};

    #[tokio::test]
    async fn every_table_and_column_is_exported_or_listed_as_not_exported() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let url = DatabaseUrl::Sqlite(folder.path().join("a.db"));
        let database = Database::open(DatabaseOptions::new(url))
            .await
            .expect("open");
        let PerBackend::Sqlite(pool) = database.reader() else {
            panic!("a SQLite");
        };
        let columns = "
            SELECT m.name, p.name FROM sqlite_master m JOIN pragma_table_info(m.name) p
            WHERE m.type = 'table' AND m.name <> '_sqlx_migrations' AND m.name NOT LIKE 'sqlite_%'";
        let rows = sqlx::query(columns).fetch_all(pool).await.expect("columns");
        database.close().await;
        let is_left_out = |table: &str, column: &str| {
            let column = format!("{table}.{column}");
            NOT_EXPORTED
                .iter()
                .any(|(name, _)| *name == table || *name == column)
        };
        let found: BTreeSet<(String, String)> = rows
            .iter()
            .map(|row| (row.get(0), row.get(1)))
            .filter(|(table, column): &(String, String)| !is_left_out(table, column))
            .collect();
        let exported: BTreeSet<(String, String)> = EXPORT_ORDER
            .iter()
            .flat_map(|part| {
                let columns = part.table.columns().into_iter();
                columns.map(|column| (part.table.name.to_owned(), column.name.to_owned()))
            })
            .collect();
        assert_eq!(
            exported, found,
            "put new tables and columns into EXPORT_ORDER or NOT_EXPORTED"
        );
    }
}
