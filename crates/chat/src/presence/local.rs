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
use crate::context::Timestamp;
use crate::ids::{DeviceId, SocketId, UserId};

/// Remembered beats of devices without a socket: those of a node in an outage of minutes.
const MAX_BUFFERED_HEARTBEATS: usize = if cfg!(test) { 10 } else { 1_000_000 };
/// Remembered goings. One that is forgotten is a lapse: the device stays until its deadline.
const MAX_DEFERRED_DEPARTURES: usize = if cfg!(test) { 10 } else { 1_000_000 };
/// Sockets to be closed that nobody has asked for. One that is forgotten has no presence, and nothing else happens to it.
const MAX_SOCKETS_TO_CLOSE: usize = if cfg!(test) { 10 } else { 100_000 };

/// A device among those of all users.
pub(super) type DeviceKey = (UserId, DeviceId);

/// A device that is registered, most often a socket of this node.
#[derive(Debug, Clone)]
pub(super) struct LocalDevice {
    /// Shared with whoever serves the socket.
    pub(super) device: Arc<Device>,
    /// Since when it is there; with the node's epoch it tells this connection from later ones of the device.
    pub(super) connected_at: Timestamp,
    /// Whether the store has known it: then it may be restored, else it is new.
    pub(super) known_to_store: bool,
}

/// How a device went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Departure {
    /// With a goodbye.
    Disconnected,
    /// Without one.
    ConnectionLost,
}

#[derive(Debug, Default)]
pub(super) struct LocalDevices {
    /// Of most users one device, so that a table for each would be mostly room.
    users: HashMap<UserId, SmallVec<[LocalDevice; 1]>>,
    /// With the time of each beat.
    heartbeats: HashMap<DeviceKey, (Arc<Device>, Timestamp)>,
    /// Beats that are being written.
    heartbeats_in_flight: HashSet<DeviceKey>,
    /// Sockets that have to be registered again before they beat, in an order of this node alone: nodes that come back
    /// together do not come user by user.
    registration_queue: BTreeSet<(u64, DeviceKey)>,
    registration_hasher: RandomState,
    /// Sockets that are being registered, and how they went if they did meanwhile: their goodbye may come too early.
    start_registration: HashMap<SocketId, Option<Departure>>,
    /// Those whose goodbye could not be written.
    deferred_departures: Vec<(LocalDevice, Departure)>,
    /// Sockets whose device was ended by somebody else.
    sockets_to_close: VecDeque<Arc<Device>>,
    /// The epoch of the store that was last seen.
    store_epoch: u64,
}

pub(super) fn device_key(device: &Device) -> DeviceKey {
    (device.user.clone(), device.id.clone())
}

/// The one of a user's devices that is called so.
fn find_device<'a>(devices: &'a mut [LocalDevice], id: &DeviceId) -> Option<&'a mut LocalDevice> {
    devices.iter_mut().find(|it| it.device.id == *id)
}

impl LocalDevices {
    /// A socket has come; one of the same device before it is forgotten.
    pub(super) fn insert(&mut self, held: LocalDevice) {
        self.heartbeats.remove(&device_key(&held.device));
        let devices = self.users.entry(held.device.user.clone()).or_default();
        match find_device(devices, &held.device.id) {
            Some(before) => *before = held,
            None => devices.push(held),
        }
    }

    /// A socket has gone. None if another one has taken its device over, or it never was here.
    pub(super) fn remove(&mut self, device: &Device, how: Departure) -> Option<LocalDevice> {
        self.find(&device.user, &device.id, device.socket.as_ref())?;
        self.discard_heartbeat(&device.user, &device.id);
        self.registration_queue
            .remove(&self.registration_sort_key(device_key(device)));
        let devices = self.users.get_mut(&device.user)?;
        let at = devices.iter().position(|it| it.device.id == device.id)?;
        let held = devices.swap_remove(at);
        if devices.is_empty() {
            self.users.remove(&device.user);
        }
        let socket = held.device.socket.as_ref();
        if let Some(went) = socket.and_then(|socket| self.start_registration.get_mut(socket)) {
            *went = Some(how);
        }
        Some(held)
    }

    /// The socket that holds a device; with `socket` only if it is that one.
    pub(super) fn find(
        &self,
        user: &UserId,
        id: &DeviceId,
        socket: Option<&SocketId>,
    ) -> Option<&LocalDevice> {
        let held = self
            .users
            .get(user)?
            .iter()
            .find(|it| it.device.id == *id)?;
        (socket.is_none() || held.device.socket.as_ref() == socket).then_some(held)
    }

    /// Whether a user has a socket here.
    pub(super) fn has_user(&self, user: &UserId) -> bool {
        self.users.contains_key(user)
    }

    /// Keeps a beat to be written; that of a socket only if it is one of ours. False if there is no room for it.
    pub(super) fn try_buffer_heartbeat(&mut self, device: &Device, at: Timestamp) -> bool {
        let waiting = self.heartbeats.len() + self.heartbeats_in_flight.len();
        // Of sockets there are as many as the gateway lets in.
        let room = device.socket.is_some()
            || waiting < MAX_BUFFERED_HEARTBEATS
            || self.heartbeats.contains_key(&device_key(device));
        if room {
            self.buffer_heartbeat(device, at);
        }
        room
    }

    /// [`beat`](Self::beat) of one that had its room before.
    pub(super) fn buffer_heartbeat(&mut self, device: &Device, at: Timestamp) {
        let socket = device.socket.as_ref();
        let beating = match socket {
            None => Some(Arc::new(device.clone())),
            Some(_) => {
                let held = self.find(&device.user, &device.id, socket);
                held.map(|held| Arc::clone(&held.device))
            }
        };
        if let Some(beating) = beating {
            self.heartbeats.insert(device_key(device), (beating, at));
        }
    }

    /// The beat of a device that does not want one any more.
    pub(super) fn discard_heartbeat(&mut self, user: &UserId, id: &DeviceId) {
        let key = (user.clone(), id.clone());
        self.heartbeats.remove(&key);
        self.heartbeats_in_flight.remove(&key);
    }

    /// The beats to be written now; of sockets only those that are ours.
    pub(super) fn start_flush(&mut self) -> Vec<LocalDevice> {
        let beats = std::mem::take(&mut self.heartbeats);
        self.heartbeats_in_flight = beats.keys().cloned().collect();
        let held = beats.into_values().filter_map(|(device, at)| {
            if device.socket.is_none() {
                return Some(LocalDevice {
                    device,
                    connected_at: at,
                    known_to_store: false,
                });
            }
            let socket = device.socket.as_ref();
            self.find(&device.user, &device.id, socket).cloned()
        });
        held.collect()
    }

    /// Beats that could not be written; a newer one of the same device stays.
    pub(super) fn return_unwritten(&mut self, beats: &[LocalDevice]) {
        for held in beats {
            let key = device_key(&held.device);
            if self.heartbeats_in_flight.remove(&key) && !self.heartbeats.contains_key(&key) {
                self.buffer_heartbeat(&held.device, held.connected_at);
            }
        }
    }

    /// The beats are written. Of the devices that the store did not know, those to be registered: sockets that are still
    /// here, and others that nobody removed meanwhile.
    pub(super) fn finish_flush(&mut self, unknown: Vec<LocalDevice>) -> Vec<LocalDevice> {
        let flying = std::mem::take(&mut self.heartbeats_in_flight);
        let anew = unknown.into_iter().filter(|held| {
            let Device {
                user, id, socket, ..
            } = &*held.device;
            let here = socket.is_none() || self.find(user, id, socket.as_ref()).is_some();
            here && flying.contains(&device_key(&held.device))
        });
        anew.collect()
    }

    /// These are about to be registered.
    pub(super) fn registrations_in_flight(&mut self, devices: &[LocalDevice]) {
        let sockets = devices.iter().filter_map(|it| it.device.socket.clone());
        self.start_registration
            .extend(sockets.map(|socket| (socket, None)));
    }

    /// The registration of these is over. Those of them that went meanwhile, whose goodbye may have come too early; where
    /// another socket took the device over, that one is owed instead. `done`: the store knows them.
    pub(super) fn finish_registration(
        &mut self,
        devices: &[LocalDevice],
        done: bool,
    ) -> Vec<(LocalDevice, Departure)> {
        let mut gone = Vec::new();
        for known in devices {
            let Some(socket) = &known.device.socket else {
                continue;
            };
            let went = self.start_registration.remove(socket).flatten();
            let key = device_key(&known.device);
            let of_user = self.users.get_mut(&key.0);
            let held = of_user.and_then(|devices| find_device(devices, &key.1));
            match (held, went) {
                (Some(held), _) if held.device.socket == known.device.socket => {
                    held.known_to_store |= done;
                }
                (Some(_), _) => self.queue_registrations([key]),
                (None, Some(how)) => gone.push((known.clone(), how)),
                (None, None) => gone.push((known.clone(), Departure::Disconnected)),
            }
        }
        gone
    }

    /// Whether the store's epoch is another one than when last asked.
    pub(super) fn update_store_epoch(&mut self, epoch: u64) -> bool {
        std::mem::replace(&mut self.store_epoch, epoch) != epoch
    }

    /// Every socket has to be registered again.
    pub(super) fn queue_all_registrations(&mut self) {
        let devices = self.users.values().flatten();
        let devices: Vec<_> = devices.map(|held| device_key(&held.device)).collect();
        self.queue_registrations(devices);
    }

    /// These sockets have to be registered again, as far as they are here.
    pub(super) fn queue_registrations(&mut self, devices: impl IntoIterator<Item = DeviceKey>) {
        for key in devices {
            if self.find(&key.0, &key.1, None).is_some() {
                self.registration_queue
                    .insert(self.registration_sort_key(key));
            }
        }
    }

    fn registration_sort_key(&self, key: DeviceKey) -> (u64, DeviceKey) {
        (self.registration_hasher.hash_one(&key), key)
    }

    /// Some of the sockets to be registered again.
    pub(super) fn take_registrations(&mut self, most: usize) -> Vec<LocalDevice> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some((_, key)) = self.registration_queue.pop_first()
        {
            self.heartbeats.remove(&key);
            taken.extend(self.find(&key.0, &key.1, None).cloned());
        }
        taken
    }

    pub(super) fn has_queued_registrations(&self) -> bool {
        !self.registration_queue.is_empty()
    }

    pub(super) fn defer_departures(
        &mut self,
        going: impl IntoIterator<Item = (LocalDevice, Departure)>,
    ) {
        let room = MAX_DEFERRED_DEPARTURES.saturating_sub(self.deferred_departures.len());
        self.deferred_departures
            .extend(going.into_iter().take(room));
    }

    pub(super) fn take_deferred_departures(&mut self) -> Vec<(LocalDevice, Departure)> {
        std::mem::take(&mut self.deferred_departures)
    }

    /// A socket has to be closed by whoever serves it.
    pub(super) fn queue_socket_close(&mut self, device: Arc<Device>) {
        if self.sockets_to_close.len() >= MAX_SOCKETS_TO_CLOSE {
            self.sockets_to_close.pop_front();
        }
        self.sockets_to_close.push_back(device);
    }

    pub(super) fn pop_socket_to_close(&mut self) -> Option<Arc<Device>> {
        self.sockets_to_close.pop_front()
    }

    /// Every socket of this node, which has none afterwards.
    pub(super) fn drain(&mut self) -> Vec<LocalDevice> {
        self.heartbeats.clear();
        self.registration_queue.clear();
        for went in self.start_registration.values_mut() {
            *went = Some(Departure::ConnectionLost);
        }
        let users = std::mem::take(&mut self.users);
        users.into_values().flatten().collect()
    }
}

#[cfg(test)]
mod tests;
