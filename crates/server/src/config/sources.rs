//! Where settings come from. Each source yields entries (a setting, what was written, where) and problems; nothing is decided here.
//!
//! The order of the layers is fixed in [`super::load`]: a later entry for the same setting wins.

use std::fmt;

use super::kind::RawValue;
use super::settings::{self, Setting};
use super::suggest;

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingOrigin {
    /// Nowhere: the default.
    Default,
    /// The default of this preset.
    Preset(&'static str),
    /// The default that belongs to another layout, named by its setting and value.
    Layout(&'static str, &'static str),
    /// This line of this file.
    File(String, usize),
    /// This environment variable.
    Variable(String),
    /// This command-line flag.
    Flag(String),
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingOrigin::Default => f.write_str("default"),
            SettingOrigin::Preset(name) => write!(f, "preset {name}"),
            SettingOrigin::Layout(setting, layout) => write!(f, "{setting} = {layout}"),
            SettingOrigin::File(file, line) => write!(f, "{file}:{line}"),
            SettingOrigin::Variable(name) | SettingOrigin::Flag(name) => f.write_str(name),
        }
    }
}

/// One setting as one source wrote it.
#[derive(Clone)]
pub struct SettingEntry {
    /// Which setting.
    pub setting: &'static Setting,
    /// What was written.
    pub raw: RawValue,
    /// Where.
    pub origin: SettingOrigin,
}

impl fmt::Debug for SettingEntry {
    /// Without the value: it may be a secret, or a URL that holds one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({} from {})", self.setting.name, self.origin)
    }
}

/// Something that stops the start: the place and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct ConfigProblem {
    /// A file and line, a variable or a flag.
    pub place: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl ConfigProblem {
    /// A problem at a place.
    pub fn new(place: impl fmt::Display, message: impl Into<String>) -> ConfigProblem {
        ConfigProblem {
            place: place.to_string(),
            message: message.into(),
        }
    }
}

/// What one source holds.
#[derive(Debug, Default)]
pub struct ConfigLayer {
    /// The settings it sets, in its own order.
    pub entries: Vec<SettingEntry>,
    /// What is wrong in it.
    pub problems: Vec<ConfigProblem>,
    /// What was left unused, and why: worth a line in the log.
    pub notices: Vec<String>,
}

impl ConfigLayer {
    /// Adds the entry for `name`, or the problem that there is no such setting. `spell` writes a setting's name as this source does.
    pub fn add_entry(
        &mut self,
        name: &str,
        raw: RawValue,
        origin: SettingOrigin,
        spell: impl Fn(&Setting) -> String,
    ) {
        match settings::find_setting(name) {
            Some(setting) => self.entries.push(SettingEntry {
                setting,
                raw,
                origin,
            }),
            None => {
                let known = settings::all().iter().map(|setting| setting.name);
                let hint = suggest::nearest_setting(name, known)
                    .and_then(settings::find_setting)
                    .map_or_else(
                        || "the settings are listed in docs/config.md".into(),
                        |s| format!("did you mean `{}`?", spell(s)),
                    );
                self.problems.push(ConfigProblem::new(
                    origin,
                    format!("there is no setting `{name}`; {hint}"),
                ));
            }
        }
    }
}

/// What the command line sets, in the order in which it is to win.
#[derive(Clone, Default)]
pub struct Flags {
    /// `--http` and the like: the flag, the setting, the value.
    pub shortcuts: Vec<(&'static str, &'static str, String)>,
    /// `--set section.key=value`.
    pub set: Vec<String>,
}

impl fmt::Debug for Flags {
    /// Names only: the values may be secrets, or URLs that hold one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let everyday = self.shortcuts.iter().map(|(flag, ..)| *flag);
        let set = self.set.iter().map(|text| setting_name_of(text));
        f.debug_list().entries(everyday.chain(set)).finish()
    }
}

/// What stands in the place of the name in `section.key=value`.
fn setting_name_of(text: &str) -> &str {
    let fits = |c: char| c.is_alphanumeric() || "._-".contains(c);
    text.split(|c| !fits(c)).next().unwrap_or_default()
}

/// Reads the flags.
pub fn read_flags(flags: &Flags) -> ConfigLayer {
    let mut layer = ConfigLayer::default();
    for text in &flags.set {
        match text.split_once('=') {
            Some((name, value)) => {
                let origin = SettingOrigin::Flag(format!("--set {}", name.trim()));
                layer.add_entry(
                    name.trim(),
                    RawValue::Scalar(value.to_owned()),
                    origin,
                    |s| s.name.to_owned(),
                );
            }
            // What is behind the name may be a secret.
            None => layer.problems.push(ConfigProblem::new(
                "--set",
                format!(
                    "`{}` is not of the form section.key=value",
                    setting_name_of(text)
                ),
            )),
        }
    }
    for (flag, name, value) in &flags.shortcuts {
        layer.add_entry(
            name,
            RawValue::Scalar(value.clone()),
            SettingOrigin::Flag((*flag).to_owned()),
            |s| s.name.to_owned(),
        );
    }
    layer
}
