//! Identifiers that can be part of a key.
//!
//! Invariant: a value of one of these types has passed the rules of its kind, also if it was read from JSON or from the
//! store. Cloning an identifier copies a pointer.

mod limiter;
mod openapi;
mod rules;
mod shard;

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::Arc;

use redis::{FromRedisValue, ParsingError, RedisWrite, ToRedisArgs, ToSingleRedisArg, Value};
use serde::de::{Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

pub use limiter::client_network;
pub use rules::{IdKind, InvalidId, MAX_ENDPOINT_BYTES, MAX_ID_BYTES, MAX_LIMITER_ID_BYTES};
pub use shard::{DeadlineShard, WatchShard};

/// An identifier that can be part of a key.
pub trait KeyIdentifier {
    /// Kind of the identifier.
    const KIND: IdKind;

    /// The text of the identifier in a key.
    fn as_str(&self) -> &str;
}

macro_rules! id_type {
    ($(#[$meta:meta])* $name:ident, $kind:ident, $normalize:expr) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Validates `text` and creates an identifier.
            pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidId> {
                let normalize: fn(&str) -> Result<Arc<str>, InvalidId> = $normalize;
                normalize(text.as_ref()).map(Self)
            }

            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl KeyIdentifier for $name {
            const KIND: IdKind = IdKind::$kind;

            fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), &*self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(IdVisitor(PhantomData))
            }
        }

        impl ToRedisArgs for $name {
            fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
                out.write_arg(self.0.as_bytes());
            }
        }

        impl ToSingleRedisArg for $name {}

        impl FromRedisValue for $name {
            fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
                let text = String::from_redis_value(value)?;
                Self::new(text).map_err(|e| ParsingError::from(e.to_string()))
            }
        }
    };
}

macro_rules! plain_id_type {
    ($(#[$meta:meta])* $name:ident, $kind:ident) => {
        id_type!($(#[$meta])* $name, $kind, |text| {
            IdKind::$kind.validate(text)?;
            Ok(Arc::from(text))
        });
    };
}

plain_id_type!(
    /// Id of a user: a person, a support agent or a visitor.
    UserId,
    User
);
plain_id_type!(
    /// Id of a conversation.
    ConversationId,
    Conversation
);
plain_id_type!(
    /// Id of a client's socket.
    SocketId,
    Socket
);
plain_id_type!(
    /// Id of a user's device: the id that the client chooses, or else the id of its socket.
    DeviceId,
    Device
);
plain_id_type!(
    /// Id of a Parlor node.
    NodeId,
    Node
);
id_type!(
    /// Name of a rate limit, chosen by the caller: an IP address, `user:123`, …
    ///
    /// An IPv6 address is replaced by its /64 network in canonical form, because one customer owns all of it. An IPv4
    /// address in IPv6 notation is replaced by the IPv4 address.
    LimiterId,
    Limiter,
    limiter::normalize
);

impl LimiterId {
    /// The limiter id of a client address.
    pub fn from_ip(address: std::net::IpAddr) -> Self {
        Self(client_network(address).to_string().into())
    }
}

impl DeviceId {
    /// Device id of a request that names no device.
    pub fn default_for_requests() -> Self {
        Self(Arc::from("api"))
    }
}

impl SocketId {
    /// Name that stands for the socket of a device without one: `{device}~{user}`. The user is part of it, because all
    /// users share the default device id.
    pub(crate) fn of_device(device: &DeviceId, user: &UserId) -> Self {
        Self(format!("{device}~{user}").into())
    }
}

impl From<SocketId> for DeviceId {
    fn from(socket: SocketId) -> Self {
        Self(socket.0)
    }
}

/// Validates a string while it is deserialized, so that only the identifier itself is allocated.
struct IdVisitor<T>(PhantomData<T>);

impl<T: KeyIdentifier + FromStr<Err = InvalidId>> Visitor<'_> for IdVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} as a string", T::KIND.label())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}
