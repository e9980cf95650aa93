//! What this node remembers: its sockets, the beats to be written, and what could not be written yet.
//!
//! Always true:
//! 1. Nothing here is locked across a wait.
//! 2. A device that left is in none of the maps, so no late beat brings it back.
//! 3. Nothing grows without a bound: what is not bounded by the number of sockets has its own limit.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

use smallvec::SmallVec;

use super::ops::Device;
use crate::context::Moment;
use crate::ids::{DeviceId, SocketId, UserId};

/// Remembered beats of devices without a socket: those of a node in an outage of minutes.
const MOST_BEATS: usize = if cfg!(test) { 10 } else { 1_000_000 };
/// Remembered goings. One that is forgotten is a lapse: the device stays until its deadline.
const MOST_GOING: usize = if cfg!(test) { 10 } else { 1_000_000 };
/// Sockets to be closed that nobody has asked for. One that is forgotten has no presence, and nothing else happens to it.
const MOST_CLOSING: usize = if cfg!(test) { 10 } else { 100_000 };

/// A device among those of all users.
pub(super) type DeviceKey = (UserId, DeviceId);

/// A device that is registered, most often a socket of this node.
#[derive(Debug, Clone)]
pub(super) struct Held {
    /// Shared with whoever serves the socket.
    pub(super) device: Arc<Device>,
    /// Since when it is there; with the node's epoch it tells this connection from later ones of the device.
    pub(super) connected: Moment,
    /// Whether the store has known it: then it may be restored, else it is new.
    pub(super) announced: bool,
}

/// How a device went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Going {
    /// With a goodbye.
    Left,
    /// Without one.
    Lost,
}

#[derive(Debug, Default)]
pub(super) struct Local {
    /// Of most users one device, so that a table for each would be mostly room.
    users: HashMap<UserId, SmallVec<[Held; 1]>>,
    /// With the time of each beat.
    beats: HashMap<DeviceKey, (Arc<Device>, Moment)>,
    /// Beats that are being written.
    flying: HashSet<DeviceKey>,
    /// Sockets that have to be registered again before they beat, in an order of this node alone: nodes that come back
    /// together do not come user by user.
    owed: BTreeSet<(u64, DeviceKey)>,
    order: RandomState,
    /// Sockets that are being registered, and how they went if they did meanwhile: their goodbye may come too early.
    registering: HashMap<SocketId, Option<Going>>,
    /// Those whose goodbye could not be written.
    going: Vec<(Held, Going)>,
    /// Sockets whose device was ended by somebody else.
    closing: VecDeque<Arc<Device>>,
    /// The epoch of the store that was last seen.
    epoch: u64,
}

pub(super) fn key(device: &Device) -> DeviceKey {
    (device.user.clone(), device.id.clone())
}

/// The one of a user's devices that is called so.
fn of<'a>(devices: &'a mut [Held], id: &DeviceId) -> Option<&'a mut Held> {
    devices.iter_mut().find(|it| it.device.id == *id)
}

impl Local {
    /// A socket has come; one of the same device before it is forgotten.
    pub(super) fn add(&mut self, held: Held) {
        self.beats.remove(&key(&held.device));
        let devices = self.users.entry(held.device.user.clone()).or_default();
        match of(devices, &held.device.id) {
            Some(before) => *before = held,
            None => devices.push(held),
        }
    }

    /// A socket has gone. None if another one has taken its device over, or it never was here.
    pub(super) fn remove(&mut self, device: &Device, how: Going) -> Option<Held> {
        self.get(&device.user, &device.id, device.socket.as_ref())?;
        self.forget_beat(&device.user, &device.id);
        self.owed.remove(&self.owed_key(key(device)));
        let devices = self.users.get_mut(&device.user)?;
        let at = devices.iter().position(|it| it.device.id == device.id)?;
        let held = devices.swap_remove(at);
        if devices.is_empty() {
            self.users.remove(&device.user);
        }
        let socket = held.device.socket.as_ref();
        if let Some(went) = socket.and_then(|socket| self.registering.get_mut(socket)) {
            *went = Some(how);
        }
        Some(held)
    }

    /// The socket that holds a device; with `socket` only if it is that one.
    pub(super) fn get(
        &self,
        user: &UserId,
        id: &DeviceId,
        socket: Option<&SocketId>,
    ) -> Option<&Held> {
        let held = self
            .users
            .get(user)?
            .iter()
            .find(|it| it.device.id == *id)?;
        (socket.is_none() || held.device.socket.as_ref() == socket).then_some(held)
    }

    /// Whether a user has a socket here.
    pub(super) fn has(&self, user: &UserId) -> bool {
        self.users.contains_key(user)
    }

    /// Keeps a beat to be written; that of a socket only if it is one of ours. False if there is no room for it.
    pub(super) fn beat(&mut self, device: &Device, at: Moment) -> bool {
        let waiting = self.beats.len() + self.flying.len();
        // Of sockets there are as many as the gateway lets in.
        let room = device.socket.is_some()
            || waiting < MOST_BEATS
            || self.beats.contains_key(&key(device));
        if room {
            self.keep_beat(device, at);
        }
        room
    }

    /// [`beat`](Self::beat) of one that had its room before.
    pub(super) fn keep_beat(&mut self, device: &Device, at: Moment) {
        let socket = device.socket.as_ref();
        let beating = match socket {
            None => Some(Arc::new(device.clone())),
            Some(_) => {
                let held = self.get(&device.user, &device.id, socket);
                held.map(|held| Arc::clone(&held.device))
            }
        };
        if let Some(beating) = beating {
            self.beats.insert(key(device), (beating, at));
        }
    }

    /// The beat of a device that does not want one any more.
    pub(super) fn forget_beat(&mut self, user: &UserId, id: &DeviceId) {
        let key = (user.clone(), id.clone());
        self.beats.remove(&key);
        self.flying.remove(&key);
    }

    /// The beats to be written now; of sockets only those that are ours.
    pub(super) fn take_beats(&mut self) -> Vec<Held> {
        let beats = std::mem::take(&mut self.beats);
        self.flying = beats.keys().cloned().collect();
        let held = beats.into_values().filter_map(|(device, at)| {
            if device.socket.is_none() {
                return Some(Held {
                    device,
                    connected: at,
                    announced: false,
                });
            }
            let socket = device.socket.as_ref();
            self.get(&device.user, &device.id, socket).cloned()
        });
        held.collect()
    }

    /// Beats that could not be written; a newer one of the same device stays.
    pub(super) fn put_back(&mut self, beats: &[Held]) {
        for held in beats {
            let key = key(&held.device);
            if self.flying.remove(&key) && !self.beats.contains_key(&key) {
                self.keep_beat(&held.device, held.connected);
            }
        }
    }

    /// The beats are written. Of the devices that the store did not know, those to be registered: sockets that are still
    /// here, and others that nobody removed meanwhile.
    pub(super) fn landed(&mut self, unknown: Vec<Held>) -> Vec<Held> {
        let flying = std::mem::take(&mut self.flying);
        let anew = unknown.into_iter().filter(|held| {
            let Device {
                user, id, socket, ..
            } = &*held.device;
            let here = socket.is_none() || self.get(user, id, socket.as_ref()).is_some();
            here && flying.contains(&key(&held.device))
        });
        anew.collect()
    }

    /// These are about to be registered.
    pub(super) fn registering(&mut self, devices: &[Held]) {
        let sockets = devices.iter().filter_map(|it| it.device.socket.clone());
        self.registering
            .extend(sockets.map(|socket| (socket, None)));
    }

    /// The registration of these is over. Those of them that went meanwhile, whose goodbye may have come too early; where
    /// another socket took the device over, that one is owed instead. `done`: the store knows them.
    pub(super) fn registered(&mut self, devices: &[Held], done: bool) -> Vec<(Held, Going)> {
        let mut gone = Vec::new();
        for known in devices {
            let Some(socket) = &known.device.socket else {
                continue;
            };
            let went = self.registering.remove(socket).flatten();
            let key = key(&known.device);
            let of_user = self.users.get_mut(&key.0);
            let held = of_user.and_then(|devices| of(devices, &key.1));
            match (held, went) {
                (Some(held), _) if held.device.socket == known.device.socket => {
                    held.announced |= done;
                }
                (Some(_), _) => self.owe([key]),
                (None, Some(how)) => gone.push((known.clone(), how)),
                (None, None) => gone.push((known.clone(), Going::Left)),
            }
        }
        gone
    }

    /// Whether the store's epoch is another one than when last asked.
    pub(super) fn is_new_epoch(&mut self, epoch: u64) -> bool {
        std::mem::replace(&mut self.epoch, epoch) != epoch
    }

    /// Every socket has to be registered again.
    pub(super) fn owe_all(&mut self) {
        let devices = self.users.values().flatten();
        let devices: Vec<_> = devices.map(|held| key(&held.device)).collect();
        self.owe(devices);
    }

    /// These sockets have to be registered again, as far as they are here.
    pub(super) fn owe(&mut self, devices: impl IntoIterator<Item = DeviceKey>) {
        for key in devices {
            if self.get(&key.0, &key.1, None).is_some() {
                self.owed.insert(self.owed_key(key));
            }
        }
    }

    fn owed_key(&self, key: DeviceKey) -> (u64, DeviceKey) {
        (self.order.hash_one(&key), key)
    }

    /// Some of the sockets to be registered again.
    pub(super) fn take_owed(&mut self, most: usize) -> Vec<Held> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some((_, key)) = self.owed.pop_first()
        {
            self.beats.remove(&key);
            taken.extend(self.get(&key.0, &key.1, None).cloned());
        }
        taken
    }

    pub(super) fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    pub(super) fn keep_going(&mut self, going: impl IntoIterator<Item = (Held, Going)>) {
        let room = MOST_GOING.saturating_sub(self.going.len());
        self.going.extend(going.into_iter().take(room));
    }

    pub(super) fn take_going(&mut self) -> Vec<(Held, Going)> {
        std::mem::take(&mut self.going)
    }

    /// A socket has to be closed by whoever serves it.
    pub(super) fn close(&mut self, device: Arc<Device>) {
        if self.closing.len() >= MOST_CLOSING {
            self.closing.pop_front();
        }
        self.closing.push_back(device);
    }

    pub(super) fn take_closing(&mut self) -> Option<Arc<Device>> {
        self.closing.pop_front()
    }

    /// Every socket of this node, which has none afterwards.
    pub(super) fn drain(&mut self) -> Vec<Held> {
        self.beats.clear();
        self.owed.clear();
        for went in self.registering.values_mut() {
            *went = Some(Going::Lost);
        }
        let users = std::mem::take(&mut self.users);
        users.into_values().flatten().collect()
    }
}

#[cfg(test)]
mod tests;
