//! Keys and channels: how they are declared, built and recognised.
//!
//! Always true:
//! 1. A key is spelled in the `keys.rs` of its capability and nowhere else.
//! 2. A key can be built only from checked identifiers, each in its place.
//! 3. Every key that can be built belongs to exactly one declaration of the active layouts.

mod keyspace;
mod matcher;
mod named;
mod pattern;
mod settings;
mod spec;
mod ttl;

pub use keyspace::{Channel, Key, Keyspace};
pub use matcher::Match;
pub use named::UnknownName;
pub use pattern::{Part, Pattern};
pub use settings::{
    Layouts, PresenceLayout, Preset, RecentLayout, Settings, SettingsError, TypingLayout,
};
pub use spec::{Capability, KeySpec, Kind, Layout, Source};
pub use ttl::{Ttl, TtlName, Ttls, duration_text};

pub(crate) use named::named;
