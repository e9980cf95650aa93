//! Settings whose value is one of a few names.
//!
//! Invariant: a value has the same name in the configuration, in JSON and in messages.

use std::fmt;

/// A setting has a value that is not one of its names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting} is {value:?}; use one of {}", QuotedNames(.allowed))]
pub struct UnknownSettingValue {
    /// Name of the setting in the configuration.
    pub setting: &'static str,
    /// The invalid value.
    pub value: String,
    /// The valid values.
    pub allowed: &'static [&'static str],
}

struct QuotedNames<'a>(&'a [&'static str]);

impl fmt::Display for QuotedNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{name:?}")?;
        }
        Ok(())
    }
}

/// Declares an enum whose variants have names in the configuration.
macro_rules! setting_enum {
    (
        $(#[$meta:meta])*
        pub enum $type:ident for $setting:literal {
            $($(#[$variant_meta:meta])* $variant:ident = $name:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $type {
            $($(#[$variant_meta])* #[serde(rename = $name)] $variant,)+
        }

        impl $type {
            /// The setting that selects the value.
            pub const SETTING: &'static str = $setting;
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];
            /// The names of all values.
            pub const NAMES: &'static [&'static str] = &[$($name,)+];

            /// The name of the value in the configuration.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::keys::UnknownSettingValue;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($name => Ok(Self::$variant),)+
                    _ => Err($crate::keys::UnknownSettingValue {
                        setting: $setting,
                        value: text.to_owned(),
                        allowed: Self::NAMES,
                    }),
                }
            }
        }
    };
}

pub(crate) use setting_enum;
