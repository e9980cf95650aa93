//! Reconcile: compares the stored unread state of users with the database rows and corrects it.
//!
//! Invariants:
//! 1. The state is read first, then the rows, then the script runs. A field that is still as it was read is not newer
//!    than the rows, so the row replaces it. A field that changed meanwhile is merged with the row, so no update is
//!    lost.

use std::collections::{HashMap, HashSet};

use redis::{RedisResult, Value, pipe};

use super::Unread;
use super::rows::{self, MemberPosition, USERS_PER_STATEMENT};
use super::scripts::RECONCILE_COUNTERS;
use super::stored_counters::{self, StoredCounters};
use super::update::UNREAD_STATE_TTL_MS;
use crate::api::error::{Error, Result};
use crate::bus::frame::{self, BusFrameKind};
use crate::ids::{ConversationId, UserId};

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
    /// Rewrites the keys of these users from the rows, and publishes a frame about the conversation `notify_about`.
    pub(super) async fn reconcile_users(
        &self,
        users: &[UserId],
        notify_about: Option<&ConversationId>,
    ) -> Result<()> {
        for users in users.chunks(USERS_PER_STATEMENT) {
            let epoch = self.ctx.store_epoch();
            let stored = stored_counters::read_states(&self.ctx, users).await?;
            let rows = group_by_user(rows::find_positions_of_users(&self.database, users).await?);
            let inputs = users
                .iter()
                .zip(&stored)
                .map(|(user, stored)| ReconcileInput {
                    user,
                    stored,
                    rows: rows.get(user).map_or(&[][..], |rows| rows),
                    orphans: &[],
                    rewrite_all: true,
                    total_correction: None,
                });
            self.run_reconcile(epoch, &inputs.collect::<Vec<_>>(), notify_about)
                .await?;
        }
        Ok(())
    }

    /// Corrects the keys by rows that were read after the state. The state was read in this epoch.
    pub(super) async fn run_reconcile(
        &self,
        epoch: u64,
        inputs: &[ReconcileInput<'_>],
        notify_about: Option<&ConversationId>,
    ) -> Result<()> {
        let mut pipe = pipe();
        for input in inputs {
            self.add_reconcile_calls(&mut pipe, epoch, input, notify_about);
        }
        if pipe.is_empty() {
            return Ok(());
        }
        let mut store = self.ctx.store().idempotent();
        Ok(pipe.exec_async(&mut store).await?)
    }

    /// Does the same for many users. A user whose keys the store rejects does not stop the others: the users that failed
    /// are returned with their error.
    pub(super) async fn run_reconcile_each(
        &self,
        epoch: u64,
        inputs: &[ReconcileInput<'_>],
    ) -> Result<Vec<(UserId, Error)>> {
        let mut pipe = pipe();
        let mut user_of_call = Vec::with_capacity(inputs.len());
        for input in inputs {
            self.add_reconcile_calls(&mut pipe, epoch, input, None);
            user_of_call.resize(pipe.len(), input.user);
        }
        if pipe.is_empty() {
            return Ok(Vec::new());
        }
        let mut store = self.ctx.store().idempotent();
        let replies: Vec<RedisResult<Value>> = pipe.ignore_errors().query_async(&mut store).await?;
        let mut failed: Vec<(UserId, Error)> = Vec::new();
        for (user, reply) in user_of_call.into_iter().zip(replies) {
            match reply.map_err(Error::from) {
                Ok(_) => {}
                Err(error @ Error::StoreRejected(_)) => {
                    if failed.last().is_none_or(|(last, _)| last != user) {
                        failed.push((user.clone(), error));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(failed)
    }

    fn add_reconcile_calls(
        &self,
        pipe: &mut redis::Pipeline,
        epoch: u64,
        input: &ReconcileInput<'_>,
        notify_about: Option<&ConversationId>,
    ) {
        let now = self.ctx.now().as_millis();
        let total = input.rows.iter().map(|row| row.total_share(now)).sum();
        let is_verified = input.stored.is_verified(epoch) && !input.rewrite_all;
        let mut entries: Vec<ReconcileEntry<'_>> = Vec::new();
        let differs = |row: &&MemberPosition| !is_verified || !input.stored.matches_row(row, now);
        for row in input.rows.iter().filter(differs) {
            entries.push(ReconcileEntry {
                conversation: row.conversation_id.clone(),
                stored_field: input.stored.fields.get(row.conversation_id.as_str()),
                row: Some(row),
            });
        }
        entries.extend(entries_without_membership(input, now));
        // A total without rows and positions belongs to another service.
        let is_unknown_user = input.rows.is_empty() && input.stored.is_empty();
        let is_correct = is_verified && input.stored.totals_include(total);
        if entries.is_empty() && (is_unknown_user || is_correct) {
            return;
        }
        let pages = entries.len().div_ceil(MAX_CONVERSATIONS_PER_CALL).max(1);
        for nth in 0..pages {
            let from = nth * MAX_CONVERSATIONS_PER_CALL;
            let page = &entries[from..entries.len().min(from + MAX_CONVERSATIONS_PER_CALL)];
            pipe.add_command(self.reconcile_command(
                epoch,
                input.user,
                page,
                nth + 1 == pages,
                input.total_correction.filter(|_| nth + 1 == pages),
                notify_about,
            ));
        }
    }

    fn reconcile_command(
        &self,
        epoch: u64,
        user: &UserId,
        entries: &[ReconcileEntry<'_>],
        is_last_page: bool,
        total_correction: Option<i64>,
        notify_about: Option<&ConversationId>,
    ) -> redis::Cmd {
        let keys = self.ctx.keys();
        let mut names = vec![keys.unread_state(user), keys.unread_total(user)];
        names.extend(entries.iter().map(|it| keys.unread(user, &it.conversation)));
        let call = RECONCILE_COUNTERS
            .keys(names)
            .arg(self.ctx.now().as_millis())
            .arg(epoch)
            .arg(UNREAD_STATE_TTL_MS)
            .arg(self.ctx.store().bus().publish_command())
            .arg(&frame::start_frame(BusFrameKind::UnreadChanged, 0)[..])
            .arg(keys.user_channel(user))
            .arg(u8::from(is_last_page))
            .arg(notify_about.map_or("", ConversationId::as_str))
            .arg(LEFT_MARKER_TTL_MS)
            .arg(total_correction.map_or(String::new(), |number| number.to_string()));
        let call = entries.iter().fold(call, |call, entry| {
            let call = call
                .arg(&entry.conversation)
                .arg(entry.stored_field.map_or("", String::as_str))
                .arg(if entry.row.is_some() {
                    "placed"
                } else {
                    "gone"
                });
            call.arg(&entry.row_args()[..])
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
    input: &'a ReconcileInput<'_>,
    now: u64,
) -> impl Iterator<Item = ReconcileEntry<'a>> {
    let rows = input.rows.iter();
    let members: HashSet<&str> = rows.map(|row| row.conversation_id.as_str()).collect();
    let fields = input.stored.fields.iter().filter_map(move |(id, text)| {
        let is_orphan = input.orphans.iter().any(|it| it.as_str() == id);
        if !is_orphan
            && stored_counters::left_at(text).is_some_and(|at| at + LEFT_MARKER_TTL_MS > now)
        {
            return None;
        }
        Some(ReconcileEntry {
            conversation: ConversationId::new(id).ok()?,
            stored_field: Some(text),
            row: None,
        })
    });
    let unknown = |id: &&ConversationId| !input.stored.fields.contains_key(id.as_str());
    let orphans = input
        .orphans
        .iter()
        .filter(unknown)
        .map(|id| ReconcileEntry {
            conversation: id.clone(),
            stored_field: None,
            row: None,
        });
    let entries = fields.chain(orphans);
    entries.filter(move |entry| !members.contains(entry.conversation.as_str()))
}

/// Groups rows by user.
pub(super) fn group_by_user(rows: Vec<MemberPosition>) -> HashMap<UserId, Vec<MemberPosition>> {
    let mut users: HashMap<UserId, Vec<MemberPosition>> = HashMap::new();
    for row in rows {
        users.entry(row.user_id.clone()).or_default().push(row);
    }
    users
}
