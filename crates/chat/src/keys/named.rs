//! Settings whose value is one of a few names.
//!
//! Always true: the name in the configuration, in JSON and in messages is the same one.

use std::fmt;

/// A setting has a value that is not one of its names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting} is {value:?}; use one of {}", QuotedNames(.allowed))]
pub struct UnknownSettingValue {
    /// The setting's name in the configuration.
    pub setting: &'static str,
    /// What was given.
    pub value: String,
    /// What can be given.
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

/// An enum whose variants have names in the configuration.
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
            /// The setting that chooses one.
            pub const SETTING: &'static str = $setting;
            /// Every choice.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];
            /// The names of all choices.
            pub const NAMES: &'static [&'static str] = &[$($name,)+];

            /// The name in the configuration.
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
