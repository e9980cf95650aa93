//! Telling every node that a session has ended, and hearing of it.
//!
//! Always true: what the channel did not carry is found by asking the store for everybody who is attached: when something
//! may have been missed, and twice a minute in any case, because other services tell nobody.

use std::sync::Arc;
use std::time::Duration;

use parlor_store::Event;
use tokio::time::sleep;

use super::Sessions;
use super::hub::{Attached, Attachment, End, Ended};
use super::session::{Reason, Status};
use super::step::Found;
use crate::access::Caller;
use crate::bus::frame::{self, Frame, Kind};
use crate::context::Moment;
use crate::error::{Error, Result};
use crate::ids::{DeviceId, UserId};

/// Before the channel is asked for again while the store is away.
const PAUSE: Duration = Duration::from_secs(1);
/// Users who are asked for at a time.
const BATCH: usize = 1_000;

impl Sessions {
    /// A connection of the caller that must not outlive the session: `ended` is called with the reason when it has to go,
    /// perhaps before this returns. Attached first and asked then, so that no block in between is missed.
    pub async fn attach_with(
        &self,
        caller: &Caller,
        device: Option<&DeviceId>,
        ended: Ended,
    ) -> Result<Attachment> {
        let times = self.times(caller);
        let attachment = self.hub.attach(caller.user()?, device, times, ended);
        attachment.entered();
        self.attached(caller).await?;
        Ok(attachment)
    }

    /// The same for somebody who waits for the end.
    pub async fn attach(&self, caller: &Caller, device: Option<&DeviceId>) -> Result<Attached> {
        let (user, times) = (caller.user()?, self.times(caller));
        let attached = Attached::by(|ended| self.hub.attach(user, device, times, ended));
        self.attached(caller).await?;
        Ok(attached)
    }

    /// Now, and of when a token is.
    pub(super) fn times(&self, caller: &Caller) -> (Moment, Option<Moment>) {
        (self.ctx.now(), caller.issued_at.map(Moment))
    }

    async fn attached(&self, caller: &Caller) -> Result<()> {
        self.distrust(caller.user()?);
        self.check(caller.clone()).await.map(drop)
    }

    /// Tells every node. If it is not heard, they find out by asking.
    pub(super) async fn tell(&self, user: &UserId, reason: Reason, device: Option<&DeviceId>) {
        let end = End {
            reason,
            at: self.ctx.now(),
            device: device.cloned(),
        };
        // Who came just now is asked for when this node hears itself.
        let _ = self.hub.end(user, &end);
        let device = device.map_or("", DeviceId::as_str);
        let body = format!("{} {} {user} {device}", reason.name(), end.at.ms());
        let mut frame = frame::head(Kind::SessionClosed, body.len());
        frame.extend(body.as_bytes());
        let channel = self.ctx.keys().control_bus();
        let _ = self
            .ctx
            .store()
            .bus()
            .publish(channel.as_str(), frame)
            .await;
    }

    /// Hears of sessions that ended, for as long as it is polled.
    pub(super) async fn hear(self: Arc<Self>) {
        let channel = self.ctx.keys().control_bus();
        loop {
            if let Ok(mut heard) = self.ctx.store().bus().subscribe(channel.as_str()).await {
                crate::ticking::told("ask for sessions", &self.recheck().await);
                while let Some(event) = heard.next().await {
                    match event {
                        Event::Message { payload, .. } => self.heard(&payload),
                        Event::MaybeMissed => {
                            crate::ticking::told("ask for sessions", &self.recheck().await);
                        }
                    }
                }
            }
            sleep(PAUSE).await;
        }
    }

    fn heard(self: &Arc<Self>, payload: &[u8]) {
        let Some((user, end)) = closed(payload) else {
            return;
        };
        self.distrust(&user);
        let (late, mark) = self.hub.end(&user, &end);
        if late.is_empty() {
            return;
        }
        // Aside: others must not wait for it to hear of their end.
        let this = Arc::clone(self);
        tokio::spawn(async move {
            for issued in late {
                let looked = this.recheck_one(&user, issued, mark).await;
                crate::ticking::told("ask for a session", &looked);
            }
        });
    }

    /// Asks for everybody who is attached, and ends the connections of those whose session is over.
    pub async fn recheck(&self) -> Result<()> {
        let (users, mark) = self.hub.users();
        for batch in users.chunks(BATCH) {
            let looks = batch.iter().map(|user| self.recheck_one(user, None, mark));
            for looked in futures_util::future::join_all(looks).await {
                if looked.as_ref().is_err_and(Error::is_away) {
                    return looked;
                }
                // The others are not to wait for one that fails for a reason of its own.
                crate::ticking::told("ask for a session", &looked);
            }
        }
        Ok(())
    }

    /// Asks for the session of a user, or for that of a token of some moment.
    async fn recheck_one(&self, user: &UserId, issued: Option<Moment>, mark: u64) -> Result<()> {
        let over = match self.look(user, issued, None).await? {
            Found::Here(session) => (session.status == Status::Blocked).then_some(Reason::Blocked),
            Found::Gone | Found::Revoked => Some(Reason::Logout),
            Found::Cold => match self.find(user, issued, None).await {
                Ok(session) => (session.status == Status::Blocked).then_some(Reason::Blocked),
                Err(Error::SessionExpired) => Some(Reason::Logout),
                Err(error) => return Err(error),
            },
        };
        if let Some(reason) = over {
            self.distrust(user);
            self.hub.end_entered(user, reason, issued, mark);
        }
        Ok(())
    }
}

/// `reason moment user device` after the head of the frame; no device for all of them.
fn closed(payload: &[u8]) -> Option<(UserId, End)> {
    let Frame::Known(Kind::SessionClosed, body) = Frame::from(payload) else {
        return None;
    };
    let mut words = str::from_utf8(body).ok()?.splitn(4, ' ');
    let reason = Reason::named(words.next()?)?;
    let at = Moment(words.next()?.parse().ok()?);
    let user = UserId::new(words.next()?).ok()?;
    let device = DeviceId::new(words.next()?).ok();
    Some((user, End { reason, at, device }))
}
