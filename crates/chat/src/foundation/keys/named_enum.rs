//! Enums whose values have names.
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

/// A text is not the name of a value.
#[derive(Debug, thiserror::Error)]
#[error("unknown value {0:?}")]
pub struct UnknownName(pub String);

/// Declares an enum whose variants have a name, and a description taken from the doc comment.
macro_rules! named_enum {
    (
        $(#[$meta:meta])*
        pub enum $type:ident {
            $($(#[doc = $doc:literal])+ $(#[serde($serde:meta)])? $variant:ident = $name:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $type {
            $($(#[doc = $doc])+ $(#[serde($serde)])? $variant,)+
        }

        impl $type {
            /// All values, in the order of the references.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name of the value on the wire, in keys and in the configuration.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// The value with this name.
            pub fn parse(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == name)
            }

            /// Description for the references.
            pub fn description(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($doc),+).trim_start(),)+
                }
            }
        }

        impl TryFrom<String> for $type {
            type Error = $crate::keys::UnknownName;

            fn try_from(name: String) -> std::result::Result<Self, Self::Error> {
                Self::parse(&name).ok_or($crate::keys::UnknownName(name))
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

/// Declares a [`named_enum`] whose values are choices of a setting.
macro_rules! setting_enum {
    (
        $(#[$meta:meta])*
        pub enum $type:ident for $setting:literal {
            $($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+
        }
    ) => {
        $crate::keys::named_enum! {
            $(#[$meta])*
            #[derive(serde::Serialize, serde::Deserialize)]
            pub enum $type {
                $($(#[doc = $doc])+ #[serde(rename = $name)] $variant = $name,)+
            }
        }

        impl $type {
            /// The setting that selects the value.
            pub const SETTING: &'static str = $setting;
            /// The names of all values.
            pub const NAMES: &'static [&'static str] = &[$($name,)+];
        }

        impl std::str::FromStr for $type {
            type Err = $crate::keys::UnknownSettingValue;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::parse(text).ok_or_else(|| $crate::keys::UnknownSettingValue {
                    setting: $setting,
                    value: text.to_owned(),
                    allowed: Self::NAMES,
                })
            }
        }
    };
}

pub(crate) use {named_enum, setting_enum};
