//! Every setting's value and where it came from.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::kind::{Raw, Value};
use super::layouts;
use super::render;
use super::settings::{self, Setting};
use super::sources::{Entry, Origin, Problem};

/// A value for each setting of the table, once [`Values::fill`] was called.
#[derive(Clone, Default)]
pub struct Values(BTreeMap<&'static str, (Value, Origin)>);

impl fmt::Debug for Values {
    /// As `--print-config` shows them, so without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Values({})", render::json(self))
    }
}

impl Values {
    /// Takes an entry over what was there before, or says what is wrong with it.
    pub(super) fn put(&mut self, entry: Entry) -> Result<(), Problem> {
        let Entry {
            setting,
            raw,
            origin,
        } = entry;
        match setting.kind.read(&raw) {
            Ok(value) => {
                self.0.insert(setting.name, (value, origin));
                Ok(())
            }
            // The reason repeats the value, which a secret's must not.
            Err(_) if setting.secret => Err(Problem::new(
                origin,
                format!("{}: expected {}", setting.name, setting.kind.expected()),
            )),
            Err(reason) => Err(Problem::new(origin, format!("{}: {reason}", setting.name))),
        }
    }

    /// Gives every setting that no source has set the preset's value or the default.
    pub(super) fn fill(&mut self) {
        for setting in settings::all() {
            if !self.0.contains_key(setting.name) {
                let value = default(setting);
                self.0.insert(setting.name, (value, Origin::Default));
            }
        }
        for (name, value, origin) in layouts::chosen(self) {
            if *self.origin(name) == Origin::Default {
                self.0.insert(name, (value, origin));
            }
        }
    }

    /// All settings in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Setting, &Value, &Origin)> {
        settings::all().iter().filter_map(|setting| {
            let (value, origin) = self.0.get(setting.name)?;
            Some((setting, value, origin))
        })
    }

    /// Where a setting came from.
    pub fn origin(&self, name: &str) -> &Origin {
        self.0
            .get(name)
            .map_or(&Origin::Default, |(_, origin)| origin)
    }

    /// A text; empty if it is not one.
    pub fn text(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some((Value::Text(text), _)) => text,
            _ => "",
        }
    }

    /// A text that is set.
    pub fn optional(&self, name: &str) -> Option<&str> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    /// Several texts.
    pub fn list(&self, name: &str) -> Vec<String> {
        match self.0.get(name) {
            Some((Value::List(items), _)) => items.clone(),
            _ => Vec::new(),
        }
    }

    /// A whole number.
    pub fn number(&self, name: &str) -> u64 {
        match self.0.get(name) {
            Some((Value::Number(number), _)) => *number,
            _ => 0,
        }
    }

    /// Yes or no; no if it is neither.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some((Value::Flag(true), _)))
    }

    /// A length of time.
    pub fn time(&self, name: &str) -> Duration {
        match self.0.get(name) {
            Some((Value::Time(time), _)) => *time,
            _ => Duration::ZERO,
        }
    }
}

/// The default of a setting; a test proves that each is accepted by its kind.
pub(super) fn default(setting: &Setting) -> Value {
    let text = setting.default.to_string();
    setting
        .kind
        .read(&Raw::Scalar(text.clone()))
        .unwrap_or(Value::Text(text))
}
