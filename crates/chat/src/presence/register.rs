//! Putting devices into the store.
//!
//! Always true:
//! 1. The node's set of users and the index of deadlines know a device before its state does, so that whoever dies in
//!    between leaves at most an entry too many.
//! 2. Whoever gives up waiting leaves nothing behind: a connect that nobody waits for is a lost connection.

use std::sync::Arc;

use redis::{Cmd, Pipeline, RedisError, Value};

use super::Presence;
use super::local::{self, Going, Held};
use super::ops::{Device, UserStatus};
use super::step::{Settled, Steps, replies};
use crate::context::millis;
use crate::error::{Error, Result};
use crate::ids::DeadlineShard;
use crate::keys::{Key, TtlName};
use crate::ticking::told;

/// Devices of one user.
pub const MOST_DEVICES: usize = 100;

/// Bytes that are kept of what a client says about its device.
pub const MOST_INFO: usize = 256;

/// The epoch of devices that no node holds.
pub(super) const API: &str = "api";

/// Why devices are registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coming {
    /// They come just now.
    Connect,
    /// The same, and their user wants to be seen as online from now on.
    Appear,
    /// They have been there, and the store does not know them: unless they were ended meanwhile.
    Again,
}

/// What became of a registration.
#[derive(Debug)]
pub(super) struct Registered {
    pub(super) settled: Settled,
    pub(super) outcome: Outcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// Somebody has ended the device since.
    Ended,
    /// The user has too many devices.
    TooMany,
}

impl Presence {
    pub(super) async fn come(&self, mut device: Arc<Device>, coming: Coming) -> Result<UserStatus> {
        let info = device.info.as_deref().unwrap_or_default();
        if info.len() > MOST_INFO {
            let short = info.floor_char_boundary(MOST_INFO);
            let info = &mut Arc::make_mut(&mut device).info;
            info.as_mut().expect("it is too long").truncate(short);
        }
        let held = Held {
            connected: self.ctx.now(),
            device,
            announced: false,
        };
        let user = held.device.user.clone();
        let mut awaited = Awaited {
            presence: self,
            held: held.device.socket.is_some().then(|| held.clone()),
        };
        if let Some(held) = awaited.held.clone() {
            self.local.lock().add(held);
        }
        let registered = self.register(std::slice::from_ref(&held), coming).await;
        let socket = awaited.held.take();
        match registered {
            Ok(mut registered) => {
                let registered = registered.pop().expect("one reply for one device")?;
                match registered.outcome {
                    Outcome::Done | Outcome::Ended => Ok(registered.settled.of(&user)),
                    Outcome::TooMany => Err(Error::TooMany {
                        what: "devices of a user",
                        given: MOST_DEVICES + 1,
                        most: MOST_DEVICES,
                    }),
                }
            }
            Err(error) => {
                let socket = socket.map(|held| local::key(&held.device));
                self.local.lock().owe(socket);
                Err(error)
            }
        }
    }

    /// Registers devices; the replies are in their order. Sockets that are refused are forgotten.
    pub(super) async fn register(
        &self,
        devices: &[Held],
        coming: Coming,
    ) -> Result<Vec<Result<Registered>>> {
        let steps = Steps::now(&self.ctx);
        let under_way = UnderWay::begin(self, devices);
        let mut pipe = Pipeline::with_capacity(4 * devices.len());
        for held in devices {
            self.prepare(&mut pipe, &steps, held);
        }
        let mut prepared = pipe.len();
        if self.ctx.keys().cluster() {
            // A pipeline keeps its order on one server only.
            let mut store = self.ctx.store().repeatable();
            Box::pin(pipe.exec_async(&mut store)).await?;
            pipe.clear();
            prepared = 0;
        }
        for held in devices {
            pipe.add_command(self.connect_cmd(&steps, held, coming));
        }
        let replies: Vec<Result<Value>> = replies(self.ctx.store().repeatable(), &mut pipe).await?;
        // Left out here: a pipeline that is told what to ignore keeps a set of it.
        let registered: Vec<Result<Registered>> = replies
            .into_iter()
            .skip(prepared)
            .map(|reply| Ok(redis::from_redis_value(reply?).map_err(RedisError::from)?))
            .collect();
        let gone = under_way.over();
        if !gone.is_empty() {
            // Seldom, so that the others need no room for it; the same below.
            Box::pin(self.write_goings(gone, "")).await?;
        }
        let fresh = coming != Coming::Again;
        for (held, registered) in devices.iter().zip(&registered) {
            told("register a device", registered);
            match registered.as_ref().map(|it| it.outcome) {
                Ok(Outcome::Done) => {}
                // Who comes just now learns it from the answer.
                Ok(_) => Box::pin(self.refuse(held, !fresh)).await?,
                Err(_) if fresh => Box::pin(self.refuse(held, false)).await?,
                Err(_) => {}
            }
        }
        Ok(registered)
    }

    fn prepare(&self, pipe: &mut Pipeline, steps: &Steps<'_>, held: &Held) {
        let keys = self.ctx.keys();
        let user = &held.device.user;
        let ttl = keys.ttl(TtlName::Presence);
        let add = |name: &str, key: Key| {
            // Made at once in the size that most have.
            let mut cmd = Cmd::with_capacity(5, 128);
            cmd.arg(name).arg(key);
            cmd
        };
        let mut zadd = add("ZADD", keys.deadlines(DeadlineShard::of(user)));
        zadd.arg(steps.now.plus(ttl).ms()).arg(user);
        pipe.add_command(zadd);
        if let Some(socket) = &held.device.socket {
            let mut sadd = add("SADD", keys.node_users(self.nodes.id()));
            sadd.arg(user);
            pipe.add_command(sadd);
            let mut set = add("SET", keys.socket_user(socket));
            set.arg(user).arg("PX").arg(millis(ttl));
            pipe.add_command(set);
        }
    }

    fn connect_cmd(&self, steps: &Steps<'_>, held: &Held, coming: Coming) -> Cmd {
        let Held {
            device,
            connected,
            announced,
        } = held;
        let info = device.info.as_ref().map_or_else(String::new, |info| {
            serde_json::to_string(info).expect("a text is JSON")
        });
        let since = (coming == Coming::Again).then(|| connected.ms().to_string());
        steps
            .call(|it| &it.connect, &device.user)
            .arg(&device.id)
            .arg(self.nodes.id())
            .arg(device.socket.as_ref().map_or(API, |_| self.nodes.epoch()))
            .arg(connected.iso())
            .arg(info)
            .arg(if *announced { "restore" } else { "" })
            .arg(match coming {
                Coming::Appear => "visible",
                Coming::Connect | Coming::Again => "",
            })
            .arg(since.unwrap_or_default())
            .arg(MOST_DEVICES)
            .cmd()
    }
}

/// A connect that somebody waits for. If they no longer do, the socket is lost.
struct Awaited<'a> {
    presence: &'a Presence,
    held: Option<Held>,
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            let mut local = self.presence.local.lock();
            let held = local.remove(&held.device, Going::Lost);
            local.keep_going(held.map(|held| (held, Going::Lost)));
        }
    }
}

/// Registrations on their way. If their end is not seen, goodbyes that came meanwhile are said again.
struct UnderWay<'a> {
    presence: &'a Presence,
    devices: &'a [Held],
    over: bool,
}

impl<'a> UnderWay<'a> {
    fn begin(presence: &'a Presence, devices: &'a [Held]) -> Self {
        presence.local.lock().registering(devices);
        Self {
            presence,
            devices,
            over: false,
        }
    }

    /// The store knows the devices; those that went meanwhile.
    fn over(mut self) -> Vec<(Held, Going)> {
        self.over = true;
        self.presence.local.lock().registered(self.devices, true)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.over {
            let mut local = self.presence.local.lock();
            let gone = local.registered(self.devices, false);
            local.keep_going(gone);
        }
    }
}
