//! Writes a page of a file that Parlor exported: each record becomes the row that it was exported from.
//!
//! Invariants:
//! 1. A row that exists is compared and stays as it is. A row with other values stops the import at its line.
//! 2. A record refers only to conversations and members that exist, and to no `seq` or `rev` above that of its
//!    conversation.

use std::collections::{BTreeSet, HashMap};

use super::error::{ImportError, LineProblem, LineResult};
use super::fields::{FileNumber, number, text};
use super::import::PageCounts;
use super::lines::NumberedRecord;
use super::records::{ReadRecord, Record, RecordType};
use super::rows::{self, ImportRow, InsertOutcome};
use super::tables::{EXPORT_ORDER, MEMBER_COLUMNS_BEFORE_POSITIONS, MEMBERS};
use crate::database::WriteTransaction;
use crate::database::copy::{CellRow, CellValue, ColumnType};

const SELECT_HEADS: &str = "
    SELECT c.id, c.last_seq, c.rev, c.members_version FROM (VALUES {rows}) AS k CROSS JOIN conversations c
    WHERE c.id = k.column1";
const SELECT_EXISTING: &str = "
    SELECT c.id FROM (VALUES {rows}) AS k CROSS JOIN conversations c WHERE c.id = k.column1";
const SELECT_DELETED: &str = "
    SELECT d.id FROM (VALUES {rows}) AS k CROSS JOIN deleted_conversations d WHERE d.id = k.column1";

/// Sets the positions of members who have none yet.
const UPDATE_POSITIONS: &str = "
    UPDATE members SET delivered_seq = r.column3, read_seq = r.column4, badge_seq = r.column5, own_after = r.column6,
        position_version = r.column7
    FROM (VALUES {rows}) AS r
    WHERE members.conversation_id = r.column1 AND members.user_id = r.column2 AND delivered_seq = 0 AND read_seq = 0
        AND badge_seq = joined_seq AND own_after = 0 AND position_version = 0";
const SELECT_POSITIONS: &str = "
    SELECT m.conversation_id, m.user_id, m.delivered_seq, m.read_seq, m.badge_seq, m.own_after, m.position_version
    FROM (VALUES {rows}) AS r CROSS JOIN members m WHERE m.conversation_id = r.column1 AND m.user_id = r.column2";
const POSITION_COLUMNS: [ColumnType; 7] = [
    ColumnType::Text,
    ColumnType::Text,
    ColumnType::Integer,
    ColumnType::Integer,
    ColumnType::Integer,
    ColumnType::Integer,
    ColumnType::Integer,
];

/// Newest `seq`, `rev` and version of the members of a conversation.
struct ConversationHead {
    last_seq: FileNumber,
    rev: FileNumber,
    members_version: FileNumber,
}

/// Writes the records of a page.
pub(super) async fn write_page(
    tx: &mut WriteTransaction,
    page: &[NumberedRecord],
) -> Result<PageCounts, ImportError> {
    let mut counts = PageCounts::default();
    for part in EXPORT_ORDER {
        let of_type = |it: &&NumberedRecord| it.record.record_type() == part.record_type;
        let records: Vec<&NumberedRecord> = page.iter().filter(of_type).collect();
        let Some(first) = records.first() else {
            continue;
        };
        check_references(tx, &records).await?;
        let changed = match part.record_type {
            RecordType::Read => write_positions(tx, &records).await?,
            _ => {
                let rows: LineResult<Vec<ImportRow>> =
                    records.iter().map(|it| to_import_row(it)).collect();
                let compared = match std::ptr::eq(part.table, &MEMBERS) {
                    true => MEMBER_COLUMNS_BEFORE_POSITIONS,
                    false => part.table.columns().len(),
                };
                let outcome = rows::insert_missing(tx, part.table, compared, &rows?).await?;
                report_conflicts(&outcome, first.record.record_type())?;
                outcome.inserted
            }
        };
        counts.add(part.record_type, records.len() as u64, changed);
    }
    check_deleted_ids(tx, page).await?;
    Ok(counts)
}

fn to_import_row(it: &NumberedRecord) -> LineResult<ImportRow> {
    let cells = match &it.record {
        Record::User(record) => record.to_row(),
        Record::Session(record) => record.to_row(),
        Record::DeletedConversation(record) => record.to_row(),
        Record::Conversation(record) => record.to_row().map_err(|problem| problem.at(it.line))?,
        Record::Member(record) => record.to_row(),
        Record::Message(record) => record.to_row(),
        Record::Mention(record) => record.to_row(),
        Record::Header(_) | Record::Read(_) | Record::End(_) => Vec::new(),
    };
    Ok(ImportRow {
        line: it.line,
        cells,
    })
}

fn report_conflicts(outcome: &InsertOutcome, record_type: RecordType) -> LineResult<()> {
    let Some(line) = outcome.conflicts.iter().min() else {
        return Ok(());
    };
    let text = format!(
        "the database contains another {} with the same id or key; import a file that Parlor exported into an empty database, or into the one that it was imported into before",
        record_type.name()
    );
    Err(LineProblem::of_line(text).at(*line))
}

/// Fails if a conversation has the id of a deleted one, or if the file names a conversation of the database as deleted:
/// the next server would remove its messages.
async fn check_deleted_ids(
    tx: &mut WriteTransaction,
    page: &[NumberedRecord],
) -> Result<(), ImportError> {
    let created = page.iter().filter_map(|it| match &it.record {
        Record::Conversation(record) => Some((&record.id, it.line)),
        _ => None,
    });
    if let Some(line) = find_line_of_id(tx, SELECT_DELETED, created.collect()).await? {
        return Err(deleted_id_problem().at(line).into());
    }
    let deleted = page.iter().filter_map(|it| match &it.record {
        Record::DeletedConversation(record) => Some((&record.id, it.line)),
        _ => None,
    });
    match find_line_of_id(tx, SELECT_EXISTING, deleted.collect()).await? {
        None => Ok(()),
        Some(line) => {
            let text = "the database contains this conversation, which the file names as deleted; delete it first, or import into an empty database";
            Err(LineProblem::new("id", text).at(line).into())
        }
    }
}

/// Returns the line of an id that the statement finds.
async fn find_line_of_id(
    tx: &mut WriteTransaction,
    statement: &str,
    lines: HashMap<&String, u64>,
) -> Result<Option<u64>, ImportError> {
    let ids: Vec<CellRow> = lines.keys().map(|id| vec![text(id.as_str())]).collect();
    let found = rows::query_for_rows(tx, statement, &ids, &[ColumnType::Text]).await?;
    let mut found = found.iter().filter_map(|row| match &row[..] {
        [CellValue::Text(Some(id))] => lines.get(id).copied(),
        _ => None,
    });
    Ok(found.next())
}

/// The problem of a conversation that has the id of a deleted one.
pub(super) fn deleted_id_problem() -> LineProblem {
    let text = "a deleted conversation had this id, which is never used again; remove the conversation from the file, or give it another id";
    LineProblem::new("id", text)
}

/// The problem of a record whose conversation does not exist.
pub(super) fn unknown_conversation_problem(id: &str) -> LineProblem {
    let text = format!("the conversation {id} is unknown; put its line before this one");
    LineProblem::new("conversationId", text)
}

/// Checks that the conversations of these records exist, and that no number is above theirs.
async fn check_references(
    tx: &mut WriteTransaction,
    records: &[&NumberedRecord],
) -> Result<(), ImportError> {
    let ids: BTreeSet<&str> = records
        .iter()
        .filter_map(|it| conversation_of(&it.record))
        .collect();
    let keys: Vec<CellRow> = ids.iter().map(|id| vec![text(*id)]).collect();
    let columns = [
        ColumnType::Text,
        ColumnType::Integer,
        ColumnType::Integer,
        ColumnType::Integer,
    ];
    let heads = rows::query_for_rows(tx, SELECT_HEADS, &keys, &columns).await?;
    let heads = heads.into_iter().map(|row| {
        let mut cells = super::fields::CellReader::new(row);
        let id = cells.text();
        let mut next = || FileNumber::from_db(cells.number());
        let head = ConversationHead {
            last_seq: next(),
            rev: next(),
            members_version: next(),
        };
        (id, head)
    });
    let heads: HashMap<String, ConversationHead> = heads.collect();
    for it in records {
        let Some(id) = conversation_of(&it.record) else {
            continue;
        };
        let head = heads
            .get(id)
            .ok_or_else(|| unknown_conversation_problem(id).at(it.line))?;
        check_numbers(&it.record, head).map_err(|problem| problem.at(it.line))?;
    }
    Ok(())
}

/// The conversation that a record refers to.
pub(super) fn conversation_of(record: &Record) -> Option<&str> {
    match record {
        Record::Member(it) => Some(&it.conversation_id),
        Record::Message(it) => Some(&it.conversation_id),
        Record::Mention(it) => Some(&it.conversation_id),
        Record::Read(it) => Some(&it.conversation_id),
        _ => None,
    }
}

fn check_numbers(record: &Record, head: &ConversationHead) -> LineResult<()> {
    let (last_seq, rev) = (head.last_seq, head.rev);
    let not_above =
        |field: &str, number: Option<FileNumber>, max: FileNumber, name: &str| match number
            .is_some_and(|number| number > max)
        {
            true => Err(LineProblem::new(
                field,
                format!(
                    "the number is above `{name}` of the conversation, which is {}",
                    max.0
                ),
            )),
            false => Ok(()),
        };
    match record {
        Record::Member(it) => {
            not_above("joinedSeq", it.joined_seq, last_seq, "lastSeq")?;
            not_above(
                "joinedVersion",
                it.joined_version,
                head.members_version,
                "membersVersion",
            )
        }
        Record::Message(it) => {
            not_above("seq", it.seq, last_seq, "lastSeq")?;
            not_above("rev", it.rev, rev, "rev")
        }
        Record::Mention(it) => not_above("seq", Some(it.seq), last_seq, "lastSeq"),
        Record::Read(it) => {
            not_above("deliveredSeq", it.delivered_seq, last_seq, "lastSeq")?;
            not_above("readSeq", it.read_seq, last_seq, "lastSeq")?;
            not_above("badgeSeq", it.badge_seq, last_seq, "lastSeq")?;
            not_above("ownAfter", it.own_after, last_seq, "lastSeq")
        }
        _ => Ok(()),
    }
}

/// Sets the positions of members. Returns the number of changed members.
async fn write_positions(
    tx: &mut WriteTransaction,
    records: &[&NumberedRecord],
) -> Result<u64, ImportError> {
    let rows = records.iter().filter_map(|it| match &it.record {
        Record::Read(record) => Some(ImportRow {
            line: it.line,
            cells: position_row(record),
        }),
        _ => None,
    });
    let rows: Vec<ImportRow> = rows.collect();
    let cells: Vec<CellRow> = rows.iter().map(|row| row.cells.clone()).collect();
    let changed = rows::execute_for_rows(tx, UPDATE_POSITIONS, &cells).await?;
    let keys: Vec<CellRow> = cells.iter().map(|row| row[..2].to_vec()).collect();
    let stored = rows::query_for_rows(tx, SELECT_POSITIONS, &keys, &POSITION_COLUMNS).await?;
    let mut by_key: HashMap<_, _> = HashMap::with_capacity(stored.len());
    for row in &stored {
        by_key.insert(
            row[..2].iter().map(ToString::to_string).collect::<Vec<_>>(),
            row,
        );
    }
    for row in &rows {
        let key: Vec<String> = row.cells[..2].iter().map(ToString::to_string).collect();
        let problem = match by_key.get(&key) {
            Some(stored) if **stored == row.cells => continue,
            Some(_) => {
                "the positions of the member in the database are different; import a file that Parlor exported into an empty database, or into the one that it was imported into before"
            }
            None => {
                "the user is not a member of the conversation; put the line of the type `member` before this one"
            }
        };
        return Err(LineProblem::of_line(problem).at(row.line).into());
    }
    Ok(changed)
}

fn position_row(record: &ReadRecord) -> CellRow {
    let mut cells = vec![text(&record.conversation_id), text(&record.user_id)];
    cells.extend(record.positions().map(|position| number(position.to_db())));
    cells
}
