//! Keys and channels: declares, builds and recognises their names.
//!
//! Invariants:
//! 1. The name of a key is declared in the `keys.rs` of its capability and nowhere else.
//! 2. A key can be built only from validated identifiers of the declared kinds.
//! 3. Every key that can be built belongs to exactly one declaration of the configured layouts.

mod foreign_key;
mod keyspace;
mod matcher;
mod named_enum;
mod pattern;
mod planned;
pub mod reference;
pub mod registry;
mod settings;
mod spec;
mod ttl;

pub use keyspace::{Channel, Key, Keyspace};
pub use matcher::KeyMatch;
pub use named_enum::{UnknownName, UnknownSettingValue};
pub use pattern::{KeyPattern, PatternPart};
pub use settings::{
    EndpointSeparator, KeyLayouts, KeySettings, KeySettingsError, PresenceLayout, Preset,
    RecentLayout, SessionLayout, TypingLayout,
};
pub use spec::{KeyGroup, KeyKind, KeyLayout, KeySpec, SchemaSource};
pub use ttl::{KeyTtl, TtlName, TtlValues, format_duration};

pub(crate) use foreign_key::ForeignKeyWarning;
pub(crate) use named_enum::{named_enum, setting_enum};
