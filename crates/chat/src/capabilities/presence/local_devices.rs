//! Devices of this node and everything about them that is not yet written to the store.
//!
//! Invariants:
//! 1. The lock around [`LocalDevices`] is never held across an await.
//! 2. A device that disconnected is in none of the maps. A late heartbeat therefore cannot register it again.
//! 3. Every collection is bounded, by the number of sockets or by a limit of its own.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

use smallvec::SmallVec;

use super::model::Device;
use crate::clock::Timestamp;
use crate::ids::{DeviceId, SocketId, UserId};

/// Maximum number of buffered heartbeats of devices without a socket: enough for a store outage of minutes.
const MAX_BUFFERED_HEARTBEATS: usize = if cfg!(test) { 10 } else { 1_000_000 };
/// Maximum number of deferred departures. The device of a dropped departure stays until its deadline.
const MAX_DEFERRED_DEPARTURES: usize = if cfg!(test) { 10 } else { 1_000_000 };
/// Maximum number of sockets to close that the gateway has not taken yet. A dropped socket stays open without presence.
const MAX_SOCKETS_TO_CLOSE: usize = if cfg!(test) { 10 } else { 100_000 };

/// Identifies an entry among those of all users, see [`Device::entry_id`].
pub(super) type DeviceKey = (UserId, DeviceId);

/// A registered device.
#[derive(Debug, Clone)]
pub(super) struct LocalDevice {
    /// Shared with the gateway that serves the socket.
    pub(super) device: Arc<Device>,
    /// Start of the connection. The boot id and this time distinguish the connection from later ones of the device.
    pub(super) connected_at: Timestamp,
    /// True if the store has known the device: after a data loss it is restored instead of published as new.
    pub(super) known_to_store: bool,
}

/// How a device departed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Departure {
    /// Clean disconnect.
    Disconnected,
    /// The connection was lost.
    ConnectionLost,
}

#[derive(Debug, Default)]
pub(super) struct LocalDevices {
    /// Sockets of this node by user. `SmallVec`, because most users have one device.
    users: HashMap<UserId, SmallVec<[LocalDevice; 1]>>,
    /// Heartbeats for the next flush, with their time.
    heartbeats: HashMap<DeviceKey, (Arc<Device>, Timestamp)>,
    /// Heartbeats that the running flush writes. Removing a device here prevents that the reply registers it again.
    heartbeats_in_flight: HashSet<DeviceKey>,
    /// Sockets to register before their heartbeats are written. The order is random per node: nodes that return at the
    /// same time then do not all register the same users first.
    registration_queue: BTreeSet<(u64, DeviceKey)>,
    registration_hasher: RandomState,
    /// Running registrations, and how the socket departed meanwhile, if it did. Its departure may have reached the
    /// store before the registration, so it is written again afterwards.
    registrations_in_flight: HashMap<SocketId, Option<Departure>>,
    /// Departures that could not be written to the store.
    deferred_departures: Vec<(LocalDevice, Departure)>,
    /// Sockets that the gateway has to close, because their device was removed or the user has too many devices.
    sockets_to_close: VecDeque<Arc<Device>>,
    /// Users who lost a connection here, with the end of the grace period. Used only while this node may not expire the
    /// devices of others; later the deadline index has them.
    grace_periods: Vec<(Timestamp, UserId)>,
    /// Store epoch at the last lease renewal.
    store_epoch: u64,
}

pub(super) fn device_key(device: &Device) -> DeviceKey {
    (device.user.clone(), device.entry_id())
}

impl LocalDevices {
    /// Inserts a socket, or replaces its entry if the client has recovered it.
    pub(super) fn insert(&mut self, held: LocalDevice) {
        self.heartbeats.remove(&device_key(&held.device));
        let devices = self.users.entry(held.device.user.clone()).or_default();
        let same_socket = |it: &&mut LocalDevice| it.device.socket == held.device.socket;
        match devices.iter_mut().find(same_socket) {
            Some(before) => *before = held,
            None => devices.push(held),
        }
    }

    /// Removes a socket. `None` if it is not registered here.
    pub(super) fn remove(&mut self, device: &Device, how: Departure) -> Option<LocalDevice> {
        let key = device_key(device);
        self.find(&key)?;
        self.discard_heartbeat(&key);
        self.registration_queue
            .remove(&self.registration_sort_key(key));
        let devices = self.users.get_mut(&device.user)?;
        let same_socket = |it: &LocalDevice| it.device.socket == device.socket;
        let at = devices.iter().position(same_socket)?;
        let held = devices.swap_remove(at);
        if devices.is_empty() {
            self.users.remove(&device.user);
        }
        let socket = held.device.socket.as_ref();
        if let Some(departure) =
            socket.and_then(|socket| self.registrations_in_flight.get_mut(socket))
        {
            *departure = Some(how);
        }
        Some(held)
    }

    /// Finds a socket that is registered here.
    pub(super) fn find(&self, (user, id): &DeviceKey) -> Option<&LocalDevice> {
        let is_entry = |it: &&LocalDevice| {
            let socket = it.device.socket.as_ref();
            socket.is_some_and(|socket| socket.as_str() == id.as_str())
        };
        self.users.get(user)?.iter().find(is_entry)
    }

    /// The sockets of a device that are registered here.
    pub(super) fn sockets_of(&self, user: &UserId, id: &DeviceId) -> Vec<LocalDevice> {
        let sockets = self.users.get(user).into_iter().flatten();
        sockets.filter(|it| it.device.id == *id).cloned().collect()
    }

    /// True if the user has a socket here.
    pub(super) fn has_user(&self, user: &UserId) -> bool {
        self.users.contains_key(user)
    }

    /// Buffers a heartbeat; that of a socket only if the socket is registered here. False if the buffer is full.
    pub(super) fn try_buffer_heartbeat(&mut self, device: &Device, at: Timestamp) -> bool {
        let buffered = self.heartbeats.len() + self.heartbeats_in_flight.len();
        // The gateway limits the number of sockets.
        let has_room = device.socket.is_some()
            || buffered < MAX_BUFFERED_HEARTBEATS
            || self.heartbeats.contains_key(&device_key(device));
        if has_room {
            self.buffer_heartbeat(device, at);
        }
        has_room
    }

    /// Buffers a heartbeat without a limit, for a heartbeat that was in the buffer before.
    pub(super) fn buffer_heartbeat(&mut self, device: &Device, at: Timestamp) {
        let key = device_key(device);
        let beating = match device.socket {
            None => Some(Arc::new(device.clone())),
            Some(_) => self.find(&key).map(|held| Arc::clone(&held.device)),
        };
        if let Some(beating) = beating {
            self.heartbeats.insert(key, (beating, at));
        }
    }

    /// Discards the heartbeat of a device that was removed.
    pub(super) fn discard_heartbeat(&mut self, key: &DeviceKey) {
        self.heartbeats.remove(key);
        self.heartbeats_in_flight.remove(key);
    }

    /// Starts a flush: returns the heartbeats to write, those of sockets only if the socket is registered here.
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
            self.find(&device_key(&device)).cloned()
        });
        held.collect()
    }

    /// Returns unwritten heartbeats to the buffer. A newer heartbeat of the same device stays.
    pub(super) fn return_unwritten(&mut self, beats: &[LocalDevice]) {
        for held in beats {
            let key = device_key(&held.device);
            if self.heartbeats_in_flight.remove(&key) && !self.heartbeats.contains_key(&key) {
                self.buffer_heartbeat(&held.device, held.connected_at);
            }
        }
    }

    /// Ends the flush. Of the devices that the store did not know, returns those to register: sockets that are still
    /// registered here, and other devices that were not removed meanwhile.
    pub(super) fn finish_flush(&mut self, unknown: Vec<LocalDevice>) -> Vec<LocalDevice> {
        let in_flight = std::mem::take(&mut self.heartbeats_in_flight);
        let to_register = unknown.into_iter().filter(|held| {
            let key = device_key(&held.device);
            let is_here = held.device.socket.is_none() || self.find(&key).is_some();
            is_here && in_flight.contains(&key)
        });
        to_register.collect()
    }

    /// Starts the registration of these devices.
    pub(super) fn start_registration(&mut self, devices: &[LocalDevice]) {
        let sockets = devices.iter().filter_map(|it| it.device.socket.clone());
        self.registrations_in_flight
            .extend(sockets.map(|socket| (socket, None)));
    }

    /// Ends the registration of these devices; `done` means that the store knows them. Returns the devices that
    /// departed meanwhile, because their departure may have reached the store first.
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
            let departure = self.registrations_in_flight.remove(socket).flatten();
            let of_user = self.users.get_mut(&known.device.user).into_iter().flatten();
            let held = of_user
                .into_iter()
                .find(|it| it.device.socket == known.device.socket);
            match held {
                Some(held) => held.known_to_store |= done,
                None => {
                    let how = departure.unwrap_or(Departure::Disconnected);
                    gone.push((known.clone(), how));
                }
            }
        }
        gone
    }

    /// Stores the epoch, and returns true if it differs from the last one.
    pub(super) fn update_store_epoch(&mut self, epoch: u64) -> bool {
        std::mem::replace(&mut self.store_epoch, epoch) != epoch
    }

    /// Queues all sockets for registration.
    pub(super) fn queue_all_registrations(&mut self) {
        let devices = self.users.values().flatten();
        let devices: Vec<_> = devices.map(|held| device_key(&held.device)).collect();
        self.queue_registrations(devices);
    }

    /// Queues these devices for registration if a socket holds them here.
    pub(super) fn queue_registrations(&mut self, devices: impl IntoIterator<Item = DeviceKey>) {
        for key in devices {
            if self.find(&key).is_some() {
                self.registration_queue
                    .insert(self.registration_sort_key(key));
            }
        }
    }

    fn registration_sort_key(&self, key: DeviceKey) -> (u64, DeviceKey) {
        (self.registration_hasher.hash_one(&key), key)
    }

    /// Takes up to so many sockets from the registration queue.
    pub(super) fn take_registrations(&mut self, max_devices: usize) -> Vec<LocalDevice> {
        let mut taken = Vec::new();
        while taken.len() < max_devices
            && let Some((_, key)) = self.registration_queue.pop_first()
        {
            self.heartbeats.remove(&key);
            taken.extend(self.find(&key).cloned());
        }
        taken
    }

    pub(super) fn has_queued_registrations(&self) -> bool {
        !self.registration_queue.is_empty()
    }

    pub(super) fn defer_departures(
        &mut self,
        departures: impl IntoIterator<Item = (LocalDevice, Departure)>,
    ) {
        let room = MAX_DEFERRED_DEPARTURES.saturating_sub(self.deferred_departures.len());
        self.deferred_departures
            .extend(departures.into_iter().take(room));
    }

    pub(super) fn take_deferred_departures(&mut self) -> Vec<(LocalDevice, Departure)> {
        std::mem::take(&mut self.deferred_departures)
    }

    /// Remembers the end of a grace period.
    pub(super) fn add_grace_period(&mut self, end: Timestamp, user: UserId) {
        if self.grace_periods.len() < MAX_DEFERRED_DEPARTURES {
            self.grace_periods.push((end, user));
        }
    }

    /// Takes the users whose grace period has ended.
    pub(super) fn take_ended_grace_periods(&mut self, now: Timestamp) -> Vec<UserId> {
        let ended = self.grace_periods.extract_if(.., |(end, _)| *end <= now);
        ended.map(|(_, user)| user).collect()
    }

    /// Queues a socket for the gateway to close.
    pub(super) fn queue_socket_close(&mut self, device: Arc<Device>) {
        if self.sockets_to_close.len() >= MAX_SOCKETS_TO_CLOSE {
            self.sockets_to_close.pop_front();
        }
        self.sockets_to_close.push_back(device);
    }

    pub(super) fn pop_socket_to_close(&mut self) -> Option<Arc<Device>> {
        self.sockets_to_close.pop_front()
    }

    /// Removes and returns all sockets of this node.
    pub(super) fn drain(&mut self) -> Vec<LocalDevice> {
        self.heartbeats.clear();
        self.registration_queue.clear();
        self.grace_periods.clear();
        for departure in self.registrations_in_flight.values_mut() {
            *departure = Some(Departure::ConnectionLost);
        }
        let users = std::mem::take(&mut self.users);
        users.into_values().flatten().collect()
    }
}

#[cfg(test)]
mod tests;
