//! Creating and updating conversations, and the validation of their fields.

use super::enums::{ConversationKind, History, MemberRole, Priority};
use super::model::{ConversationDraft, ConversationPatch};
use super::outbox::{MemberTransition, MembershipChange};
use super::rows::{self, ConversationRow};
use super::{Conversations, retry_on_conflict};
use super::{member_rows, permissions};
use crate::api::caller::Caller;
use crate::api::error::{Error, Result};
use crate::context::Timestamp;
use crate::ids::{ConversationId, UserId};

/// Maximum number of members in a create request.
pub const MAX_INITIAL_MEMBERS: usize = 1_000;
/// Maximum length of a title in bytes.
pub const MAX_TITLE_BYTES: usize = 256;
/// Maximum length of an idempotency key in bytes.
const MAX_IDEMPOTENCY_KEY_BYTES: usize = 256;

/// A create request with parsed ids.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) id: Option<ConversationId>,
    pub(super) kind: ConversationKind,
    pub(super) title: Option<String>,
    pub(super) members: Vec<UserId>,
    pub(super) open: Option<bool>,
    pub(super) history: Option<History>,
    pub(super) priority: Option<Priority>,
    pub(super) key: Option<String>,
}

impl Conversations {
    /// Creates a conversation, or returns the existing one: the direct conversation of the pair, or the conversation
    /// that the caller created with the same idempotency key. The second value is true if the conversation is new.
    pub(super) async fn create(
        &self,
        caller: &Caller,
        wish: Wish,
    ) -> Result<(ConversationRow, bool)> {
        let new = validate_create(caller, wish)?;
        for _ in 0..super::MAX_CONFLICT_ATTEMPTS {
            if let Some(done) = retry_on_conflict!(self.create_once(&new))? {
                return Ok(done);
            }
            // The next attempt finds the conflicting conversation by its pair or key. Without both, the id itself is
            // taken.
            if new.id.is_some() && new.idempotency_key.is_none() && new.direct_pair.is_none() {
                break;
            }
        }
        let id = new
            .id
            .unwrap_or_else(|| generate_conversation_id(self.ctx.now()));
        Err(Error::ConversationExists(id))
    }

    /// Runs one attempt; `None` if the insert conflicts with another conversation.
    async fn create_once(
        &self,
        new: &ConversationDraft,
    ) -> Result<Option<(ConversationRow, bool)>> {
        let now = self.ctx.now();
        let mut tx = self.database.begin().await?;
        let mut found = None;
        if let Some(key) = &new.idempotency_key {
            let creator = new.creator.as_ref().map_or("", UserId::as_str);
            found = rows::find_by_idempotency_key(&mut tx, creator, key).await?;
        }
        if let (None, Some(pair)) = (&found, &new.direct_pair) {
            found = rows::find_direct(&mut tx, pair).await?;
        }
        if let Some(found) = found {
            drop(tx);
            let change = membership_change_of(&found, new, |_| MemberTransition::Unchanged);
            let debt = self.outbox.guard(&change);
            self.publish_committed(debt, change).await?;
            return Ok(Some((found, false)));
        }
        let id = new
            .id
            .clone()
            .unwrap_or_else(|| generate_conversation_id(now));
        let Some(row) = rows::insert(&mut tx, &id, new, new.members.len(), now).await? else {
            return Ok(None);
        };
        // Checked after the insert, because the insert waits for a concurrent deletion of this id.
        if rows::is_deleted_id(&mut tx, &id).await? {
            return Err(Error::ConversationExists(id));
        }
        member_rows::insert(&mut tx, &row, &new.members, now).await?;
        let change = membership_change_of(&row, new, MemberTransition::Joined);
        let debt = self.outbox.guard(&change);
        tx.commit().await?;
        self.publish_committed(debt, change).await?;
        Ok(Some((row, true)))
    }

    /// Changes fields of a conversation.
    pub(super) async fn update(
        &self,
        caller: &Caller,
        id: &ConversationId,
        patch: ConversationPatch,
    ) -> Result<ConversationRow> {
        let head = self.head(id).await?;
        let head = head.ok_or_else(|| permissions::conversation_not_found(caller, id))?;
        let own = match &caller.user {
            Some(user) => self.find_member(id, user).await?,
            None => None,
        };
        permissions::require_manager(permissions::effective_role(caller, id, own.as_ref())?)?;
        validate_patch(head.kind, &patch)?;
        retry_on_conflict!(self.update_once(caller, id, &patch))
    }

    async fn update_once(
        &self,
        caller: &Caller,
        id: &ConversationId,
        patch: &ConversationPatch,
    ) -> Result<ConversationRow> {
        let mut tx = self.database.begin().await?;
        // The update comes first because it locks the row: from now on no member is removed or gets another role. If
        // the caller is rejected below, the transaction is rolled back.
        let row = rows::update_fields(&mut tx, id, patch).await?;
        let row = row.ok_or_else(|| permissions::conversation_not_found(caller, id))?;
        permissions::require_manager(self.caller_role(&mut tx, caller, id).await?)?;
        tx.commit().await?;
        Ok(row)
    }
}

fn membership_change_of(
    row: &ConversationRow,
    new: &ConversationDraft,
    stand: impl Fn(MemberRole) -> MemberTransition,
) -> MembershipChange {
    let users = new.members.iter();
    MembershipChange {
        conversation: row.id.clone(),
        members_version: row.members_version,
        last_seq: row.last_seq,
        deleted: false,
        users: users
            .map(|(user, role)| (user.clone(), stand(*role)))
            .collect(),
    }
}

/// Generates a conversation id; later ids sort after earlier ones.
fn generate_conversation_id(now: Timestamp) -> ConversationId {
    ConversationId::new(now.new_uuid_v7().to_string()).expect("a UUID is an id")
}

fn validate_create(caller: &Caller, wish: Wish) -> Result<ConversationDraft> {
    if wish.members.len() > MAX_INITIAL_MEMBERS {
        return Err(Error::TooMany {
            items: "members",
            given: wish.members.len(),
            max: MAX_INITIAL_MEMBERS,
        });
    }
    validate_patch(
        wish.kind,
        &ConversationPatch {
            title: wish.title.clone(),
            open: wish.open,
            history: wish.history,
            priority: wish.priority,
        },
    )?;
    if let Some(key) = &wish.key
        && (key.is_empty()
            || key.len() > MAX_IDEMPOTENCY_KEY_BYTES
            || key.chars().any(char::is_control))
    {
        let text = format!(
            "`idempotencyKey` must be 1 to {MAX_IDEMPOTENCY_KEY_BYTES} bytes of visible text"
        );
        return invalid_request(text);
    }
    // The first user becomes the owner: the caller, or the first member if a service does not act for a user.
    let mut users: Vec<UserId> = Vec::with_capacity(wish.members.len() + 1);
    let mut known = std::collections::HashSet::new();
    for user in caller.user.clone().into_iter().chain(wish.members) {
        if known.insert(user.clone()) {
            users.push(user);
        }
    }
    let pair = match (wish.kind, users.as_slice()) {
        (ConversationKind::Direct, [one, other]) => Some(rows::direct_pair(one, other)),
        (ConversationKind::Direct, _) => {
            let text = format!(
                "a direct conversation has two members, not {}; put the other user into `members`",
                users.len()
            );
            return invalid_request(text);
        }
        (_, []) => {
            return invalid_request(
                "`members` must contain at least one user if a service does not act for a user"
                    .to_owned(),
            );
        }
        _ => None,
    };
    let role = |nth| match nth {
        0 => MemberRole::Owner,
        _ => MemberRole::Member,
    };
    let members = users.into_iter().enumerate();
    let support = wish.kind == ConversationKind::Support;
    Ok(ConversationDraft {
        id: wish.id,
        kind: wish.kind,
        title: wish.title.filter(|it| !it.is_empty()),
        direct_pair: pair,
        open: wish.open.unwrap_or(false),
        history: wish.history.unwrap_or(History::All),
        priority: wish.priority.or(support.then_some(Priority::Normal)),
        creator: caller.user.clone(),
        idempotency_key: wish.key,
        members: members.map(|(nth, user)| (user, role(nth))).collect(),
    })
}

/// Rejects fields that this kind of conversation does not have.
fn validate_patch(kind: ConversationKind, patch: &ConversationPatch) -> Result<()> {
    if let Some(title) = &patch.title {
        if title.len() > MAX_TITLE_BYTES {
            return invalid_request(format!("`title` is longer than {MAX_TITLE_BYTES} bytes"));
        }
        if title.chars().any(char::is_control) {
            return invalid_request("`title` contains a control character".to_owned());
        }
        if kind == ConversationKind::Direct && !title.is_empty() {
            return invalid_request("a direct conversation cannot have a `title`".to_owned());
        }
    }
    if patch.open == Some(true) && kind != ConversationKind::Group {
        return invalid_request("only a group can be `open`".to_owned());
    }
    if patch.history == Some(History::SinceJoin) && kind == ConversationKind::Direct {
        return invalid_request(
            "both members see the whole `history` of a direct conversation; use `all`".to_owned(),
        );
    }
    if patch.priority.is_some() && kind != ConversationKind::Support {
        return invalid_request("only a support conversation can have a `priority`".to_owned());
    }
    Ok(())
}

fn invalid_request<T>(text: String) -> Result<T> {
    Err(Error::InvalidRequest(text))
}
