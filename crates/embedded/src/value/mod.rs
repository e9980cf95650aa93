//! What a key can hold. Values know nothing of keys and expiry, and of persistence only lists do.

mod list;
mod map;
mod text;
mod zset;

use std::sync::Arc;

pub use list::{End, List};
pub use map::Map;
pub use text::{Spelled, Text, parse_int};
pub use zset::{Score, ZSet};

/// Immutable bytes, shared between the keyspace, the journal and subscribers without copying.
pub type Blob = Arc<[u8]>;
/// Field → value, in order of insertion while nothing was removed.
pub type Hash = Map<Blob>;
/// Members without order.
pub type Set = Map<()>;

/// The five types of Redis that the engine keeps.
#[derive(Debug, Clone)]
pub enum Value {
    /// A string or counter.
    Text(Text),
    /// A list.
    List(Box<List>),
    /// A hash.
    Hash(Hash),
    /// A set.
    Set(Set),
    /// A sorted set.
    ZSet(ZSet),
}

/// The type of a value, numbered as it is stored on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text = 0,
    List = 1,
    Hash = 2,
    Set = 3,
    ZSet = 4,
}

impl Kind {
    /// The name that `TYPE` answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::List => "list",
            Self::Hash => "hash",
            Self::Set => "set",
            Self::ZSet => "zset",
        }
    }

    /// The kind stored as `number`.
    pub fn from_number(number: i64) -> Option<Self> {
        [Self::Text, Self::List, Self::Hash, Self::Set, Self::ZSet]
            .into_iter()
            .find(|kind| *kind as i64 == number)
    }
}

impl Value {
    /// The type of this value.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Text(_) => Kind::Text,
            Self::List(_) => Kind::List,
            Self::Hash(_) => Kind::Hash,
            Self::Set(_) => Kind::Set,
            Self::ZSet(_) => Kind::ZSet,
        }
    }

    /// The string, if it is one.
    pub fn text(&self) -> Option<&Text> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number of items of a collection, 1 for a string.
    pub fn items(&self) -> usize {
        match self {
            Self::Text(_) => 1,
            Self::List(list) => list.len(),
            Self::Hash(hash) => hash.len(),
            Self::Set(set) => set.len(),
            Self::ZSet(zset) => zset.len(),
        }
    }

    /// Whether this is a list whose changes are not written to disk.
    pub fn is_in_memory(&self) -> bool {
        matches!(self, Self::List(list) if list.is_in_memory())
    }

    /// Whether this is a collection whose key should go.
    pub fn has_no_items(&self) -> bool {
        self.items() == 0
    }
}

/// A type made of items: empty ones do not exist, so a key goes with its last item.
pub trait Collection: Default {
    /// Its type.
    const KIND: Kind;
    /// This type inside a value.
    fn of(value: &Value) -> Option<&Self>;
    /// This type inside a value, to change it.
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
    /// Wraps it up.
    fn into_value(self) -> Value;
    /// Whether the key should go.
    fn has_no_items(&self) -> bool;
}

macro_rules! collection {
    ($type:ty, $kind:ident, $value:ident => $into:expr) => {
        impl Collection for $type {
            const KIND: Kind = Kind::$kind;
            fn of(value: &Value) -> Option<&Self> {
                match value {
                    Value::$kind(inner) => Some(inner),
                    _ => None,
                }
            }
            fn of_mut(value: &mut Value) -> Option<&mut Self> {
                match value {
                    Value::$kind(inner) => Some(inner),
                    _ => None,
                }
            }
            fn into_value(self) -> Value {
                let $value = self;
                Value::$kind($into)
            }
            fn has_no_items(&self) -> bool {
                self.is_empty()
            }
        }
    };
}

collection!(List, List, list => Box::new(list));
collection!(Hash, Hash, hash => hash);
collection!(Set, Set, set => set);
collection!(ZSet, ZSet, zset => zset);
