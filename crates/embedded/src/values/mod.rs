//! The five Redis types as plain data structures. Values know nothing of keys and expiry, and only lists know of
//! persistence.

mod compact_map;
mod list;
mod string;
mod zset;

use std::sync::Arc;

pub use compact_map::CompactMap;
pub use list::{List, ListEnd};
pub use string::{StringBytes, StringValue, format_int, parse_int};
pub use zset::{Score, ZSet};

/// Immutable bytes. The dict, the journal and subscribers share them without copying.
pub type SharedBytes = Arc<[u8]>;
/// Values by field, in insertion order while no field was removed.
pub type Hash = CompactMap<SharedBytes>;
/// Members in no particular order.
pub type Set = CompactMap<()>;

/// Value of a key: one of the five Redis types.
#[derive(Debug, Clone)]
pub enum StoredValue {
    String(StringValue),
    List(Box<List>),
    Hash(Hash),
    Set(Set),
    ZSet(ZSet),
}

/// Type of a value. The discriminant is the number on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    String = 0,
    List = 1,
    Hash = 2,
    Set = 3,
    ZSet = 4,
}

impl ValueType {
    /// Name that the command `TYPE` returns.
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::List => "list",
            Self::Hash => "hash",
            Self::Set => "set",
            Self::ZSet => "zset",
        }
    }

    /// Type with this number on disk.
    pub fn from_disk_number(number: i64) -> Option<Self> {
        [Self::String, Self::List, Self::Hash, Self::Set, Self::ZSet]
            .into_iter()
            .find(|kind| *kind as i64 == number)
    }
}

impl StoredValue {
    pub fn value_type(&self) -> ValueType {
        match self {
            Self::String(_) => ValueType::String,
            Self::List(_) => ValueType::List,
            Self::Hash(_) => ValueType::Hash,
            Self::Set(_) => ValueType::Set,
            Self::ZSet(_) => ValueType::ZSet,
        }
    }

    pub fn as_string(&self) -> Option<&StringValue> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Number of items of a collection, 1 for a string.
    pub fn item_count(&self) -> usize {
        match self {
            Self::String(_) => 1,
            Self::List(list) => list.len(),
            Self::Hash(hash) => hash.len(),
            Self::Set(set) => set.len(),
            Self::ZSet(zset) => zset.len(),
        }
    }

    /// Whether this is a memory-only list, whose changes are not written to disk.
    pub fn is_memory_only(&self) -> bool {
        matches!(self, Self::List(list) if list.is_memory_only())
    }

    /// Whether this is an empty collection, whose key must be deleted.
    pub fn is_empty_collection(&self) -> bool {
        self.item_count() == 0
    }
}

/// Type that consists of items. Empty collections do not exist: a key is deleted with its last item.
pub trait Collection: Default {
    const TYPE: ValueType;
    /// This collection inside a value.
    fn from_value(value: &StoredValue) -> Option<&Self>;
    /// This collection inside a value, to change it.
    fn from_value_mut(value: &mut StoredValue) -> Option<&mut Self>;
    /// Wraps the collection as a value.
    fn into_value(self) -> StoredValue;
    fn len(&self) -> usize;
}

macro_rules! collection {
    ($type:ty, $kind:ident, $value:ident => $into:expr) => {
        impl Collection for $type {
            const TYPE: ValueType = ValueType::$kind;
            fn from_value(value: &StoredValue) -> Option<&Self> {
                match value {
                    StoredValue::$kind(inner) => Some(inner),
                    _ => None,
                }
            }
            fn from_value_mut(value: &mut StoredValue) -> Option<&mut Self> {
                match value {
                    StoredValue::$kind(inner) => Some(inner),
                    _ => None,
                }
            }
            fn into_value(self) -> StoredValue {
                let $value = self;
                StoredValue::$kind($into)
            }
            fn len(&self) -> usize {
                self.len()
            }
        }
    };
}

collection!(List, List, list => Box::new(list));
collection!(Hash, Hash, hash => hash);
collection!(Set, Set, set => set);
collection!(ZSet, ZSet, zset => zset);
