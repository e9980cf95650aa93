//! Creating conversations, and what may be said about one.

use super::ops::{New, Patch};
use super::rows::{self, ConversationRow};
use super::telling::{Change, Standing};
use super::words::{ConversationKind, History, MemberRole, Priority};
use super::{Conversations, repeated};
use super::{member_rows, rights};
use crate::access::Caller;
use crate::context::Moment;
use crate::error::{Error, Result};
use crate::ids::{ConversationId, UserId};

/// Members that can be named when a conversation is created.
pub const MOST_MEMBERS: usize = 1_000;
/// Most bytes of a title.
pub const MOST_TITLE: usize = 256;
/// Most bytes of an idempotency key.
const MOST_KEY: usize = 256;

/// What was asked for.
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
    /// Creates a conversation, or finds the one that was: the direct conversation of the pair, or what the same caller
    /// created under the same key. Says whether it is new.
    pub(super) async fn create(
        &self,
        caller: &Caller,
        wish: Wish,
    ) -> Result<(ConversationRow, bool)> {
        let new = checked(caller, wish)?;
        for _ in 0..super::TRIES {
            if let Some(done) = repeated!(self.create_once(&new))? {
                return Ok(done);
            }
            // What is in the way is found by its pair or key, or it has this id.
            if new.id.is_some() && new.key.is_none() && new.pair.is_none() {
                break;
            }
        }
        let id = new.id.unwrap_or_else(|| fresh(self.ctx.now()));
        Err(Error::ConversationExists(id))
    }

    /// None if something is in the way.
    async fn create_once(&self, new: &New) -> Result<Option<(ConversationRow, bool)>> {
        let now = self.ctx.now();
        let mut tx = self.database.begin().await?;
        let mut found = None;
        if let Some(key) = &new.key {
            let creator = new.creator.as_ref().map_or("", UserId::as_str);
            found = rows::by_key(&mut tx, creator, key).await?;
        }
        if let (None, Some(pair)) = (&found, &new.pair) {
            found = rows::by_pair(&mut tx, pair).await?;
        }
        if let Some(found) = found {
            drop(tx);
            let change = change(&found, new, |_| Standing::Same);
            let debt = self.owed.promise(&change);
            self.told(debt, change).await?;
            return Ok(Some((found, false)));
        }
        let id = new.id.clone().unwrap_or_else(|| fresh(now));
        let Some(row) = rows::create(&mut tx, &id, new, new.members.len(), now).await? else {
            return Ok(None);
        };
        // After the row, which waits for whoever deletes it now.
        if rows::is_buried(&mut tx, &id).await? {
            return Err(Error::ConversationExists(id));
        }
        member_rows::add(&mut tx, &row, &new.members, now).await?;
        let change = change(&row, new, Standing::Joined);
        let debt = self.owed.promise(&change);
        tx.commit().await?;
        self.told(debt, change).await?;
        Ok(Some((row, true)))
    }

    /// Changes a conversation itself.
    pub(super) async fn update(
        &self,
        caller: &Caller,
        id: &ConversationId,
        patch: Patch,
    ) -> Result<ConversationRow> {
        let head = self.head(id).await?;
        let head = head.ok_or_else(|| rights::missing(caller, id))?;
        let own = match &caller.user {
            Some(user) => self.member(id, user).await?,
            None => None,
        };
        rights::manages(rights::role(caller, id, own.as_ref())?)?;
        fitting(head.kind, &patch)?;
        repeated!(self.update_once(caller, id, &patch))
    }

    async fn update_once(
        &self,
        caller: &Caller,
        id: &ConversationId,
        patch: &Patch,
    ) -> Result<ConversationRow> {
        let mut tx = self.database.begin().await?;
        // First, by which the row is locked: nobody is removed or given another role any more, and who is refused now
        // has changed nothing.
        let row = rows::change(&mut tx, id, patch).await?;
        let row = row.ok_or_else(|| rights::missing(caller, id))?;
        rights::manages(self.role_in(&mut tx, caller, id).await?)?;
        tx.commit().await?;
        Ok(row)
    }
}

fn change(row: &ConversationRow, new: &New, stand: impl Fn(MemberRole) -> Standing) -> Change {
    let users = new.members.iter();
    Change {
        conversation: row.id.clone(),
        members_version: row.members_version,
        last_seq: row.last_seq,
        deleted: false,
        users: users
            .map(|(user, role)| (user.clone(), stand(*role)))
            .collect(),
    }
}

/// A new id, in order of time.
fn fresh(now: Moment) -> ConversationId {
    ConversationId::new(now.uuid().to_string()).expect("a UUID is an id")
}

fn checked(caller: &Caller, wish: Wish) -> Result<New> {
    if wish.members.len() > MOST_MEMBERS {
        return Err(Error::TooMany {
            what: "members",
            given: wish.members.len(),
            most: MOST_MEMBERS,
        });
    }
    fitting(
        wish.kind,
        &Patch {
            title: wish.title.clone(),
            open: wish.open,
            history: wish.history,
            priority: wish.priority,
        },
    )?;
    if let Some(key) = &wish.key
        && (key.is_empty() || key.len() > MOST_KEY || key.chars().any(char::is_control))
    {
        let text = format!("`idempotencyKey` must be 1 to {MOST_KEY} bytes of visible text");
        return refused(text);
    }
    // Whoever creates it owns it; where a service acts for nobody, the first member does.
    let mut users: Vec<UserId> = Vec::with_capacity(wish.members.len() + 1);
    let mut known = std::collections::HashSet::new();
    for user in caller.user.clone().into_iter().chain(wish.members) {
        if known.insert(user.clone()) {
            users.push(user);
        }
    }
    let pair = match (wish.kind, users.as_slice()) {
        (ConversationKind::Direct, [one, other]) => Some(rows::pair(one, other)),
        (ConversationKind::Direct, _) => {
            let text = format!(
                "a direct conversation has two members, not {}: name the other one in `members`",
                users.len()
            );
            return refused(text);
        }
        (_, []) => {
            return refused("a service that acts for nobody names a member at least".to_owned());
        }
        _ => None,
    };
    let role = |nth| match nth {
        0 => MemberRole::Owner,
        _ => MemberRole::Member,
    };
    let members = users.into_iter().enumerate();
    let support = wish.kind == ConversationKind::Support;
    Ok(New {
        id: wish.id,
        kind: wish.kind,
        title: wish.title.filter(|it| !it.is_empty()),
        pair,
        open: wish.open.unwrap_or(false),
        history: wish.history.unwrap_or(History::All),
        priority: wish.priority.or(support.then_some(Priority::Normal)),
        creator: caller.user.clone(),
        key: wish.key,
        members: members.map(|(nth, user)| (user, role(nth))).collect(),
    })
}

/// Refuses what does not fit the kind of conversation.
fn fitting(kind: ConversationKind, patch: &Patch) -> Result<()> {
    if let Some(title) = &patch.title {
        if title.len() > MOST_TITLE {
            return refused(format!("`title` is longer than {MOST_TITLE} bytes"));
        }
        if title.chars().any(char::is_control) {
            return refused("`title` has a control character".to_owned());
        }
        if kind == ConversationKind::Direct && !title.is_empty() {
            return refused("a direct conversation has no `title`".to_owned());
        }
    }
    if patch.open == Some(true) && kind != ConversationKind::Group {
        return refused("only a group can be `open`".to_owned());
    }
    if patch.history == Some(History::SinceJoin) && kind == ConversationKind::Direct {
        return refused("both see all `history` of a direct conversation".to_owned());
    }
    if patch.priority.is_some() && kind != ConversationKind::Support {
        return refused("only a support conversation has a `priority`".to_owned());
    }
    Ok(())
}

fn refused<T>(text: String) -> Result<T> {
    Err(Error::InvalidRequest(text))
}
