//! Holding what the store has against the rows, and setting it right.
//!
//! Always true: the state is read first, the rows then, and the script comes last. So what it finds as it was read is not
//! newer than the rows and is replaced; what has changed meanwhile is put together with them, and nothing is lost.

use std::collections::{HashMap, HashSet};

use parlor_store::Script;
use redis::pipe;

use super::Unread;
use super::field::{self, Held};
use super::rows::{self, MANY, Position};
use super::steps::KEEP_MS;
use crate::bus::frame::{self, Kind};
use crate::error::Result;
use crate::ids::{ConversationId, UserId};

static RECOUNT: Script = Script::new(
    "unread recount",
    concat!(include_str!("field.lua"), include_str!("recount.lua")),
);

/// How long the end of a membership is kept, so that late steps of it do not count.
const KEEP_LEFT_MS: u64 = 600_000;
/// Conversations in one call.
const IN_CALL: usize = 256;

/// A user whose keys are to be what the rows say.
pub(super) struct Case<'a> {
    pub(super) user: &'a UserId,
    pub(super) held: &'a Held,
    pub(super) rows: &'a [Position],
    /// Conversations that have a counter, though nothing else says that the user belongs to them.
    pub(super) strays: &'a [ConversationId],
    /// All keys are to be written, whether or not the state agrees.
    pub(super) thorough: bool,
}

impl Unread {
    /// Sets the keys of a user right by the rows.
    pub async fn recount(&self, user: &UserId) -> Result<()> {
        self.recount_many(std::slice::from_ref(user), None).await
    }

    /// Steps of these users may have been lost: sets the keys right of those whose state is not what the rows say.
    pub(crate) async fn doubt(&self, users: &[UserId]) -> Result<()> {
        self.hold(users, None, false).await
    }

    /// Sets the keys of these users right, and tells them about a conversation.
    pub(super) async fn recount_many(
        &self,
        users: &[UserId],
        touched: Option<&ConversationId>,
    ) -> Result<()> {
        self.hold(users, touched, true).await
    }

    async fn hold(
        &self,
        users: &[UserId],
        touched: Option<&ConversationId>,
        thorough: bool,
    ) -> Result<()> {
        for users in users.chunks(MANY) {
            let epoch = self.epoch();
            let held = field::read(&self.ctx, users).await?;
            let rows = by_user(rows::of_users(&self.database, users).await?);
            let cases = users.iter().zip(&held).map(|(user, held)| Case {
                user,
                held,
                rows: rows.get(user).map_or(&[][..], |rows| rows),
                strays: &[],
                thorough,
            });
            self.settle(epoch, &cases.collect::<Vec<_>>(), touched)
                .await?;
        }
        Ok(())
    }

    /// Sets the keys right by rows that were read after the state, which was read in this epoch.
    pub(super) async fn settle(
        &self,
        epoch: u64,
        cases: &[Case<'_>],
        touched: Option<&ConversationId>,
    ) -> Result<()> {
        let mut pipe = pipe();
        for case in cases {
            self.add(&mut pipe, epoch, case, touched);
        }
        if pipe.is_empty() {
            return Ok(());
        }
        let mut store = self.ctx.store().repeatable();
        Ok(pipe.exec_async(&mut store).await?)
    }

    fn add(
        &self,
        pipe: &mut redis::Pipeline,
        epoch: u64,
        case: &Case<'_>,
        touched: Option<&ConversationId>,
    ) {
        let now = self.ctx.now().ms();
        let total = case.rows.iter().map(|row| row.share(now)).sum();
        let warm = case.held.is_warm(epoch) && !case.thorough;
        let mut lines: Vec<Line<'_>> = Vec::new();
        let wrong = |row: &&Position| !warm || !case.held.agrees(row, now);
        for row in case.rows.iter().filter(wrong) {
            lines.push(Line {
                conversation: row.conversation_id.clone(),
                expected: case.held.fields.get(row.conversation_id.as_str()),
                row: Some(row),
            });
        }
        lines.extend(gone(case, now));
        let nobody = case.rows.is_empty() && case.held.is_empty();
        let right = warm && case.held.totals(total);
        if lines.is_empty() && (nobody || right) {
            return;
        }
        let pages = lines.len().div_ceil(IN_CALL).max(1);
        for nth in 0..pages {
            let from = nth * IN_CALL;
            let page = &lines[from..lines.len().min(from + IN_CALL)];
            pipe.add_command(self.call(epoch, case.user, page, nth + 1 == pages, touched));
        }
    }

    fn call(
        &self,
        epoch: u64,
        user: &UserId,
        lines: &[Line<'_>],
        last: bool,
        touched: Option<&ConversationId>,
    ) -> redis::Cmd {
        let keys = self.ctx.keys();
        let mut names = vec![keys.unread_state(user), keys.unread_total(user)];
        names.extend(lines.iter().map(|it| keys.unread(user, &it.conversation)));
        let call = RECOUNT
            .keys(names)
            .arg(self.ctx.now().ms())
            .arg(epoch)
            .arg(KEEP_MS)
            .arg(self.ctx.store().bus().publish_command())
            .arg(&frame::head(Kind::Unread, 0)[..])
            .arg(keys.user_bus(user))
            .arg(u8::from(last))
            .arg(touched.map_or("", ConversationId::as_str))
            .arg(KEEP_LEFT_MS);
        let call = lines.iter().fold(call, |call, line| {
            let call = call
                .arg(&line.conversation)
                .arg(line.expected.map_or("", String::as_str))
                .arg(if line.row.is_some() { "placed" } else { "gone" });
            call.arg(&line.numbers()[..])
        });
        call.cmd()
    }
}

/// What the rows say about a conversation: none if the user does not belong to it.
struct Line<'a> {
    conversation: ConversationId,
    expected: Option<&'a String>,
    row: Option<&'a Position>,
}

impl Line<'_> {
    fn numbers(&self) -> [u64; 6] {
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

/// The conversations that the store knows of and the rows do not.
fn gone<'a>(case: &'a Case<'_>, now: u64) -> impl Iterator<Item = Line<'a>> {
    let rows = case.rows.iter();
    let members: HashSet<&str> = rows.map(|row| row.conversation_id.as_str()).collect();
    let fields = case.held.fields.iter().filter_map(move |(id, text)| {
        let stray = case.strays.iter().any(|it| it.as_str() == id);
        if !stray && field::left_at(text).is_some_and(|at| at + KEEP_LEFT_MS > now) {
            return None;
        }
        Some(Line {
            conversation: ConversationId::new(id).ok()?,
            expected: Some(text),
            row: None,
        })
    });
    let unknown = |id: &&ConversationId| !case.held.fields.contains_key(id.as_str());
    let strays = case.strays.iter().filter(unknown).map(|id| Line {
        conversation: id.clone(),
        expected: None,
        row: None,
    });
    let lines = fields.chain(strays);
    lines.filter(move |line| !members.contains(line.conversation.as_str()))
}

/// Rows by whose they are.
pub(super) fn by_user(rows: Vec<Position>) -> HashMap<UserId, Vec<Position>> {
    let mut users: HashMap<UserId, Vec<Position>> = HashMap::new();
    for row in rows {
        users.entry(row.user_id.clone()).or_default().push(row);
    }
    users
}
