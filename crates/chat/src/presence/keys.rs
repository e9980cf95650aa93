//! The keys of presence.
//!
//! Always true: the state is one internal hash; the documented keys are its projection, and exactly one layout of them is written.

use crate::ids::{DeadlineShard, NodeId, SocketId, UserId, WatchShard};
use crate::keys::{
    Capability, Channel, Key, KeySpec, Keyspace, Kind, Layout, PresenceLayout, Source, Ttl, TtlName,
};

/// What presence owns.
pub const CAPABILITY: Capability = Capability {
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
    ],
};

const DEVICES: KeySpec = KeySpec::new("presence:user:{user}", Kind::Hash, Ttl::Setting(TtlName::Presence))
    .value(r#"field = socket or device id; value `{"serverId","connectedAt","refreshedAt"}`, times in ISO 8601; optional `status`, `device`"#)
    .meaning("the live devices of a user; no key when there is none")
    .source(&[Source::S1])
    .layout(Layout::Presence(PresenceLayout::Devices));

const DOCUMENT: KeySpec = KeySpec::new(
    "presence:{user}",
    Kind::String,
    Ttl::Setting(TtlName::Presence),
)
.value(r#"`{"userId","status":"online","lastSeen"}`, time in ms"#)
.meaning(
    "there while the user is online; rewritten by each heartbeat, deleted on the last disconnect",
)
.source(&[Source::S0])
.layout(Layout::Presence(PresenceLayout::Document));

const ONLINE: KeySpec = KeySpec::new("user:{user}:online", Kind::String, Ttl::Never)
    .value("`true` or `false`")
    .meaning("whether the user is online; set to `false` when the lease of the last socket ends")
    .source(&[Source::S2])
    .layout(Layout::Presence(PresenceLayout::Sockets));

const SOCKETS: KeySpec = KeySpec::new("user:{user}:sockets", Kind::Set, Ttl::Never)
    .value("socket ids")
    .meaning("the live sockets of a user; emptied when their leases end")
    .source(&[Source::S2])
    .layout(Layout::Presence(PresenceLayout::Sockets));

const STATUS: KeySpec = KeySpec::new(
    "user:status:{user}",
    Kind::String,
    Ttl::Either(
        TtlName::Presence,
        "online",
        TtlName::StatusOffline,
        "offline",
    ),
)
.value("`online` (also when away or busy) or `offline` (only when set explicitly)")
.meaning("a user's status; a missing key reads as offline, a heartbeat renews `online` only")
.source(&[Source::S3])
.layout(Layout::Presence(PresenceLayout::Status));

const LAST_SEEN: KeySpec = KeySpec::new("lastseen:{user}", Kind::String, Ttl::Never)
    .value("ISO 8601")
    .meaning("when the user was last online")
    .source(&[Source::S2]);

const SOCKET_USER: KeySpec = KeySpec::new(
    "socket:{socket}:user",
    Kind::String,
    Ttl::Setting(TtlName::Presence),
)
.value("user id")
.meaning("whose socket it is; renewed with the heartbeat")
.source(&[Source::S2]);

const USER_ONLINE: KeySpec = KeySpec::channel("events:user.online")
    .value(r#"`{"userId","timestamp","version"}`, time in ISO 8601"#)
    .meaning("a user's visible status left offline")
    .source(&[Source::S2]);

const USER_OFFLINE: KeySpec = KeySpec::channel("events:user.offline")
    .value(r#"`{"userId","timestamp","version"}`, time in ISO 8601"#)
    .meaning("a user's visible status became offline")
    .source(&[Source::S2]);

const STATE: KeySpec = KeySpec::internal("parlor:presence:{user}", Kind::Hash, Ttl::Fixed(48 * 3_600))
    .value("`d:<device>` = `node#epoch|deadline|connectedAt` (epoch `api`: no node holds it, empty: its connection is lost); `i:<device>` what the client says about it; `g:<device>` when it was removed; `x` explicit status, `s` last announced, `v` version, `seen`, `until`, `n` how many devices, `left` the last goodbye")
    .meaning("the one state of a user's presence, which every layout is written from");

const DEADLINES: KeySpec =
    KeySpec::internal("parlor:deadlines:{0..63}", Kind::SortedSet, Ttl::Never)
        .value("member user id, score = ms at which to look")
        .meaning("when to look whether a user's devices lapsed; a hint, the state decides");

const NODE_USERS: KeySpec = KeySpec::internal("parlor:node:{node}:users", Kind::Set, Ttl::Never)
    .value("user ids")
    .meaning("whose devices a node holds, to be looked at when it dies");

const WATCH: KeySpec = KeySpec::internal("parlor:watch:{0..255}", Kind::Channel, Ttl::Never)
    .value("frame with version byte")
    .meaning("changes of the users of this shard, for the nodes whose clients watch them");

impl Keyspace {
    /// The devices of a user, in the layout `devices`.
    pub fn presence_devices(&self, user: &UserId) -> Key {
        self.key1(&DEVICES, user)
    }

    /// The presence document of a user, in the layout `document`.
    pub fn presence_document(&self, user: &UserId) -> Key {
        self.key1(&DOCUMENT, user)
    }

    /// Whether a user is online, in the layout `sockets`.
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

    /// When a user was last online.
    pub fn last_seen(&self, user: &UserId) -> Key {
        self.key1(&LAST_SEEN, user)
    }

    /// Whose a socket is.
    pub fn socket_user(&self, socket: &SocketId) -> Key {
        self.key1(&SOCKET_USER, socket)
    }

    /// Tells other services that a user came.
    pub fn user_online_events(&self) -> Channel {
        self.channel0(&USER_ONLINE)
    }

    /// Tells other services that a user went.
    pub fn user_offline_events(&self) -> Channel {
        self.channel0(&USER_OFFLINE)
    }

    /// The state of a user's presence.
    pub fn presence_state(&self, user: &UserId) -> Key {
        self.key1(&STATE, user)
    }

    /// A part of the index of deadlines.
    pub fn deadlines(&self, shard: DeadlineShard) -> Key {
        self.key1(&DEADLINES, &shard)
    }

    /// The users whose devices a node holds.
    pub fn node_users(&self, node: &NodeId) -> Key {
        self.key1(&NODE_USERS, node)
    }

    /// The channel of presence changes of a shard of users.
    pub fn watch(&self, shard: WatchShard) -> Channel {
        self.channel1(&WATCH, &shard)
    }
}
