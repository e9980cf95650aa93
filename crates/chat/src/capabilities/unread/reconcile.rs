//! Reconcile: compares the stored unread state of users with the database rows and corrects it.
//!
//! Invariant: the state is read first, then the rows, then the script runs. A field that is still as it was read is not
//! newer than the rows, so the row replaces it. A field that changed meanwhile is merged with the row, so no update is
//! lost.

use std::collections::{HashMap, HashSet};

use parlor_store::LuaScript;
use redis::pipe;

use super::Unread;
use super::rows::{self, MemberPosition, USERS_PER_STATEMENT};
use super::stored_counters::{self, StoredCounters};
use super::update::UNREAD_STATE_TTL_MS;
use crate::api::error::Result;
use crate::bus::frame::{self, BusFrameKind};
use crate::ids::{ConversationId, UserId};

static RECONCILE_COUNTERS: LuaScript = LuaScript::new(
    "unread recount",
    concat!(
        include_str!("scripts/counter_field.lua"),
        include_str!("scripts/reconcile_counters.lua")
    ),
);

/// How long the marker of a former membership is kept, so that late updates of that membership are ignored.
const LEFT_MARKER_TTL_MS: u64 = 600_000;
/// Maximum number of conversations per script call.
const MAX_CONVERSATIONS_PER_CALL: usize = 256;

/// A user whose stored state is corrected by their rows.
pub(super) struct ReconcileInput<'a> {
    pub(super) user: &'a UserId,
    pub(super) stored: &'a StoredCounters,
    pub(super) rows: &'a [MemberPosition],
    /// Conversations that have a counter key but neither a row nor a field in the state.
    pub(super) orphans: &'a [ConversationId],
    /// Writes all keys, even if the state agrees with the rows.
    pub(super) rewrite_all: bool,
    /// Number to add to a documented total that is wrong; `None` to change it by the difference of the own sum.
    pub(super) total_correction: Option<i64>,
}

impl Unread {
    /// Rewrites the keys of a user from the rows.
    pub async fn recount(&self, user: &UserId) -> Result<()> {
        self.reconcile_users(std::slice::from_ref(user), None).await
    }

    /// Corrects the keys of those users whose state differs from the rows. For users whose updates may have been lost.
    pub(crate) async fn reconcile_changed(&self, users: &[UserId]) -> Result<()> {
        self.reconcile_pages(users, None, false).await
    }

    /// Rewrites the keys of these users from the rows, and publishes a frame about the conversation `notify_about`.
    pub(super) async fn reconcile_users(
        &self,
        users: &[UserId],
        touched: Option<&ConversationId>,
    ) -> Result<()> {
        self.reconcile_pages(users, touched, true).await
    }

    async fn reconcile_pages(
        &self,
        users: &[UserId],
        touched: Option<&ConversationId>,
        thorough: bool,
    ) -> Result<()> {
        for users in users.chunks(USERS_PER_STATEMENT) {
            let epoch = self.epoch();
            let held = stored_counters::read_states(&self.ctx, users).await?;
            let rows = group_by_user(rows::find_positions_of_users(&self.database, users).await?);
            let cases = users.iter().zip(&held).map(|(user, held)| ReconcileInput {
                user,
                stored: held,
                rows: rows.get(user).map_or(&[][..], |rows| rows),
                orphans: &[],
                rewrite_all: thorough,
                total_correction: None,
            });
            self.run_reconcile(epoch, &cases.collect::<Vec<_>>(), touched)
                .await?;
        }
        Ok(())
    }

    /// Corrects the keys by rows that were read after the state. The state was read in this epoch.
    pub(super) async fn run_reconcile(
        &self,
        epoch: u64,
        cases: &[ReconcileInput<'_>],
        touched: Option<&ConversationId>,
    ) -> Result<()> {
        let mut pipe = pipe();
        for case in cases {
            self.add_reconcile_calls(&mut pipe, epoch, case, touched);
        }
        if pipe.is_empty() {
            return Ok(());
        }
        let mut store = self.ctx.store().idempotent();
        Ok(pipe.exec_async(&mut store).await?)
    }

    fn add_reconcile_calls(
        &self,
        pipe: &mut redis::Pipeline,
        epoch: u64,
        case: &ReconcileInput<'_>,
        touched: Option<&ConversationId>,
    ) {
        let now = self.ctx.now().as_millis();
        let total = case.rows.iter().map(|row| row.total_share(now)).sum();
        let warm = case.stored.is_verified(epoch) && !case.rewrite_all;
        let mut lines: Vec<ReconcileEntry<'_>> = Vec::new();
        let wrong = |row: &&MemberPosition| !warm || !case.stored.matches_row(row, now);
        for row in case.rows.iter().filter(wrong) {
            lines.push(ReconcileEntry {
                conversation: row.conversation_id.clone(),
                stored_field: case.stored.fields.get(row.conversation_id.as_str()),
                row: Some(row),
            });
        }
        lines.extend(entries_without_membership(case, now));
        // A total without rows and positions belongs to another service.
        let nobody = case.rows.is_empty() && case.stored.is_empty();
        let right = warm && case.stored.totals_include(total);
        if lines.is_empty() && (nobody || right) {
            return;
        }
        let pages = lines.len().div_ceil(MAX_CONVERSATIONS_PER_CALL).max(1);
        for nth in 0..pages {
            let from = nth * MAX_CONVERSATIONS_PER_CALL;
            let page = &lines[from..lines.len().min(from + MAX_CONVERSATIONS_PER_CALL)];
            pipe.add_command(self.reconcile_command(
                epoch,
                case.user,
                page,
                nth + 1 == pages,
                case.total_correction.filter(|_| nth + 1 == pages),
                touched,
            ));
        }
    }

    fn reconcile_command(
        &self,
        epoch: u64,
        user: &UserId,
        lines: &[ReconcileEntry<'_>],
        last: bool,
        total_correction: Option<i64>,
        touched: Option<&ConversationId>,
    ) -> redis::Cmd {
        let keys = self.ctx.keys();
        let mut names = vec![keys.unread_state(user), keys.unread_total(user)];
        names.extend(lines.iter().map(|it| keys.unread(user, &it.conversation)));
        let call = RECONCILE_COUNTERS
            .keys(names)
            .arg(self.ctx.now().as_millis())
            .arg(epoch)
            .arg(UNREAD_STATE_TTL_MS)
            .arg(self.ctx.store().bus().publish_command())
            .arg(&frame::start_frame(BusFrameKind::UnreadChanged, 0)[..])
            .arg(keys.user_channel(user))
            .arg(u8::from(last))
            .arg(touched.map_or("", ConversationId::as_str))
            .arg(LEFT_MARKER_TTL_MS)
            .arg(total_correction.map_or(String::new(), |number| number.to_string()));
        let call = lines.iter().fold(call, |call, line| {
            let call = call
                .arg(&line.conversation)
                .arg(line.stored_field.map_or("", String::as_str))
                .arg(if line.row.is_some() { "placed" } else { "gone" });
            call.arg(&line.row_args()[..])
        });
        call.cmd()
    }
}

/// The row of a user in a conversation, with the stored field; no row if the user is not a member.
struct ReconcileEntry<'a> {
    conversation: ConversationId,
    stored_field: Option<&'a String>,
    row: Option<&'a MemberPosition>,
}

impl ReconcileEntry<'_> {
    fn row_args(&self) -> [u64; 6] {
        self.row.map_or([0; 6], |row| {
            [
                row.joined_version,
                row.position_version,
                row.last_seq,
                row.badge_seq,
                row.own_after,
                row.muted_until,
            ]
        })
    }
}

/// Entries for the conversations that the store knows and the rows do not.
fn entries_without_membership<'a>(
    case: &'a ReconcileInput<'_>,
    now: u64,
) -> impl Iterator<Item = ReconcileEntry<'a>> {
    let rows = case.rows.iter();
    let members: HashSet<&str> = rows.map(|row| row.conversation_id.as_str()).collect();
    let fields = case.stored.fields.iter().filter_map(move |(id, text)| {
        let stray = case.orphans.iter().any(|it| it.as_str() == id);
        if !stray && stored_counters::left_at(text).is_some_and(|at| at + LEFT_MARKER_TTL_MS > now)
        {
            return None;
        }
        Some(ReconcileEntry {
            conversation: ConversationId::new(id).ok()?,
            stored_field: Some(text),
            row: None,
        })
    });
    let unknown = |id: &&ConversationId| !case.stored.fields.contains_key(id.as_str());
    let strays = case
        .orphans
        .iter()
        .filter(unknown)
        .map(|id| ReconcileEntry {
            conversation: id.clone(),
            stored_field: None,
            row: None,
        });
    let lines = fields.chain(strays);
    lines.filter(move |line| !members.contains(line.conversation.as_str()))
}

/// Groups rows by user.
pub(super) fn group_by_user(rows: Vec<MemberPosition>) -> HashMap<UserId, Vec<MemberPosition>> {
    let mut users: HashMap<UserId, Vec<MemberPosition>> = HashMap::new();
    for row in rows {
        users.entry(row.user_id.clone()).or_default().push(row);
    }
    users
}
