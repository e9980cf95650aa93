//! Model of presence: plain maps, no concurrency.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use parlor_chat::ids::{DeviceId, SocketId, UserId};
use parlor_chat::keys::PresenceLayout;

use crate::capabilities::presence::fixture::{GRACE, LEASE, PresenceFixture};

fn ms(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap()
}

/// Content of the documented keys: status and device ids.
pub type Projected = (Option<String>, Vec<String>);

/// An entry of a device, maybe of a node that has ended.
#[derive(Clone, PartialEq)]
struct Device {
    id: DeviceId,
    node: String,
    deadline: u64,
    connected: u64,
    lost: bool,
    /// True if the device has no socket.
    api: bool,
}

#[derive(Default)]
struct User {
    /// The devices by the id of their entry: socket, or device without a socket.
    devices: BTreeMap<String, Device>,
    explicit: Option<&'static str>,
    shown: Option<&'static str>,
    version: u64,
    /// Latest deadline at the last change of the state.
    until: u64,
    /// Time of the last clean disconnect.
    last_disconnect: Option<u64>,
    /// Times at which devices were removed.
    tombstones: BTreeMap<DeviceId, u64>,
    /// Time of the next check.
    check_at: Option<u64>,
}

struct Node {
    id: String,
    started: u64,
    renewed: u64,
    previous_run_reaped: bool,
    /// The sockets with the time of their connect.
    sockets: HashMap<(UserId, SocketId), (u64, DeviceId)>,
    users: BTreeSet<UserId>,
}

pub struct Model {
    now: u64,
    ttl: u64,
    users: BTreeMap<UserId, User>,
    nodes: Vec<Node>,
    dead: Vec<Node>,
    count: usize,
    announced: Vec<(String, u64)>,
}

impl Model {
    /// Two nodes that may expire others.
    pub fn new(fixture: &PresenceFixture) -> Self {
        let now = fixture.now().as_millis();
        let node = |id: &str| Node {
            id: id.to_owned(),
            started: 0,
            renewed: now,
            previous_run_reaped: true,
            sockets: HashMap::new(),
            users: BTreeSet::new(),
        };
        Self {
            now,
            ttl: ms(fixture.ttl()),
            users: BTreeMap::new(),
            nodes: vec![node("n0"), node("n1")],
            dead: Vec::new(),
            count: 1,
            announced: Vec::new(),
        }
    }

    pub fn take_announced(&mut self) -> Vec<(String, u64)> {
        std::mem::take(&mut self.announced)
    }

    /// Status, version and live devices.
    pub fn seen(&self, user: &UserId) -> (&'static str, u64, Vec<String>) {
        let Some(user) = self.users.get(user) else {
            return ("offline", 0, Vec::new());
        };
        let live = user.devices.iter().filter(|(_, it)| it.deadline > self.now);
        let live: BTreeSet<String> = live.map(|(_, it)| it.id.to_string()).collect();
        let live: Vec<String> = live.into_iter().collect();
        let status = match user.shown {
            Some(shown) if !live.is_empty() => shown,
            _ => "offline",
        };
        (status, user.version, live)
    }

    /// Expected and stored content of the layout's keys. While a device has expired and no sweep has removed it, keys
    /// with a TTL may or may not exist, so the stored content counts as expected.
    pub fn shown(
        &self,
        name: &UserId,
        fixture: &PresenceFixture,
        stored: Projected,
    ) -> (Projected, Projected) {
        let Some(user) = self.users.get(name) else {
            return ((None, Vec::new()), stored);
        };
        let is_set = fixture.layout == PresenceLayout::Sockets;
        let ids = user
            .devices
            .iter()
            .map(|(entry, it)| match is_set && it.api {
                true => format!("{entry}~{name}"),
                false => entry.clone(),
            });
        let mut ids: Vec<String> = ids.collect();
        ids.sort();
        let until = user.devices.values().map(|it| it.deadline).max();
        let visible = user.shown.is_some_and(|shown| shown != "offline");
        let lapsed = until.is_some_and(|until| until <= self.now);
        let word = |word: &str| Some(word.to_owned());
        let expected = match fixture.layout {
            PresenceLayout::Sockets => {
                let flag = user
                    .shown
                    .and_then(|_| word(if visible { "true" } else { "false" }));
                (flag, ids)
            }
            PresenceLayout::Status if user.explicit == Some("offline") => {
                (word("offline"), Vec::new())
            }
            _ if lapsed => return (stored.clone(), stored),
            PresenceLayout::Devices if visible => (None, ids),
            PresenceLayout::Document if visible => {
                let known = stored.0.as_ref().filter(|it| it.contains("\"online\""));
                (known.cloned().or(word("a document")), Vec::new())
            }
            PresenceLayout::Status if visible => (word("online"), Vec::new()),
            _ => (None, Vec::new()),
        };
        (expected, stored)
    }

    pub fn pass(&mut self, now: u64) {
        self.now = now;
        for node in &mut self.nodes {
            node.renewed = now;
        }
    }

    pub fn connect(&mut self, node: usize, user: &UserId, socket: &SocketId, id: &DeviceId) {
        let place = (user.clone(), socket.clone());
        let sockets = &mut self.nodes[node].sockets;
        sockets.insert(place, (self.now, id.clone()));
        self.user(user).tombstones.remove(id);
        let device = self.device(node, id, self.now, false);
        self.register(node, user, socket.as_str(), device, true);
    }

    /// Registers a device without a socket; with `visible` the explicit status ends.
    pub fn request(&mut self, node: usize, name: &UserId, id: &DeviceId, visible: bool) {
        if visible {
            self.user(name).explicit = None;
        }
        let device = self.device(node, id, self.now, true);
        self.register(node, name, id.as_str(), device, true);
    }

    fn user(&mut self, name: &UserId) -> &mut User {
        self.users.entry(name.clone()).or_default()
    }

    fn device(&self, node: usize, id: &DeviceId, connected: u64, api: bool) -> Device {
        Device {
            id: id.clone(),
            node: self.nodes[node].id.clone(),
            deadline: self.now + self.ttl,
            connected,
            lost: false,
            api,
        }
    }

    /// Registers a device. `is_new` is false if a heartbeat registers it.
    fn register(&mut self, node: usize, name: &UserId, entry: &str, device: Device, is_new: bool) {
        if !device.api {
            self.nodes[node].users.insert(name.clone());
        }
        let now = self.now;
        let user = self.user(name);
        user.check_at = Some(device.deadline);
        user.devices.retain(|_, it| it.deadline > now);
        let is_rejected = device.api && !is_new && user.explicit == Some("offline");
        if !is_rejected {
            if is_new && user.devices.is_empty() {
                user.explicit = None;
            }
            let same = |it: &Device| it.id == device.id;
            let open = user.devices.values_mut();
            let mut open = open.filter(|it| same(it) && !it.lost && !it.api).peekable();
            if device.api && open.peek().is_some() {
                open.for_each(|it| it.deadline = device.deadline);
            } else {
                user.devices
                    .retain(|_, it| !same(it) || !(it.lost || it.api));
                user.devices.insert(entry.to_owned(), device);
            }
        }
        self.settle(name);
    }

    pub fn heartbeat(&mut self, node: usize, name: &UserId, socket: &SocketId) {
        let place = (name.clone(), socket.clone());
        let Some((connected, id)) = self.nodes[node].sockets.get(&place).cloned() else {
            return;
        };
        let here = self.nodes[node].id.clone();
        let ours = |it: &Device| !it.api && it.node == here;
        match self.beaten(name, socket.as_str(), ours) {
            true => {}
            false if self.users[name].tombstones.get(&id) >= Some(&connected) => {
                self.drop_socket(node, &place);
            }
            false => {
                let device = self.device(node, &id, connected, false);
                self.register(node, name, socket.as_str(), device, false);
            }
        }
    }

    /// Heartbeat of a device without a socket.
    pub fn request_beat(&mut self, node: usize, name: &UserId, id: &DeviceId) {
        let deadline = self.now + self.ttl;
        let now = self.now;
        let user = self.user(name);
        let left = user.last_disconnect >= Some(now);
        let open = |it: &Device| it.id == *id && !it.lost && !it.api;
        let has_socket = user.devices.values().any(open);
        let is_known = self.beaten(name, id.as_str(), |it| it.api);
        if !is_known && !has_socket && !left {
            let device = self.device(node, id, now, true);
            self.register(node, name, id.as_str(), device, false);
        }
        self.user(name).check_at.get_or_insert(deadline);
    }

    /// Extends the deadline of a device if the sender holds it. False if the device is unknown or lost.
    fn beaten(&mut self, name: &UserId, entry: &str, ours: impl Fn(&Device) -> bool) -> bool {
        let (now, deadline) = (self.now, self.now + self.ttl);
        let user = self.user(name);
        let Some(device) = user.devices.get_mut(entry).filter(|it| !it.lost) else {
            return false;
        };
        if ours(device) {
            device.deadline = deadline;
            user.devices.retain(|_, it| it.deadline > now);
            self.settle(name);
        }
        true
    }

    pub fn disconnect(&mut self, node: usize, name: &UserId, socket: &SocketId) {
        let now = self.now;
        if let Some(user) = self.held(node, name, socket) {
            user.devices.remove(socket.as_str());
            user.last_disconnect = Some(now);
        }
        self.clean_up(node, name);
    }

    /// Clean disconnect of a device without a socket.
    pub fn request_leave(&mut self, name: &UserId, id: &DeviceId) {
        let now = self.now;
        let user = self.user(name);
        user.last_disconnect = Some(now);
        if user.devices.get(id.as_str()).is_some_and(|it| it.api) {
            user.devices.remove(id.as_str());
        }
        self.settle(name);
        self.look_sooner(name);
    }

    /// Removes a device on behalf of a request to a node.
    pub fn remove_device(&mut self, node: usize, name: &UserId, id: &DeviceId) {
        let now = self.now;
        let user = self.user(name);
        user.last_disconnect = Some(now);
        user.tombstones.insert(id.clone(), now);
        user.devices.retain(|_, it| it.id != *id);
        self.settle(name);
        self.look_sooner(name);
        let sockets = self.nodes[node].sockets.iter();
        let of_device = sockets.filter(|((user, _), (_, device))| user == name && device == id);
        let places: Vec<_> = of_device.map(|(place, _)| place.clone()).collect();
        for place in places {
            self.drop_socket(node, &place);
        }
    }

    /// Drops the socket of a removed device, and makes its user due for a check.
    fn drop_socket(&mut self, node: usize, place: &(UserId, SocketId)) {
        let now = self.now;
        self.nodes[node].sockets.remove(place);
        self.look_at(&place.0, now);
        self.forget_user(node, &place.0);
    }

    pub fn holds(&self, node: usize, user: &UserId, socket: &SocketId) -> bool {
        let place = (user.clone(), socket.clone());
        self.nodes[node].sockets.contains_key(&place)
    }

    pub fn lose(&mut self, node: usize, name: &UserId, socket: &SocketId) {
        let soon = self.now + ms(GRACE);
        if let Some(user) = self.held(node, name, socket) {
            let device = user.devices.get_mut(socket.as_str()).unwrap();
            device.lost = true;
            device.deadline = device.deadline.min(soon);
        }
        self.clean_up(node, name);
    }

    /// Removes a socket. Returns the user if the socket still holds the device.
    fn held(&mut self, node: usize, name: &UserId, socket: &SocketId) -> Option<&mut User> {
        let node = &mut self.nodes[node];
        let (connected, _) = node.sockets.remove(&(name.clone(), socket.clone()))?;
        let user = self.users.get_mut(name)?;
        let device = user.devices.get(socket.as_str())?;
        let same =
            device.node == node.id && device.connected == connected && !device.lost && !device.api;
        same.then_some(user)
    }

    fn clean_up(&mut self, node: usize, name: &UserId) {
        self.settle(name);
        self.look_sooner(name);
        self.forget_user(node, name);
    }

    fn forget_user(&mut self, node: usize, name: &UserId) {
        let node = &mut self.nodes[node];
        if !node.sockets.keys().any(|(user, _)| user == name) {
            node.users.remove(name);
        }
    }

    pub fn set_status(&mut self, name: &UserId, status: &'static str) {
        let now = self.now;
        let user = self.user(name);
        let is_live = user.devices.values().any(|it| it.deadline > now);
        if status == "offline" {
            user.explicit = Some(status);
        } else {
            if !is_live && user.explicit == Some("offline") {
                user.devices.retain(|_, it| it.deadline > now);
            }
            user.explicit = (is_live && status != "online").then_some(status);
        }
        self.settle(name);
    }

    fn may_judge(&self, node: usize) -> bool {
        self.nodes[node].started + ms(LEASE + GRACE) <= self.now
    }

    pub fn sweep(&mut self, node: usize) {
        if !self.may_judge(node) {
            return;
        }
        let now = self.now;
        let due = self
            .users
            .iter()
            .filter(|(_, it)| it.check_at.is_some_and(|at| at <= now));
        let due: Vec<UserId> = due.map(|(name, _)| name.clone()).collect();
        for name in due {
            self.lapse(&name, None);
            let user = self.users.get_mut(&name).unwrap();
            user.check_at = user.devices.values().map(|it| it.deadline).max();
        }
    }

    pub fn reap(&mut self, node: usize) {
        let own = &mut self.nodes[node];
        if !own.previous_run_reaped && own.started + ms(GRACE) <= self.now {
            own.previous_run_reaped = true;
            for name in own.users.clone() {
                self.lapse(&name, None);
                self.look_sooner(&name);
            }
        }
        if !self.may_judge(node) {
            return;
        }
        let over = |it: &Node| it.renewed + ms(LEASE + GRACE) <= self.now;
        let (over, rest) = std::mem::take(&mut self.dead).into_iter().partition(over);
        self.dead = rest;
        for dead in over {
            for name in &dead.users {
                self.lapse(name, Some(&dead.id));
                self.look_sooner(name);
            }
        }
    }

    pub fn next_node(&mut self) -> String {
        self.count += 1;
        format!("n{}", self.count)
    }

    pub fn crash(&mut self, node: usize) {
        let fresh = Node {
            id: format!("n{}", self.count),
            started: self.now,
            renewed: self.now,
            previous_run_reaped: false,
            sockets: HashMap::new(),
            users: BTreeSet::new(),
        };
        let dead = std::mem::replace(&mut self.nodes[node], fresh);
        self.dead.push(dead);
    }

    fn lapse(&mut self, name: &UserId, dead: Option<&str>) {
        let now = self.now;
        if let Some(user) = self.users.get_mut(name) {
            // Devices with a heartbeat within the grace period stay.
            let over = |it: &Device| it.deadline + ms(GRACE) <= now + self.ttl;
            let of_dead =
                |it: &Device| !it.lost && !it.api && Some(it.node.as_str()) == dead && over(it);
            user.devices
                .retain(|_, it| it.deadline > now && !of_dead(it));
        }
        self.settle(name);
    }

    fn look_sooner(&mut self, name: &UserId) {
        let latest = self.user(name).devices.values().map(|it| it.deadline).max();
        self.look_at(name, latest.unwrap_or(self.now));
    }

    fn look_at(&mut self, name: &UserId, deadline: u64) {
        let look = &mut self.user(name).check_at;
        *look = Some(match *look {
            Some(look) => look.min(deadline),
            None => deadline,
        });
    }

    fn settle(&mut self, name: &UserId) {
        let Some(user) = self.users.get_mut(name) else {
            return;
        };
        if user.devices.is_empty() && user.explicit != Some("offline") {
            user.explicit = None;
        }
        let before = user.shown.unwrap_or("offline");
        let after = match user.devices.is_empty() {
            true => "offline",
            false => user.explicit.unwrap_or("online"),
        };
        let latest = user.devices.values().map(|it| it.deadline).max();
        let latest = latest.unwrap_or(0);
        let seen_gone = std::mem::replace(&mut user.until, latest) <= self.now;
        let back = seen_gone && after != "offline" && latest > self.now;
        if before == after && !back {
            return;
        }
        user.shown = Some(after);
        user.version = self.now.max(user.version + 1);
        if (before == "offline") != (after == "offline") {
            let kind = if after == "offline" { after } else { "online" };
            self.announced
                .push((format!("{kind} {name}"), user.version));
        }
    }
}
