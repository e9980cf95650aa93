//! Keys of presence.
//!
//! Invariant: the state is one internal hash. The documented keys are derived from it, in exactly one layout.

use super::model::Device;
use crate::ids::{DeadlineShard, NodeId, SocketId, UserId, WatchShard};
use crate::keys::{
    Channel, Key, KeyGroup, KeyKind, KeyLayout, KeySpec, KeyTtl, Keyspace, PresenceLayout,
    SchemaSource, TtlName,
};

/// The keys of presence.
pub const KEY_GROUP: KeyGroup = KeyGroup {
    name: "presence",
    title: "Presence",
    keys: &[
        DEVICES,
        DOCUMENT,
        ONLINE,
        SOCKETS,
        STATUS,
        LAST_SEEN,
        SOCKET_USER,
        USER_ONLINE,
        USER_OFFLINE,
        STATE,
        DEADLINES,
        NODE_USERS,
        WATCH,
        VERSION_FLOOR,
    ],
};

const DEVICES: KeySpec = KeySpec::documented("presence:user:{user}", KeyKind::Hash, KeyTtl::Configured(TtlName::Presence))
    .value(r#"field = socket id (for a device that connects over HTTP or gRPC: its device id); value `{"serverId","connectedAt","refreshedAt"}`, times in ISO 8601; optional `status`, `device`"#)
    .meaning("the live devices of a user; no key when there is none")
    .sources(&[SchemaSource::Rooms])
    .layout(KeyLayout::Presence(PresenceLayout::Devices));

const DOCUMENT: KeySpec = KeySpec::documented(
    "presence:{user}",
    KeyKind::String,
    KeyTtl::Configured(TtlName::Presence),
)
.value(r#"`{"userId","status":"online","lastSeen"}`, time in ms"#)
.meaning(
    "exists while the user is online; rewritten by each heartbeat, deleted on the last disconnect",
)
.sources(&[SchemaSource::ChatApp])
.layout(KeyLayout::Presence(PresenceLayout::Document));

const ONLINE: KeySpec = KeySpec::documented("user:{user}:online", KeyKind::String, KeyTtl::Never)
    .value("`true` or `false`")
    .meaning("whether the user is online; `false` after the last socket is removed or expires. When the last node stops, the key expires after the lease and the grace period")
    .sources(&[SchemaSource::ChatService])
    .layout(KeyLayout::Presence(PresenceLayout::Sockets));

const SOCKETS: KeySpec = KeySpec::documented("user:{user}:sockets", KeyKind::Set, KeyTtl::Never)
    .value("socket ids")
    .meaning("the live sockets of a user; a socket is removed when it disconnects or expires")
    .sources(&[SchemaSource::ChatService])
    .layout(KeyLayout::Presence(PresenceLayout::Sockets));

const STATUS: KeySpec = KeySpec::documented(
    "user:status:{user}",
    KeyKind::String,
    KeyTtl::OneOf(
        TtlName::Presence,
        "online",
        TtlName::StatusOffline,
        "offline",
    ),
)
.value("`online` (also when away or busy) or `offline` (only when set explicitly)")
.meaning("the status of a user; a missing key means offline, a heartbeat renews `online` only, an explicit `offline` stays until the user is set online or connects again")
.sources(&[SchemaSource::UserStatus])
.layout(KeyLayout::Presence(PresenceLayout::Status));

const LAST_SEEN: KeySpec = KeySpec::documented("lastseen:{user}", KeyKind::String, KeyTtl::Never)
    .value("ISO 8601")
    .meaning("time of the last activity: connect, heartbeat (at most once a minute), going offline")
    .sources(&[SchemaSource::ChatService]);

const SOCKET_USER: KeySpec = KeySpec::documented(
    "socket:{socket}:user",
    KeyKind::String,
    KeyTtl::Configured(TtlName::Presence),
)
.value("user id")
.meaning("owner of the socket; renewed by the heartbeat")
.sources(&[SchemaSource::ChatService]);

const USER_ONLINE: KeySpec = KeySpec::channel("events:user.online")
    .value(r#"`{"userId","timestamp","version"}`, time in ISO 8601"#)
    .meaning("a user's visible status left offline")
    .sources(&[SchemaSource::ChatService]);

const USER_OFFLINE: KeySpec = KeySpec::channel("events:user.offline")
    .value(r#"`{"userId","timestamp","version"}`, time in ISO 8601"#)
    .meaning("a user's visible status became offline")
    .sources(&[SchemaSource::ChatService]);

const STATE: KeySpec = KeySpec::internal("parlor:presence:{user}", KeyKind::Hash, KeyTtl::AtTimes("48 h; none in the layout `sockets` while the user has a device"))
    .value("`d:<socket>` = `node#bootId|deadline|connectedAt` and `|device` if the device has another id (field: socket id, or device id of a device without a socket; boot id `api`: a device without a socket; empty: the connection is lost); `i:<socket>` client description as JSON; `g:<device>` time of removal; `x` explicit status; `s` last published status; `v` version; `seen`, `seenMs` last seen; `until` latest deadline; `n` number of devices; `left` time of the last clean disconnect or removal; `doc`, `lease` own document and lease of another service in the layouts `document` and `status`")
    .meaning("the presence state of a user, from which every layout is written");

const DEADLINES: KeySpec = KeySpec::internal(
    "parlor:deadlines:{0..63}",
    KeyKind::SortedSet,
    KeyTtl::Never,
)
.value("member user id, score = ms at which to check the user")
.meaning("when to check a user for expired devices; a hint, the state decides");

const NODE_USERS: KeySpec =
    KeySpec::internal("parlor:node:{node}:users", KeyKind::Set, KeyTtl::Never)
        .value("user ids")
        .meaning("users with sockets on a node, checked when the node dies");

const WATCH: KeySpec = KeySpec::internal("parlor:watch:{0..255}", KeyKind::Channel, KeyTtl::Never)
    .value("frame with version byte")
    .meaning("status changes of the users of this shard, for the nodes whose clients watch them");

const VERSION_FLOOR: KeySpec = KeySpec::internal(
    "parlor:presence-version-floor",
    KeyKind::String,
    KeyTtl::Never,
)
.value("ms")
.meaning("minimum of every version: time of the last unclean start of the embedded store");

impl Keyspace {
    /// The devices of a user, in the layout `devices`.
    pub fn presence_devices(&self, user: &UserId) -> Key {
        self.key1(&DEVICES, user)
    }

    /// The presence document of a user, in the layout `document`.
    pub fn presence_document(&self, user: &UserId) -> Key {
        self.key1(&DOCUMENT, user)
    }

    /// The flag whether a user is online, in the layout `sockets`.
    pub fn presence_online(&self, user: &UserId) -> Key {
        self.key1(&ONLINE, user)
    }

    /// The sockets of a user, in the layout `sockets`.
    pub fn presence_sockets(&self, user: &UserId) -> Key {
        self.key1(&SOCKETS, user)
    }

    /// The status of a user, in the layout `status`.
    pub fn presence_status(&self, user: &UserId) -> Key {
        self.key1(&STATUS, user)
    }

    /// Time at which a user last became offline.
    pub fn last_seen(&self, user: &UserId) -> Key {
        self.key1(&LAST_SEEN, user)
    }

    /// Owner of a socket.
    pub fn socket_user(&self, socket: &SocketId) -> Key {
        self.key1(&SOCKET_USER, socket)
    }

    /// The key with the owner of a device's socket. In the layout `sockets`, a device without a socket is stored as the
    /// socket `{device}~{user}`; in the other layouts it has no such key.
    pub(super) fn owner_of_device(&self, device: &Device) -> Option<Key> {
        if let Some(socket) = &device.socket {
            return Some(self.socket_user(socket));
        }
        let is_stored = self.settings().layouts.presence == PresenceLayout::Sockets;
        is_stored.then(|| self.key1(&SOCKET_USER, &SocketId::of_device(&device.id, &device.user)))
    }

    /// Channel that tells other services that a user became online.
    pub fn user_online_channel(&self) -> Channel {
        self.channel0(&USER_ONLINE)
    }

    /// Channel that tells other services that a user became offline.
    pub fn user_offline_channel(&self) -> Channel {
        self.channel0(&USER_OFFLINE)
    }

    /// The presence state of a user.
    pub fn presence_state(&self, user: &UserId) -> Key {
        self.key1(&STATE, user)
    }

    /// A shard of the index of presence deadlines.
    pub fn presence_deadlines(&self, shard: DeadlineShard) -> Key {
        self.key1(&DEADLINES, &shard)
    }

    /// The users that have sockets on a node.
    pub fn node_presence_users(&self, node: &NodeId) -> Key {
        self.key1(&NODE_USERS, node)
    }

    /// Minimum of every version.
    pub fn version_floor(&self) -> Key {
        self.key0(&VERSION_FLOOR)
    }

    /// Channel of the presence changes of a shard of users.
    pub fn presence_changes_channel(&self, shard: WatchShard) -> Channel {
        self.channel1(&WATCH, &shard)
    }
}
