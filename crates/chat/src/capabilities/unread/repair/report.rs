//! The report of a repair.

use serde::Serialize;

use crate::ids::UserId;

/// Maximum number of differences that the report lists.
const MAX_LISTED_DIFFERENCES: usize = 100;

/// Result of a repair.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RepairReport {
    /// Users who are members of a conversation.
    pub users: u64,
    /// Users with at least one difference.
    #[serde(rename = "differing")]
    pub users_with_differences: u64,
    /// Counters `unread:{user}:{conv}` that were wrong or missing.
    pub counters: u64,
    /// Totals `unread:{user}:total` that were wrong or missing.
    pub totals: u64,
    /// Positions in `parlor:unread:{user}` that were wrong.
    pub positions: u64,
    /// Keys of users who are not members.
    #[serde(rename = "strays")]
    pub orphans: u64,
    /// Counters of conversations above the fan-out limit that lag behind, which is allowed.
    #[serde(rename = "behind")]
    pub large_lagging: u64,
    /// Users whose keys could not be corrected, because the store rejected a command.
    pub failed_users: u64,
    /// True if nothing was changed.
    pub dry_run: bool,
    /// The first differences, at most 100.
    pub differences: Vec<CounterDifference>,
}

impl RepairReport {
    /// Number of wrong keys.
    pub fn found(&self) -> u64 {
        self.counters + self.totals + self.positions + self.orphans
    }

    pub(super) fn add(&mut self, found: Vec<CounterDifference>) {
        for difference in found {
            match difference.what {
                DifferenceKind::Counter => self.counters += 1,
                DifferenceKind::Total => self.totals += 1,
                DifferenceKind::Position => self.positions += 1,
                DifferenceKind::Orphan => self.orphans += 1,
            }
            if self.differences.len() < MAX_LISTED_DIFFERENCES {
                self.differences.push(difference);
            }
        }
    }
}

/// A key that differs from the database rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CounterDifference {
    /// Id of the user.
    pub user_id: UserId,
    /// Kind of the key.
    pub what: DifferenceKind,
    /// Id of the conversation; absent for the total.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    /// Value in the store; null if the key does not exist.
    pub found: Option<String>,
    /// Value by the rows.
    pub expected: u64,
}

/// Kinds of keys that can differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DifferenceKind {
    /// Documented counter of a conversation.
    Counter,
    /// Documented total of a user.
    Total,
    /// Position that the counts are derived from.
    Position,
    /// Key of a user who is not a member.
    #[serde(rename = "stray")]
    Orphan,
}
