//! Changing members: one transaction under the lock of the conversation's row, then the caches forget.

use super::member_rows::{self, Member};
use super::rights::{self, is, manages, owners_by_owners, rules};
use super::rows::{self, ConversationRow};
use super::telling::{Change, Standing};
use super::words::{ConversationKind, MemberRole};
use super::{Conversations, repeated};
use crate::access::{Caller, Role};
use crate::context::Moment;
use crate::database::Transaction;
use crate::error::{Error, Result};
use crate::ids::{ConversationId, UserId};

/// What becomes of the members.
struct Altered {
    users: Vec<(UserId, Standing)>,
    /// How many more there are; none if nothing changed.
    more: Option<i64>,
}

impl Altered {
    fn nothing(user: &UserId, standing: Standing) -> Self {
        Self {
            users: vec![(user.clone(), standing)],
            more: None,
        }
    }

    fn one(user: &UserId, standing: Standing, more: i64) -> Self {
        Self {
            more: Some(more),
            ..Self::nothing(user, standing)
        }
    }
}

impl Conversations {
    /// The caller joins: an open group, or as an agent a support conversation.
    pub(super) async fn join(
        &self,
        caller: &Caller,
        id: &ConversationId,
    ) -> Result<ConversationRow> {
        let user = caller.user()?;
        repeated!(self.join_once(caller, id, user))
    }

    async fn join_once(
        &self,
        caller: &Caller,
        id: &ConversationId,
        user: &UserId,
    ) -> Result<ConversationRow> {
        let mut tx = self.database.begin().await?;
        let head = rows::lock(&mut tx, id).await?;
        let head = head.ok_or_else(|| Error::NotFound(format!("there is no conversation {id}")))?;
        if let Some(member) = member_rows::member_in(&mut tx, id, user).await? {
            let same = Altered::nothing(user, Standing::Is(member.role));
            return self.done(tx, head, same).await;
        }
        let service = caller.role == Role::Service;
        let role = match head.kind {
            ConversationKind::Direct => None,
            ConversationKind::Group => (service || head.open != 0).then_some(MemberRole::Member),
            ConversationKind::Support => rules(caller).then_some(MemberRole::Admin),
        };
        let Some(role) = role else {
            return Err(Error::Forbidden(not_joined(head.kind).to_owned()));
        };
        let role = first_owns(&head, role);
        member_rows::add(&mut tx, &head, &[(user.clone(), role)], self.ctx.now()).await?;
        let joined = Altered::one(user, Standing::Joined(role), 1);
        self.done(tx, head, joined).await
    }

    /// The caller leaves. Leaving twice is harmless.
    pub(super) async fn leave(
        &self,
        caller: &Caller,
        id: &ConversationId,
    ) -> Result<ConversationRow> {
        let user = caller.user()?;
        repeated!(self.remove_once(caller, id, user))
    }

    /// A member is removed: by themself, or by whoever may. Removing twice is harmless.
    pub(super) async fn remove(
        &self,
        caller: &Caller,
        id: &ConversationId,
        user: &UserId,
    ) -> Result<ConversationRow> {
        repeated!(self.remove_once(caller, id, user))
    }

    async fn remove_once(
        &self,
        caller: &Caller,
        id: &ConversationId,
        user: &UserId,
    ) -> Result<ConversationRow> {
        let mut tx = self.database.begin().await?;
        let head = rows::lock(&mut tx, id).await?;
        let head = head.ok_or_else(|| rights::missing(caller, id))?;
        let member = member_rows::member_in(&mut tx, id, user).await?;
        if !is(caller, user) {
            let role = self.role_in(&mut tx, caller, id).await?;
            manages(role)?;
            owners_by_owners(role, &[member.as_ref().map(|it| it.role)])?;
        }
        let Some(member) = member else {
            let same = Altered::nothing(user, Standing::Left);
            return self.done(tx, head, same).await;
        };
        must_not_be_direct(&head)?;
        member_rows::remove(&mut tx, id, user).await?;
        let mut left = Altered::one(user, Standing::Left, -1);
        // Everybody is looked at for it, so only where an owner goes.
        if member.role == MemberRole::Owner
            && let Some(heir) = member_rows::heir(&mut tx, id).await?
        {
            member_rows::set_role(&mut tx, id, &heir.user_id, MemberRole::Owner).await?;
            let standing = Standing::Is(MemberRole::Owner);
            left.users.push((heir.user_id, standing));
        }
        self.done(tx, head, left).await
    }

    /// Adds a member, gives one another role, or mutes the conversation for one until a moment in ms.
    pub(super) async fn put(
        &self,
        caller: &Caller,
        id: &ConversationId,
        user: &UserId,
        role: Option<MemberRole>,
        muted: Option<u64>,
    ) -> Result<Member> {
        if muted.is_some() && !is(caller, user) && caller.role != Role::Service {
            let text = "members mute a conversation for themselves only";
            return Err(Error::Forbidden(text.to_owned()));
        }
        // Who only mutes is in nobody's way.
        let is_member = role.is_none() && self.member(id, user).await?.is_some();
        if !(is_member && muted.is_some()) {
            repeated!(self.put_once(caller, id, user, role))?;
        }
        if let Some(until) = muted {
            let until = Some(Moment(until)).filter(|it| it.ms() > 0);
            self.unread.mute(user, id, until).await?;
        }
        let member = self.member(id, user).await?;
        // Somebody may have removed them since.
        member.ok_or_else(|| Error::NotFound(format!("{user} is not a member of {id}")))
    }

    async fn put_once(
        &self,
        caller: &Caller,
        id: &ConversationId,
        user: &UserId,
        role: Option<MemberRole>,
    ) -> Result<ConversationRow> {
        let mut tx = self.database.begin().await?;
        let head = rows::lock(&mut tx, id).await?;
        let head = head.ok_or_else(|| rights::missing(caller, id))?;
        let member = member_rows::member_in(&mut tx, id, user).await?;
        let now = member.as_ref().map(|it| it.role);
        let wanted = role.or(now).unwrap_or(MemberRole::Member);
        if now != Some(wanted) {
            must_not_be_direct(&head)?;
            let own = self.role_in(&mut tx, caller, id).await?;
            manages(own)?;
            owners_by_owners(own, &[now, Some(wanted)])?;
        } else if !is(caller, user) {
            // That they are members is for members to know.
            self.role_in(&mut tx, caller, id).await?;
        }
        let altered = match now {
            None => {
                let role = first_owns(&head, wanted);
                let new = (user.clone(), role);
                member_rows::add(&mut tx, &head, &[new], self.ctx.now()).await?;
                Altered::one(user, Standing::Joined(role), 1)
            }
            Some(role) if role != wanted => {
                member_rows::set_role(&mut tx, id, user, wanted).await?;
                let owned = role == MemberRole::Owner;
                if owned && member_rows::heir(&mut tx, id).await?.is_some() {
                    let text = format!("{user} is the only owner; make somebody else owner first");
                    return Err(Error::InvalidRequest(text));
                }
                Altered::one(user, Standing::Is(wanted), 0)
            }
            Some(role) => Altered::nothing(user, Standing::Is(role)),
        };
        self.done(tx, head, altered).await
    }

    /// Deletes a conversation with its messages. Its members are told.
    pub(super) async fn delete(&self, caller: &Caller, id: &ConversationId) -> Result<()> {
        repeated!(self.delete_once(caller, id))
    }

    async fn delete_once(&self, caller: &Caller, id: &ConversationId) -> Result<()> {
        let mut tx = self.database.begin().await?;
        let head = rows::lock(&mut tx, id).await?;
        let head = head.ok_or_else(|| rights::missing(caller, id))?;
        if self.role_in(&mut tx, caller, id).await? != MemberRole::Owner {
            let text = "only owners delete a conversation";
            return Err(Error::Forbidden(text.to_owned()));
        }
        let users = member_rows::users(&mut tx, id).await?.into_iter();
        rows::delete(&mut tx, id, self.ctx.now()).await?;
        let change = Change {
            conversation: id.clone(),
            members_version: head.members_version,
            last_seq: head.last_seq,
            deleted: true,
            users: users.map(|user| (user, Standing::Left)).collect(),
        };
        let debt = self.owed.promise(&change);
        tx.commit().await?;
        self.told(debt, change).await
    }

    /// What the caller may do, by their row in the transaction.
    pub(super) async fn role_in(
        &self,
        tx: &mut Transaction,
        caller: &Caller,
        id: &ConversationId,
    ) -> Result<MemberRole> {
        let own = match &caller.user {
            Some(user) if !rules(caller) => member_rows::member_in(tx, id, user).await?,
            _ => None,
        };
        rights::role(caller, id, own.as_ref())
    }

    /// Commits if there is something to commit, and tells of it in any case.
    async fn done(
        &self,
        mut tx: Transaction,
        mut head: ConversationRow,
        altered: Altered,
    ) -> Result<ConversationRow> {
        match altered.more {
            Some(more) => head = rows::count(&mut tx, &head.id, more).await?,
            // What the lock raised is undone.
            None => head.members_version -= 1,
        }
        let change = Change {
            conversation: head.id.clone(),
            members_version: head.members_version,
            last_seq: head.last_seq,
            deleted: false,
            users: altered.users,
        };
        let debt = self.owed.promise(&change);
        match altered.more {
            Some(_) => tx.commit().await?,
            None => drop(tx),
        }
        self.told(debt, change).await?;
        Ok(head)
    }
}

/// Whoever comes into an empty conversation owns it.
const fn first_owns(head: &ConversationRow, role: MemberRole) -> MemberRole {
    match head.member_count {
        0 => MemberRole::Owner,
        _ => role,
    }
}

fn must_not_be_direct(head: &ConversationRow) -> Result<()> {
    if head.kind == ConversationKind::Direct {
        let text = "a direct conversation keeps its two members; mute it, or delete it";
        return Err(Error::Forbidden(text.to_owned()));
    }
    Ok(())
}

const fn not_joined(kind: ConversationKind) -> &'static str {
    match kind {
        ConversationKind::Direct => "nobody joins a direct conversation",
        ConversationKind::Group => "the group is not open: ask an owner or admin of it to add you",
        ConversationKind::Support => "only agents join a support conversation",
    }
}
