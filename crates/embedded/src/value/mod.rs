//! What a key can hold. Values know nothing of keys and expiry, and of persistence only lists do.

mod list;
mod map;
mod text;
mod zset;

use std::sync::Arc;

pub use list::{List, ListEnd};
pub use map::CompactMap;
pub use text::{StringBytes, StringValue, parse_int};
pub use zset::{Score, ZSet};

/// Immutable bytes, shared between the keyspace, the journal and subscribers without copying.
pub type SharedBytes = Arc<[u8]>;
/// Field → value, in order of insertion while nothing was removed.
pub type Hash = CompactMap<SharedBytes>;
/// Members without order.
pub type Set = CompactMap<()>;

/// The five types of Redis that the engine keeps.
#[derive(Debug, Clone)]
pub enum Value {
    /// A string or counter.
    String(StringValue),
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
pub enum ValueType {
    String = 0,
    List = 1,
    Hash = 2,
    Set = 3,
    ZSet = 4,
}

impl ValueType {
    /// The name that `TYPE` answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::List => "list",
            Self::Hash => "hash",
            Self::Set => "set",
            Self::ZSet => "zset",
        }
    }

    /// The kind stored as `number`.
    pub fn from_disk_number(number: i64) -> Option<Self> {
        [Self::String, Self::List, Self::Hash, Self::Set, Self::ZSet]
            .into_iter()
            .find(|kind| *kind as i64 == number)
    }
}

impl Value {
    /// The type of this value.
    pub fn value_type(&self) -> ValueType {
        match self {
            Self::String(_) => ValueType::String,
            Self::List(_) => ValueType::List,
            Self::Hash(_) => ValueType::Hash,
            Self::Set(_) => ValueType::Set,
            Self::ZSet(_) => ValueType::ZSet,
        }
    }

    /// The string, if it is one.
    pub fn text(&self) -> Option<&StringValue> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The number of items of a collection, 1 for a string.
    pub fn item_count(&self) -> usize {
        match self {
            Self::String(_) => 1,
            Self::List(list) => list.len(),
            Self::Hash(hash) => hash.len(),
            Self::Set(set) => set.len(),
            Self::ZSet(zset) => zset.len(),
        }
    }

    /// Whether this is a list whose changes are not written to disk.
    pub fn is_memory_only(&self) -> bool {
        matches!(self, Self::List(list) if list.is_memory_only())
    }

    /// Whether this is a collection whose key should go.
    pub fn has_no_items(&self) -> bool {
        self.item_count() == 0
    }
}

/// A type made of items: empty ones do not exist, so a key goes with its last item.
pub trait Collection: Default {
    /// Its type.
    const TYPE: ValueType;
    /// This type inside a value.
    fn of(value: &Value) -> Option<&Self>;
    /// This type inside a value, to change it.
    fn from_value_mut(value: &mut Value) -> Option<&mut Self>;
    /// Wraps it up.
    fn into_value(self) -> Value;
    /// Whether the key should go.
    fn has_no_items(&self) -> bool;
}

macro_rules! collection {
    ($type:ty, $kind:ident, $value:ident => $into:expr) => {
        impl Collection for $type {
            const TYPE: ValueType = ValueType::$kind;
            fn of(value: &Value) -> Option<&Self> {
                match value {
                    Value::$kind(inner) => Some(inner),
                    _ => None,
                }
            }
            fn from_value_mut(value: &mut Value) -> Option<&mut Self> {
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
