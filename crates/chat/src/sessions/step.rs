//! The steps on a session in the store.

use parlor_store::{Script, script};

use super::Sessions;
use super::native;
use super::rows::{UserRow, seconds};
use super::session::Session;
use crate::context::{Moment, millis};
use crate::error::Result;
use crate::ids::{DeviceId, UserId};
use crate::keys::TtlName;

static CHECK: Script = script!("check.lua").native(native::check);
static WRITE: Script = script!("write.lua").native(native::write);

/// What the store knows of a session.
#[derive(Debug)]
pub(super) enum Found {
    /// Nothing that can be relied on.
    Cold,
    /// The token was revoked.
    Revoked,
    /// There was one, and it was deleted; or there never was.
    Gone,
    /// There is one.
    Here(Session),
}

/// Why a session is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Why {
    /// It begins, by a token issued then.
    Open(Moment),
    /// The rows say what it was.
    Rebuild,
    /// The rows were changed.
    Set,
}

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrote {
    /// It is there now, in the place of one of this device.
    Done(Option<DeviceId>),
    /// The user is blocked.
    Blocked,
    /// The token was revoked.
    Revoked,
    /// Somebody else was first: look again.
    Again,
}

impl Sessions {
    fn ttl(&self) -> u64 {
        millis(self.ctx.keys().ttl(TtlName::Session))
    }

    /// Before when a session must have been used last to be over.
    pub(super) fn oldest(&self) -> Moment {
        Moment(self.ctx.now().ms().saturating_sub(self.ttl()))
    }

    fn epoch(&self) -> u64 {
        self.ctx.store().current_epoch()
    }

    fn names(&self, user: &UserId) -> [crate::keys::Key; 2] {
        let keys = self.ctx.keys();
        [keys.session(user), keys.revoked(user)]
    }

    /// Looks, and renews the session if `renew` says when it is used.
    pub(super) async fn look(
        &self,
        user: &UserId,
        issued: Option<Moment>,
        renew: Option<Moment>,
    ) -> Result<Found> {
        let call = CHECK
            .keys(&self.names(user))
            .arg(self.epoch())
            .arg(issued.map_or(String::new(), |at| seconds(at.ms()).to_string()))
            .arg(renew.map_or(String::new(), |at| at.ms().to_string()))
            .arg(self.ttl());
        // A renewal need not outlive the process: the row learns of it, too.
        let store = self.ctx.store().repeatable().fleeting();
        let reply: Vec<String> = call.run(&store).await?;
        let words: Vec<&str> = reply.iter().map(String::as_str).collect();
        Ok(match words[..] {
            ["here", status, active, device, login, seen, address] => {
                let held = [status, active, device, login, seen, address];
                Found::Here(Session::read(user, held))
            }
            ["gone"] => Found::Gone,
            ["revoked"] => Found::Revoked,
            _ => Found::Cold,
        })
    }

    /// Writes what the rows say, or no session.
    pub(super) async fn write(
        &self,
        user: &UserId,
        row: &UserRow,
        session: Option<&Session>,
        why: Why,
    ) -> Result<Wrote> {
        let (mode, issued) = match why {
            Why::Open(at) => ("open", seconds(at.ms())),
            Why::Rebuild => ("rebuild", 0),
            Why::Set => ("set", 0),
        };
        let mut call = WRITE
            .keys(&self.names(user))
            .arg(self.epoch())
            .arg(row.revoked())
            .arg(self.ttl())
            .arg(mode)
            .arg(issued)
            .arg(u8::from(!row.is_known()));
        for (field, value) in session.iter().flat_map(|session| session.fields()) {
            call = call.arg(field).arg(value);
        }
        let reply: Vec<String> = call.run(&self.ctx.store().repeatable()).await?;
        let words: Vec<&str> = reply.iter().map(String::as_str).collect();
        Ok(match words[..] {
            ["done", before] => Wrote::Done(DeviceId::new(before).ok()),
            ["blocked"] => Wrote::Blocked,
            ["revoked"] => Wrote::Revoked,
            _ => Wrote::Again,
        })
    }
}
