//! One source of settings as a layer of entries (setting, text, origin) and problems. Also reads the flags.
//!
//! [`super::load`] defines the order of the layers: a later entry for the same setting wins.

use std::fmt;

use super::setting_kind::RawValue;
use super::settings::{self, Setting};
use super::suggest;

/// Place where the value of a setting was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingOrigin {
    /// No source has set it: the default.
    Default,
    /// Default of this preset.
    Preset(&'static str),
    /// No source has set it, and the default does not fit another setting: derived from that setting.
    Derived(&'static str),
    /// Default of a layout; the names of the setting that selects the layout and of the layout.
    Layout(&'static str, &'static str),
    /// Name of the file and number of the line.
    File(String, usize),
    /// Name of the environment variable.
    Variable(String),
    /// Command line flag.
    Flag(String),
}

impl SettingOrigin {
    /// Name of a setting as this source writes it.
    fn name_of(&self, setting: &Setting) -> String {
        match self {
            SettingOrigin::Variable(_) => setting.variable(),
            _ => setting.name.to_owned(),
        }
    }
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingOrigin::Default => f.write_str("default"),
            SettingOrigin::Preset(name) => write!(f, "preset {name}"),
            SettingOrigin::Derived(setting) => write!(f, "a third of {setting}"),
            SettingOrigin::Layout(setting, layout) => write!(f, "{setting} = {layout}"),
            SettingOrigin::File(file, line) => write!(f, "{file}:{line}"),
            SettingOrigin::Variable(name) | SettingOrigin::Flag(name) => f.write_str(name),
        }
    }
}

/// A setting as one source has set it.
#[derive(Clone)]
pub struct SettingEntry {
    /// The setting.
    pub setting: &'static Setting,
    /// The text of the value.
    pub raw: RawValue,
    /// Place of the value.
    pub origin: SettingOrigin,
}

impl fmt::Debug for SettingEntry {
    /// Omits the value: it may be a secret, or a URL that contains one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SettingEntry({} from {})",
            self.setting.name, self.origin
        )
    }
}

/// An error that prevents the start, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct ConfigProblem {
    /// File and line, variable or flag.
    pub place: String,
    /// Description of the error and of the expected value.
    pub message: String,
}

impl ConfigProblem {
    /// Creates a problem at this place.
    pub fn new(place: impl fmt::Display, message: impl Into<String>) -> ConfigProblem {
        ConfigProblem {
            place: place.to_string(),
            message: message.into(),
        }
    }
}

/// Content of one source.
#[derive(Debug, Default)]
pub struct ConfigLayer {
    /// The settings of the source, in its order.
    pub entries: Vec<SettingEntry>,
    /// Errors in the source.
    pub problems: Vec<ConfigProblem>,
    /// Ignored parts of the source, with the reason; logged as warnings.
    pub warnings: Vec<String>,
}

impl ConfigLayer {
    /// Adds a problem at this place.
    pub fn add_problem(&mut self, place: impl fmt::Display, message: impl Into<String>) {
        self.problems.push(ConfigProblem::new(place, message));
    }

    /// Adds an entry for the setting `name`, or a problem with a suggestion if there is no such setting.
    pub fn add_entry(&mut self, name: &str, raw: RawValue, origin: SettingOrigin) {
        match settings::find_setting(name) {
            Some(setting) => self.entries.push(SettingEntry {
                setting,
                raw,
                origin,
            }),
            None => {
                let known = settings::all_settings().iter().map(|setting| setting.name);
                let hint = suggest::nearest_setting(name, known)
                    .and_then(settings::find_setting)
                    .map_or_else(
                        || "the settings are listed in docs/config.md".into(),
                        |setting| format!("did you mean `{}`?", origin.name_of(setting)),
                    );
                let message = format!("there is no setting `{name}`; {hint}");
                self.add_problem(origin, message);
            }
        }
    }
}

/// Settings on the command line. Entries of `shortcuts` win over `set`.
#[derive(Clone, Default)]
pub struct Flags {
    /// Short flags such as `--http`: flag, setting, value.
    pub shortcuts: Vec<(&'static str, &'static str, String)>,
    /// Texts of the form `section.key=value`, from `--set`.
    pub set: Vec<String>,
}

impl fmt::Debug for Flags {
    /// Prints names only: the values may be secrets, or URLs that contain one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shortcuts = self.shortcuts.iter().map(|(flag, ..)| *flag);
        let set = self.set.iter().map(|text| setting_name_of(text));
        f.debug_list().entries(shortcuts.chain(set)).finish()
    }
}

/// The name in a text of the form `section.key=value`; also of a malformed text.
fn setting_name_of(text: &str) -> &str {
    let fits = |c: char| c.is_alphanumeric() || "._-".contains(c);
    text.split(|c| !fits(c)).next().unwrap_or_default()
}

/// Reads the flags as a layer.
pub fn read_flags(flags: &Flags) -> ConfigLayer {
    let mut layer = ConfigLayer::default();
    for text in &flags.set {
        match text.split_once('=') {
            Some((name, value)) => {
                let origin = SettingOrigin::Flag(format!("--set {}", name.trim()));
                layer.add_entry(name.trim(), RawValue::Scalar(value.to_owned()), origin);
            }
            // The text after the name may be a secret.
            None => {
                let name = setting_name_of(text);
                let message = format!("`{name}` is not of the form section.key=value");
                layer.add_problem("--set", message);
            }
        }
    }
    for (flag, name, value) in &flags.shortcuts {
        let origin = SettingOrigin::Flag((*flag).to_owned());
        layer.add_entry(name, RawValue::Scalar(value.clone()), origin);
    }
    layer
}
