//! Registers devices in the store.
//!
//! Invariants:
//! 1. The node's user set and the deadline index are written before the user's state. A crash in between leaves at
//!    most a superfluous index entry, never a device without one.
//! 2. If the future of `connect` is dropped, the device is treated as a lost connection.

use std::sync::Arc;

use redis::{Cmd, Pipeline, RedisError, Value};

use super::Presence;
use super::local_devices::{self, Departure, LocalDevice};
use super::model::{Device, UserStatus};
use super::script_call::{PresenceScriptArgs, PresenceSnapshot, query_each};
use crate::api::error::{Error, Result};
use crate::background::log_failure;
use crate::clock::duration_millis;
use crate::ids::DeadlineShard;
use crate::keys::{Key, TtlName};

/// Maximum number of devices of a user.
pub const MAX_DEVICES_PER_USER: usize = 100;

/// Value in place of the boot id for a device without a socket.
pub(super) const NO_SOCKET: &str = "api";

/// Why devices are registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RegistrationReason {
    /// The devices connect now.
    Connect,
    /// The devices connect now, and their user becomes visible.
    ConnectVisible,
    /// The store does not know devices that connected earlier. A device that was removed meanwhile stays removed.
    Restore,
}

/// Reply of the connect script.
#[derive(Debug)]
pub(super) struct RegistrationReply {
    pub(super) snapshot: PresenceSnapshot,
    pub(super) outcome: RegistrationOutcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RegistrationOutcome {
    Registered,
    /// The device was removed after it had connected.
    DeviceRemoved,
    /// The user has the maximum number of devices.
    TooManyDevices,
    /// A request named a device that an open socket holds. The socket keeps it.
    HeldBySocket,
}

impl Presence {
    pub(super) async fn register_connection(
        &self,
        device: Arc<Device>,
        reason: RegistrationReason,
    ) -> Result<UserStatus> {
        let held = LocalDevice {
            connected_at: self.ctx.now(),
            device,
            known_to_store: false,
        };
        let user = held.device.user.clone();
        let mut guard = ConnectGuard {
            presence: self,
            held: held.device.socket.is_some().then(|| held.clone()),
        };
        if let Some(held) = guard.held.clone() {
            self.devices.lock().insert(held);
        }
        let registered = self
            .register_devices(std::slice::from_ref(&held), reason)
            .await;
        let socket = guard.held.take();
        match registered {
            Ok(mut registered) => {
                let registered = registered.pop().expect("one reply for one device")?;
                match registered.outcome {
                    RegistrationOutcome::Registered
                    | RegistrationOutcome::DeviceRemoved
                    | RegistrationOutcome::HeldBySocket => {
                        let status = registered.snapshot.into_user_status(&user);
                        Ok(self.reader.with_floor(status))
                    }
                    RegistrationOutcome::TooManyDevices => Err(Error::TooMany {
                        items: "devices of a user",
                        given: MAX_DEVICES_PER_USER + 1,
                        max: MAX_DEVICES_PER_USER,
                    }),
                }
            }
            Err(error) => {
                let socket = socket.map(|held| local_devices::device_key(&held.device));
                self.devices.lock().queue_registrations(socket);
                Err(error)
            }
        }
    }

    /// Registers devices in one pipeline; the replies are in their order. This node drops rejected sockets.
    pub(super) async fn register_devices(
        &self,
        devices: &[LocalDevice],
        reason: RegistrationReason,
    ) -> Result<Vec<Result<RegistrationReply>>> {
        let args = PresenceScriptArgs::new(&self.ctx);
        let guard = RegistrationGuard::begin(self, devices);
        let mut pipe = Pipeline::with_capacity(4 * devices.len());
        for held in devices {
            self.add_index_commands(&mut pipe, &args, held);
        }
        let mut prepared = pipe.len();
        if self.ctx.keys().cluster() {
            // A Cluster pipeline keeps its order within one server only.
            let mut store = self.ctx.store().idempotent();
            Box::pin(pipe.exec_async(&mut store)).await?;
            pipe.clear();
            prepared = 0;
        }
        for held in devices {
            pipe.add_command(self.connect_cmd(&args, held, reason));
        }
        let replies: Vec<Result<Value>> =
            query_each(self.ctx.store().idempotent(), &mut pipe).await?;
        // Skipped here instead of with `ignore`: a pipeline keeps a set of the ignored commands.
        let registered: Vec<Result<RegistrationReply>> = replies
            .into_iter()
            .skip(prepared)
            .map(|reply| Ok(redis::from_redis_value(reply?).map_err(RedisError::from)?))
            .collect();
        let departed = guard.finish();
        if !departed.is_empty() {
            // The rare paths are boxed, so that the future stays small.
            Box::pin(self.write_departures(departed, "")).await?;
        }
        let is_new_connection = reason != RegistrationReason::Restore;
        for (held, registered) in devices.iter().zip(&registered) {
            log_failure("register a device", registered);
            if registered
                .as_ref()
                .is_ok_and(|it| it.snapshot.has_wrong_type)
            {
                self.warn_about_wrong_type(&held.device.user);
            }
            match registered.as_ref().map(|it| it.outcome) {
                Ok(RegistrationOutcome::Registered | RegistrationOutcome::HeldBySocket) => {}
                // A caller that connects now receives the rejection as its reply.
                Ok(_) => Box::pin(self.drop_socket(held, !is_new_connection)).await?,
                Err(_) if is_new_connection => Box::pin(self.drop_socket(held, false)).await?,
                Err(_) => {}
            }
        }
        let own = devices.iter().zip(&registered).filter(|(_, registered)| {
            let outcome = registered.as_ref().map(|it| it.outcome);
            matches!(outcome, Ok(RegistrationOutcome::Registered))
        });
        Box::pin(self.write_owners_without_socket(own.map(|(held, _)| held))).await?;
        Ok(registered)
    }

    fn add_index_commands(
        &self,
        pipe: &mut Pipeline,
        args: &PresenceScriptArgs<'_>,
        held: &LocalDevice,
    ) {
        let keys = self.ctx.keys();
        let user = &held.device.user;
        let ttl = keys.ttl(TtlName::Presence);
        let add = |name: &str, key: Key| {
            // The initial capacity fits most commands.
            let mut cmd = Cmd::with_capacity(5, 128);
            cmd.arg(name).arg(key);
            cmd
        };
        let mut zadd = add(
            "ZADD",
            keys.presence_deadlines(DeadlineShard::for_user(user)),
        );
        zadd.arg(args.now.saturating_add(ttl).as_millis()).arg(user);
        pipe.add_command(zadd);
        if let Some(socket) = &held.device.socket {
            let mut sadd = add("SADD", keys.node_presence_users(self.local_node.id()));
            sadd.arg(user);
            pipe.add_command(sadd);
            let mut set = add("SET", keys.socket_user(socket));
            set.arg(user).arg("PX").arg(duration_millis(ttl));
            pipe.add_command(set);
        }
    }

    /// The boot id of this node if a socket holds the device.
    pub(super) fn holder(&self, device: &Device) -> &str {
        match device.socket {
            Some(_) => self.local_node.boot_id(),
            None => NO_SOCKET,
        }
    }

    fn connect_cmd(
        &self,
        args: &PresenceScriptArgs<'_>,
        held: &LocalDevice,
        reason: RegistrationReason,
    ) -> Cmd {
        let LocalDevice {
            device,
            connected_at,
            known_to_store,
        } = held;
        let info = device
            .client_info
            .as_ref()
            .map_or_else(String::new, |info| {
                serde_json::to_string(info).expect("a text is JSON")
            });
        let since =
            (reason == RegistrationReason::Restore).then(|| connected_at.as_millis().to_string());
        args.call(|it| &it.connect, &device.user)
            .arg(device.entry_id())
            .arg(self.local_node.id())
            .arg(self.holder(device))
            .arg(connected_at.to_iso8601())
            .arg(info)
            .arg(if *known_to_store { "restore" } else { "" })
            .arg(match reason {
                RegistrationReason::ConnectVisible => "visible",
                RegistrationReason::Connect | RegistrationReason::Restore => "",
            })
            .arg(since.unwrap_or_default())
            .arg(MAX_DEVICES_PER_USER)
            .arg(&device.id)
            .cmd()
    }
}

/// Guard of one `connect` call. If the call is cancelled, the socket is removed and its departure is queued.
struct ConnectGuard<'a> {
    presence: &'a Presence,
    held: Option<LocalDevice>,
}

impl Drop for ConnectGuard<'_> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            let mut local = self.presence.devices.lock();
            let held = local.remove(&held.device, Departure::ConnectionLost);
            local.defer_departures(held.map(|held| (held, Departure::ConnectionLost)));
        }
    }
}

/// Guard of a running registration. A departure that was written meanwhile may have reached the store first, so it is
/// written again; if the registration is cancelled, the departure is queued.
struct RegistrationGuard<'a> {
    presence: &'a Presence,
    devices: &'a [LocalDevice],
    finished: bool,
}

impl<'a> RegistrationGuard<'a> {
    fn begin(presence: &'a Presence, devices: &'a [LocalDevice]) -> Self {
        presence.devices.lock().start_registration(devices);
        Self {
            presence,
            devices,
            finished: false,
        }
    }

    /// Ends a successful registration. Returns the devices that departed meanwhile.
    fn finish(mut self) -> Vec<(LocalDevice, Departure)> {
        self.finished = true;
        self.presence
            .devices
            .lock()
            .finish_registration(self.devices, true)
    }
}

impl Drop for RegistrationGuard<'_> {
    fn drop(&mut self) {
        if !self.finished {
            let mut local = self.presence.devices.lock();
            let departed = local.finish_registration(self.devices, false);
            local.defer_departures(departed);
        }
    }
}
