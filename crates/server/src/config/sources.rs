//! Where settings come from. Each source yields entries (a setting, what was written, where) and problems; nothing is decided here.
//!
//! The order of the layers is fixed in [`super::load`]: a later entry for the same setting wins.

use std::fmt;

use super::kind::Raw;
use super::settings::{self, Setting};
use super::suggest;

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
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

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::Preset(name) => write!(f, "preset {name}"),
            Origin::Layout(setting, layout) => write!(f, "{setting} = {layout}"),
            Origin::File(file, line) => write!(f, "{file}:{line}"),
            Origin::Variable(name) | Origin::Flag(name) => f.write_str(name),
        }
    }
}

/// One setting as one source wrote it.
#[derive(Clone)]
pub struct Entry {
    /// Which setting.
    pub setting: &'static Setting,
    /// What was written.
    pub raw: Raw,
    /// Where.
    pub origin: Origin,
}

impl fmt::Debug for Entry {
    /// Without the value: it may be a secret, or a URL that holds one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({} from {})", self.setting.name, self.origin)
    }
}

/// Something that stops the start: the place and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct Problem {
    /// A file and line, a variable or a flag.
    pub place: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Problem {
    /// A problem at a place.
    pub fn new(place: impl fmt::Display, message: impl Into<String>) -> Problem {
        Problem {
            place: place.to_string(),
            message: message.into(),
        }
    }
}

/// What one source holds.
#[derive(Debug, Default)]
pub struct Layer {
    /// The settings it sets, in its own order.
    pub entries: Vec<Entry>,
    /// What is wrong in it.
    pub problems: Vec<Problem>,
    /// What was left unused, and why: worth a line in the log.
    pub notices: Vec<String>,
}

impl Layer {
    /// Adds the entry for `name`, or the problem that there is no such setting. `spell` writes a setting's name as this source does.
    pub fn add(
        &mut self,
        name: &str,
        raw: Raw,
        origin: Origin,
        spell: impl Fn(&Setting) -> String,
    ) {
        match settings::find(name) {
            Some(setting) => self.entries.push(Entry {
                setting,
                raw,
                origin,
            }),
            None => {
                let known = settings::all().iter().map(|setting| setting.name);
                let hint = suggest::setting(name, known)
                    .and_then(settings::find)
                    .map_or_else(
                        || "the settings are listed in docs/config.md".into(),
                        |s| format!("did you mean `{}`?", spell(s)),
                    );
                self.problems.push(Problem::new(
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
    pub everyday: Vec<(&'static str, &'static str, String)>,
    /// `--set section.key=value`.
    pub set: Vec<String>,
}

impl fmt::Debug for Flags {
    /// Names only: the values may be secrets, or URLs that hold one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let everyday = self.everyday.iter().map(|(flag, ..)| *flag);
        let set = self.set.iter().map(|text| name(text));
        f.debug_list().entries(everyday.chain(set)).finish()
    }
}

/// What stands in the place of the name in `section.key=value`.
fn name(text: &str) -> &str {
    let fits = |c: char| c.is_alphanumeric() || "._-".contains(c);
    text.split(|c| !fits(c)).next().unwrap_or_default()
}

/// Reads the flags.
pub fn flags(flags: &Flags) -> Layer {
    let mut layer = Layer::default();
    for text in &flags.set {
        match text.split_once('=') {
            Some((name, value)) => {
                let origin = Origin::Flag(format!("--set {}", name.trim()));
                layer.add(name.trim(), Raw::Scalar(value.to_owned()), origin, |s| {
                    s.name.to_owned()
                });
            }
            // What is behind the name may be a secret.
            None => layer.problems.push(Problem::new(
                "--set",
                format!("`{}` is not of the form section.key=value", name(text)),
            )),
        }
    }
    for (flag, name, value) in &flags.everyday {
        layer.add(
            name,
            Raw::Scalar(value.clone()),
            Origin::Flag((*flag).to_owned()),
            |s| s.name.to_owned(),
        );
    }
    layer
}
