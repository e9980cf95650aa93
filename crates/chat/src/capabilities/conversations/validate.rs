//! Validation of the fields of a conversation.
//!
//! Invariant: nothing here reads or writes; the request alone decides.

use std::collections::HashSet;

use super::CreateConversation;
use super::model::{
    ConversationDraft, ConversationKind, ConversationPatch, HistoryVisibility, MAX_INITIAL_MEMBERS,
    MemberRole, SupportPriority,
};
use super::rows;
use crate::api::caller::Caller;
use crate::api::error::{Error, Result};
use crate::clock::Timestamp;
use crate::ids::{ConversationId, UserId};

/// Maximum length of a title in bytes.
const MAX_TITLE_BYTES: usize = 256;
/// Maximum length of an idempotency key in bytes.
pub(crate) const MAX_IDEMPOTENCY_KEY_BYTES: usize = 256;

/// Validates a create request, and fills in the defaults.
pub(super) fn validate_create(
    caller: &Caller,
    request: CreateConversation,
    now: Timestamp,
) -> Result<ConversationDraft> {
    let kind = request.kind;
    let id = match request.id {
        Some(id) => ConversationId::new(id)?,
        None => generate_conversation_id(now),
    };
    let named = request.members.iter().map(UserId::new);
    let named: Vec<UserId> = named.collect::<std::result::Result<_, _>>()?;
    if named.len() > MAX_INITIAL_MEMBERS {
        return Err(Error::TooMany {
            items: "members",
            given: named.len(),
            max: MAX_INITIAL_MEMBERS,
        });
    }
    let mut fields = ConversationPatch {
        title: request.title,
        open: request.open,
        history: request.history,
        priority: request.priority,
    };
    validate_patch(kind, &fields)?;
    fields.title = fields.title.filter(|it| !it.is_empty());
    fields.open.get_or_insert(false);
    fields.history.get_or_insert(HistoryVisibility::All);
    if kind == ConversationKind::Support {
        fields.priority.get_or_insert(SupportPriority::Normal);
    }
    if let Some(key) = &request.idempotency_key {
        validate_idempotency_key(key)?;
    }
    let members = initial_members(caller, named);
    Ok(ConversationDraft {
        id,
        kind,
        fields,
        direct_pair: direct_pair(kind, &members)?,
        creator: caller.user.clone(),
        idempotency_key: request.idempotency_key,
        members,
    })
}

/// Generates a conversation id; later ids sort after earlier ones.
fn generate_conversation_id(now: Timestamp) -> ConversationId {
    ConversationId::new(now.new_uuid_v7().to_string()).expect("a UUID is an id")
}

fn validate_idempotency_key(key: &str) -> Result<()> {
    let fits = (1..=MAX_IDEMPOTENCY_KEY_BYTES).contains(&key.len());
    if fits && !key.chars().any(char::is_control) {
        return Ok(());
    }
    invalid_request(format!(
        "`idempotencyKey` must be 1 to {MAX_IDEMPOTENCY_KEY_BYTES} bytes of visible text"
    ))
}

/// The first user becomes the owner: the caller, or the first named member if a service does not act for a user.
fn initial_members(caller: &Caller, named: Vec<UserId>) -> Vec<(UserId, MemberRole)> {
    let mut known = HashSet::new();
    let mut users: Vec<UserId> = caller.user.clone().into_iter().chain(named).collect();
    users.retain(|user| known.insert(user.clone()));
    let roles = std::iter::once(MemberRole::Owner).chain(std::iter::repeat(MemberRole::Member));
    users.into_iter().zip(roles).collect()
}

/// The pair of a direct conversation. Rejects a wrong number of members.
fn direct_pair(kind: ConversationKind, members: &[(UserId, MemberRole)]) -> Result<Option<String>> {
    match (kind, members) {
        (ConversationKind::Direct, [(one, _), (other, _)]) => {
            Ok(Some(rows::direct_pair(one, other)))
        }
        (ConversationKind::Direct, _) => invalid_request(format!(
            "a direct conversation has two members, not {}; put the other user into `members`",
            members.len()
        )),
        (_, []) => invalid_request(
            "`members` must contain at least one user if a service does not act for a user",
        ),
        _ => Ok(None),
    }
}

/// Rejects fields that this kind of conversation does not have.
pub(crate) fn validate_patch(kind: ConversationKind, patch: &ConversationPatch) -> Result<()> {
    if let Some(title) = &patch.title {
        if title.len() > MAX_TITLE_BYTES {
            return invalid_request(format!("`title` is longer than {MAX_TITLE_BYTES} bytes"));
        }
        if title.chars().any(char::is_control) {
            return invalid_request("`title` contains a control character");
        }
        if kind == ConversationKind::Direct && !title.is_empty() {
            return invalid_request("a direct conversation cannot have a `title`");
        }
    }
    if patch.open == Some(true) && kind != ConversationKind::Group {
        return invalid_request("only a group can be `open`");
    }
    if patch.history == Some(HistoryVisibility::SinceJoin) && kind == ConversationKind::Direct {
        return invalid_request(
            "both members see the whole `history` of a direct conversation; use `all`",
        );
    }
    if patch.priority.is_some() && kind != ConversationKind::Support {
        return invalid_request("only a support conversation can have a `priority`");
    }
    Ok(())
}

fn invalid_request<T>(text: impl Into<String>) -> Result<T> {
    Err(Error::InvalidRequest(text.into()))
}
