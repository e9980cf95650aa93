//! Orphans: positions and counters of users who are not members of the conversation.
//!
//! Invariants:
//! 1. Keys are found by `SCAN`, in pages. A key is an orphan only if two checks of the rows say so.
//! 2. A counter is an orphan only if the conversation and the user have rows, or if it has a position. Other
//!    counters belong to other services.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{CounterDifference, DifferenceKind, ForeignCounters, RECHECK_DELAY, orphan_positions};
use crate::api::error::Result;
use crate::ids::{ConversationId, IdKind, UserId};
use crate::unread::Unread;
use crate::unread::reconcile::group_by_user;
use crate::unread::rows::{self, MemberPosition, USERS_PER_STATEMENT};
use crate::unread::stored_counters::{self, StoredCounters};

/// Keys per page of a `SCAN`.
const SCAN_PAGE_SIZE: usize = 500;

/// Users with the conversations of their counters.
type ScannedCounters = [(UserId, Vec<ConversationId>)];

impl Unread {
    /// Scans all keys for orphans, and for the counters of other services.
    pub(super) async fn scan_orphans(&self) -> Result<(Vec<CounterDifference>, ForeignCounters)> {
        let store = self.ctx.store().clone();
        // SCAN can return a key twice, and a user has several keys.
        let (mut seen, mut orphans) = (HashSet::new(), Vec::new());
        let mut foreign = ForeignCounters::new();
        for pattern in self.ctx.keys().unread_patterns() {
            let mut walk = store.scan(&pattern, SCAN_PAGE_SIZE);
            while let Some(page) = walk.next().await? {
                let mut users: BTreeMap<UserId, Vec<ConversationId>> = BTreeMap::new();
                for (user, conversation) in page.iter().filter_map(|key| self.parse_key_owner(key))
                {
                    users.entry(user).or_default().extend(conversation);
                }
                let users: Vec<_> = users.into_iter().collect();
                for users in users.chunks(USERS_PER_STATEMENT) {
                    let found = self.confirmed_orphans(users, &mut foreign).await?;
                    let new = found
                        .into_iter()
                        .filter(|it| seen.insert((it.user_id.clone(), it.conversation_id.clone())));
                    orphans.extend(new);
                }
            }
        }
        for conversations in foreign.values_mut() {
            conversations.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
            conversations.dedup();
        }
        Ok((orphans, foreign))
    }

    /// Returns the user and the conversation of a key.
    fn parse_key_owner(&self, key: &[u8]) -> Option<(UserId, Option<ConversationId>)> {
        let found = self.ctx.keys().match_key(key)?;
        let id = |wanted| {
            let mut ids = found.ids.iter();
            ids.find(|(kind, _)| *kind == wanted).map(|(_, id)| *id)
        };
        let user = UserId::new(id(IdKind::User)?).ok()?;
        let conversation = id(IdKind::Conversation).map(ConversationId::new);
        Some((user, conversation.transpose().ok()?))
    }

    /// Returns the orphans that a second check still finds.
    async fn confirmed_orphans(
        &self,
        users: &ScannedCounters,
        foreign: &mut ForeignCounters,
    ) -> Result<Vec<CounterDifference>> {
        let mut found = self.find_orphans(users, foreign).await?;
        if !found.is_empty() {
            tokio::time::sleep(RECHECK_DELAY).await;
            let again: HashSet<CounterDifference> = self
                .find_orphans(users, foreign)
                .await?
                .into_iter()
                .collect();
            found.retain(|difference| again.contains(difference));
        }
        Ok(found)
    }

    /// Finds positions and counters without a membership, and totals of users who have positions but no membership.
    async fn find_orphans(
        &self,
        users: &ScannedCounters,
        foreign: &mut ForeignCounters,
    ) -> Result<Vec<CounterDifference>> {
        let ids: Vec<UserId> = users.iter().map(|(user, _)| user.clone()).collect();
        let stored = stored_counters::read_states(&self.ctx, &ids).await?;
        let rows = group_by_user(rows::find_positions_of_users(&self.database, &ids).await?);
        let mut found = self
            .find_orphan_counters(users, &stored, &rows, foreign)
            .await?;
        for (user, stored) in ids.iter().zip(&stored) {
            let rows = rows.get(user).map_or(&[][..], |rows| rows);
            let known: HashSet<Option<String>> = found
                .iter()
                .filter(|it| it.user_id == *user)
                .map(|it| it.conversation_id.clone())
                .collect();
            let orphans = orphan_positions(user, stored, rows).into_iter();
            found.extend(orphans.filter(|it| !known.contains(&it.conversation_id)));
            let is_own = !stored.is_empty() && rows.is_empty();
            if let Some(total) = stored.total_key.as_ref().filter(|_| is_own) {
                found.push(orphan_difference(user, None, total.clone()));
            }
        }
        Ok(found)
    }

    async fn find_orphan_counters(
        &self,
        users: &ScannedCounters,
        stored: &[StoredCounters],
        rows: &HashMap<UserId, Vec<MemberPosition>>,
        foreign: &mut ForeignCounters,
    ) -> Result<Vec<CounterDifference>> {
        let mut pipe = redis::pipe();
        let mut asked = Vec::new();
        for ((user, conversations), stored) in users.iter().zip(stored) {
            let rows = rows.get(user).map_or(&[][..], |rows| rows);
            let member = |id: &ConversationId| rows.iter().any(|row| row.conversation_id == *id);
            let has_rows = !rows.is_empty() || !stored.is_empty();
            for conversation in conversations.iter().filter(|id| !member(id)) {
                let has_position = stored.fields.contains_key(conversation.as_str());
                let is_own = has_position
                    || has_rows && rows::has_conversation(&self.database, conversation).await?;
                if !is_own {
                    if has_rows {
                        let conversations = foreign.entry(user.clone()).or_default();
                        conversations.push(conversation.clone());
                    }
                    continue;
                }
                pipe.cmd("GET")
                    .arg(self.ctx.keys().unread(user, conversation));
                asked.push((user, conversation));
            }
        }
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let replies = stored_counters::query_tolerant(&self.ctx, &mut pipe).await?;
        let found = asked.into_iter().zip(replies);
        let found = found.filter_map(|((user, conversation), reply)| {
            let text = stored_counters::counter_text(reply)?;
            Some(orphan_difference(user, Some(conversation), text))
        });
        Ok(found.collect())
    }

    /// Deletes the orphans that were found. Returns the users whose keys the store rejected.
    pub(super) async fn delete_orphans(&self, found: &[CounterDifference]) -> Result<Vec<UserId>> {
        let mut users: BTreeMap<&UserId, Vec<ConversationId>> = BTreeMap::new();
        for orphan in found {
            let id = orphan.conversation_id.as_ref();
            let id = id.and_then(|id| ConversationId::new(id).ok());
            users.entry(&orphan.user_id).or_default().extend(id);
        }
        let mut failed = Vec::new();
        for (user, orphans) in users {
            let rejected = self.reconcile_one(user, &orphans).await?;
            failed.extend(rejected.into_iter().map(|(user, _)| user));
        }
        Ok(failed)
    }
}

fn orphan_difference(
    user: &UserId,
    conversation: Option<&ConversationId>,
    found: String,
) -> CounterDifference {
    CounterDifference {
        user_id: user.clone(),
        what: DifferenceKind::Orphan,
        conversation_id: conversation.map(ToString::to_string),
        found: Some(found),
        expected: 0,
    }
}
