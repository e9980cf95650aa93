//! Value and origin of every setting.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::key_settings;
use super::layer::{ConfigProblem, SettingEntry, SettingOrigin};
use super::render;
use super::setting_kind::{RawValue, SettingValue};
use super::settings::{self, Setting};

/// Contains every setting of the table once [`SettingValues::apply_defaults`] was called.
#[derive(Clone, Default)]
pub struct SettingValues(BTreeMap<&'static str, (SettingValue, SettingOrigin)>);

impl fmt::Debug for SettingValues {
    /// Prints the values like `--print-config`, without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SettingValues({})", render::json(self))
    }
}

impl SettingValues {
    /// Parses the value of an entry and stores it in place of an earlier one.
    pub(super) fn insert(&mut self, entry: SettingEntry) -> Result<(), ConfigProblem> {
        let SettingEntry {
            setting,
            raw,
            origin,
        } = entry;
        match setting.kind.parse(&raw) {
            Ok(value) => {
                self.0.insert(setting.name, (value, origin));
                Ok(())
            }
            // The reason contains the value, which must not be printed for a secret.
            Err(_) if setting.secret => Err(ConfigProblem::new(
                origin,
                format!("{}: expected {}", setting.name, setting.kind.expected()),
            )),
            Err(reason) => Err(ConfigProblem::new(
                origin,
                format!("{}: {reason}", setting.name),
            )),
        }
    }

    /// Sets each setting that no source has set to the value of the preset, or else to its default, or else to a value that
    /// fits the other settings.
    pub(super) fn apply_defaults(&mut self) {
        for setting in settings::all_settings() {
            if !self.0.contains_key(setting.name) {
                let value = default_value(setting);
                self.0.insert(setting.name, (value, SettingOrigin::Default));
            }
        }
        for (name, value, origin) in key_settings::preset_defaults(self) {
            if *self.origin(name) == SettingOrigin::Default {
                self.0.insert(name, (value, origin));
            }
        }
        for (name, value, origin) in key_settings::derived_defaults(self) {
            self.0.insert(name, (value, origin));
        }
    }

    /// All settings, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Setting, &SettingValue, &SettingOrigin)> {
        settings::all_settings().iter().filter_map(|setting| {
            let (value, origin) = self.0.get(setting.name)?;
            Some((setting, value, origin))
        })
    }

    /// Origin of the value of a setting.
    pub fn origin(&self, name: &str) -> &SettingOrigin {
        self.0
            .get(name)
            .map_or(&SettingOrigin::Default, |(_, origin)| origin)
    }

    /// Value of a text setting; empty if it is not set.
    pub fn text(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some((SettingValue::Text(text), _)) => text,
            _ => "",
        }
    }

    /// Value of a text setting; `None` if it is not set.
    pub fn optional(&self, name: &str) -> Option<&str> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    /// Value of a list setting.
    pub fn list(&self, name: &str) -> Vec<String> {
        match self.0.get(name) {
            Some((SettingValue::List(items), _)) => items.clone(),
            _ => Vec::new(),
        }
    }

    /// Value of a number setting.
    pub fn number(&self, name: &str) -> u64 {
        match self.0.get(name) {
            Some((SettingValue::Number(number), _)) => *number,
            _ => 0,
        }
    }

    /// Value of a boolean setting.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some((SettingValue::Boolean(true), _)))
    }

    /// Value of a duration setting.
    pub fn time(&self, name: &str) -> Duration {
        match self.0.get(name) {
            Some((SettingValue::Duration(time), _)) => *time,
            _ => Duration::ZERO,
        }
    }
}

/// Default value of a setting. A test checks that the kind of each setting accepts its default.
pub fn default_value(setting: &Setting) -> SettingValue {
    let text = setting.default.to_string();
    setting
        .kind
        .parse(&RawValue::Scalar(text.clone()))
        .unwrap_or(SettingValue::Text(text))
}
