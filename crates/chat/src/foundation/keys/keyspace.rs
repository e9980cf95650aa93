//! Builds the names of keys and channels.
//!
//! Invariant: building a name allocates once, with the exact size, and needs no lookup. Each capability adds the
//! functions for its own keys in its `keys.rs`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{RedisWrite, ToRedisArgs, ToSingleRedisArg};

use super::matcher::KeyMatch;
use super::pattern::PatternPart;
use super::settings::{KeySettings, KeySettingsError};
use super::spec::KeySpec;
use super::ttl::TtlName;
use crate::ids::{IdKind, KeyIdentifier};
use crate::messages;

macro_rules! name_type {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The name as an owned text.
            pub fn into_string(self) -> String {
                self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.0 == *other
            }
        }

        impl ToRedisArgs for $name {
            fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
                out.write_arg(self.0.as_bytes());
            }
        }

        impl ToSingleRedisArg for $name {}
    };
}

name_type!(
    /// Name of a stored key.
    Key
);
name_type!(
    /// Name of a pub/sub channel.
    Channel
);

/// Builds the names of keys and channels of this installation. Cloning copies a pointer.
#[derive(Debug, Clone)]
pub struct Keyspace {
    inner: Arc<KeyspaceInner>,
}

#[derive(Debug)]
struct KeyspaceInner {
    settings: KeySettings,
    cluster: bool,
}

impl Keyspace {
    /// Validates the settings. In cluster mode the first identifier of each key is its hash tag.
    pub fn new(settings: KeySettings, cluster: bool) -> Result<Self, KeySettingsError> {
        settings.validate()?;
        Ok(Self {
            inner: Arc::new(KeyspaceInner { settings, cluster }),
        })
    }

    /// The settings of key names and TTLs.
    pub fn settings(&self) -> &KeySettings {
        &self.inner.settings
    }

    /// True if names carry hash tags.
    pub fn cluster(&self) -> bool {
        self.inner.cluster
    }

    /// Value of a TTL setting.
    pub fn ttl(&self, name: TtlName) -> Duration {
        self.inner.settings.ttls.get(name)
    }

    /// A name of this declaration with example identifiers.
    pub fn example(&self, spec: &KeySpec) -> String {
        let separator = self.settings().endpoint_separator.name();
        let endpoint = IdKind::Endpoint.example().replacen(' ', separator, 1);
        let ids: Vec<&str> = spec
            .pattern
            .ids()
            .map(|kind| match kind {
                IdKind::Endpoint => endpoint.as_str(),
                _ => kind.example(),
            })
            .collect();
        match self.channel_override(spec) {
            Some(name) => name.to_owned(),
            None => self.format_name(spec, &ids),
        }
    }

    /// The name in this keyspace of a key that another keyspace has recognised.
    pub fn key_from_match(&self, found: &KeyMatch<'_>) -> Key {
        let ids: Vec<&str> = found.ids.iter().map(|(_, id)| *id).collect();
        Key(self.format_name(found.spec, &ids))
    }

    /// Channel name from the configuration that replaces the declared one.
    pub(crate) fn channel_override(&self, spec: &KeySpec) -> Option<&str> {
        let name = self.inner.settings.message_channel_override.as_deref()?;
        (spec.pattern == messages::keys::MESSAGE_CREATED_EVENTS.pattern).then_some(name)
    }

    pub(crate) fn key0(&self, spec: &KeySpec) -> Key {
        debug_assert!(!spec.kind.is_channel());
        Key(self.format_name(spec, &[]))
    }

    pub(crate) fn key1<A: KeyIdentifier>(&self, spec: &KeySpec, a: &A) -> Key {
        debug_assert!(!spec.kind.is_channel());
        debug_assert!(spec.pattern.ids().eq([A::KIND]));
        Key(self.format_name(spec, &[a.as_str()]))
    }

    pub(crate) fn key2<A: KeyIdentifier, B: KeyIdentifier>(
        &self,
        spec: &KeySpec,
        a: &A,
        b: &B,
    ) -> Key {
        debug_assert!(!spec.kind.is_channel());
        debug_assert!(spec.pattern.ids().eq([A::KIND, B::KIND]));
        Key(self.format_name(spec, &[a.as_str(), b.as_str()]))
    }

    pub(crate) fn channel0(&self, spec: &KeySpec) -> Channel {
        debug_assert!(spec.kind.is_channel());
        Channel(match self.channel_override(spec) {
            Some(name) => name.to_owned(),
            None => self.format_name(spec, &[]),
        })
    }

    pub(crate) fn channel1<A: KeyIdentifier>(&self, spec: &KeySpec, a: &A) -> Channel {
        debug_assert!(spec.kind.is_channel());
        debug_assert!(spec.pattern.ids().eq([A::KIND]));
        Channel(self.format_name(spec, &[a.as_str()]))
    }

    /// Puts identifiers into a pattern. There must be as many identifiers as the pattern has.
    pub(crate) fn format_name(&self, spec: &KeySpec, ids: &[&str]) -> String {
        let pattern = &spec.pattern;
        let prefix = self.inner.settings.prefix.as_str();
        let tag = pattern.tag_index().filter(|_| self.inner.cluster);
        let braces = if tag.is_some() { 2 } else { 0 };
        let len = prefix.len()
            + pattern.literal_len()
            + braces
            + ids.iter().map(|id| id.len()).sum::<usize>();

        let mut out = String::with_capacity(len);
        let mut ids = ids.iter();
        out.push_str(prefix);
        for (index, part) in pattern.parts().iter().enumerate() {
            let text = match part {
                PatternPart::Literal(text) | PatternPart::FixedHashTag(text) => text,
                PatternPart::Id(_) => ids.next().copied().unwrap_or_default(),
            };
            if tag == Some(index) {
                out.push('{');
                out.push_str(text);
                out.push('}');
            } else {
                out.push_str(text);
            }
        }
        debug_assert_eq!(
            out.len(),
            len,
            "{}: wrong number of identifiers",
            pattern.text()
        );
        out
    }
}
