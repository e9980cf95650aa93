//! Putting devices into the store.
//!
//! Always true: the node's set of users and the index of deadlines know a device before its state does, so that whoever
//! dies in between leaves at most an entry too many.

use redis::{Pipeline, pipe};

use super::Presence;
use super::local::Held;
use super::step::{Settled, Steps};
use crate::context::millis;
use crate::error::Result;
use crate::ids::DeadlineShard;
use crate::keys::TtlName;

/// The epoch of devices that no node holds.
pub(super) const API: &str = "api";

impl Presence {
    /// Registers devices; the replies are in their order.
    pub(super) async fn register(&self, devices: &[Held]) -> Result<Vec<Settled>> {
        let steps = Steps::now(&self.ctx);
        let mut store = self.ctx.store().repeatable();
        let mut pipe = pipe();
        for held in devices {
            self.prepare(&mut pipe, &steps, held);
        }
        if self.ctx.keys().cluster() {
            // A pipeline keeps its order on one server only.
            pipe.exec_async(&mut store).await?;
            pipe.clear();
        }
        for held in devices {
            pipe.add_command(self.connect_cmd(&steps, held));
        }
        let settled = pipe.query_async(&mut store).await?;
        let gone = self.local.lock().registered(devices);
        if !gone.is_empty() {
            self.write_goings(&gone, "").await?;
        }
        Ok(settled)
    }

    fn prepare(&self, pipe: &mut Pipeline, steps: &Steps<'_>, held: &Held) {
        let keys = self.ctx.keys();
        let user = &held.device.user;
        let ttl = keys.ttl(TtlName::Presence);
        pipe.cmd("ZADD")
            .arg(keys.deadlines(DeadlineShard::of(user)))
            .arg(steps.now.plus(ttl).ms())
            .arg(user)
            .ignore();
        if let Some(socket) = &held.device.socket {
            pipe.cmd("SADD")
                .arg(keys.node_users(self.nodes.id()))
                .arg(user)
                .ignore();
            pipe.cmd("SET")
                .arg(keys.socket_user(socket))
                .arg(user)
                .arg("PX")
                .arg(millis(ttl))
                .ignore();
        }
    }

    fn connect_cmd(&self, steps: &Steps<'_>, held: &Held) -> redis::Cmd {
        let Held {
            device,
            connected,
            announced,
        } = held;
        let info = device.info.as_ref().map_or_else(String::new, |info| {
            serde_json::Value::from(info.as_str()).to_string()
        });
        steps
            .call(|it| &it.connect, &device.user)
            .arg(&device.id)
            .arg(self.nodes.id())
            .arg(device.socket.as_ref().map_or(API, |_| self.nodes.epoch()))
            .arg(connected)
            .arg(info)
            .arg(if *announced { "restore" } else { "" })
            .cmd()
    }
}
