//! Configuration: defaults, the preset, `parlor.toml`, the documents' variables, `PARLOR_SECTION__KEY`, flags; the later one wins.
//!
//! Always true:
//! 1. What exists is said once, in [`settings`]; every other file here derives from that table.
//! 2. A [`Config`] is only made of values that were all accepted; every problem of every source is told at once.
//! 3. A wrong value is a problem even where a later source overrides it.

pub mod duration;
mod environment;
mod file;
mod kind;
mod layouts;
pub mod render;
pub mod settings;
mod sources;
mod suggest;
mod typed;
mod values;

use std::fmt;
use std::path::PathBuf;

pub use environment::{DOCUMENTED, Environment};
pub use kind::{Kind, Raw, Value};
pub use sources::{Flags, Origin, Problem};
pub use typed::{Config, Gateway, Log, LogFormat, Rate, Server, Store};
pub use values::Values;

/// Everything that can set something.
#[derive(Clone, Default)]
pub struct Sources {
    /// The file named by `--config`.
    pub file: Option<PathBuf>,
    /// The environment.
    pub environment: Environment,
    /// The command line.
    pub flags: Flags,
}

impl fmt::Debug for Sources {
    /// Without the environment, which holds the secrets of others, too.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("Sources");
        all.field("file", &self.file).field("flags", &self.flags);
        all.finish_non_exhaustive()
    }
}

/// A configuration that was accepted.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings in use, typed.
    pub config: Config,
    /// Every setting with its origin.
    pub values: Values,
    /// What was left unused, and why.
    pub notices: Vec<String>,
}

/// All that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl std::error::Error for Problems {}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => write!(f, "{one}"),
            many => {
                write!(f, "the configuration has {} problems", many.len())?;
                many.iter()
                    .try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}

/// Reads and checks everything.
pub fn load(sources: &Sources) -> Result<Loaded, Problems> {
    let layers = [
        file::read(sources.file.as_deref()),
        environment::documented(&sources.environment),
        environment::own(&sources.environment),
        sources::flags(&sources.flags),
    ];
    let (mut problems, mut notices, mut values) = (Vec::new(), Vec::new(), Values::default());
    for layer in layers {
        problems.extend(layer.problems);
        notices.extend(layer.notices);
        for entry in layer.entries {
            values
                .put(entry)
                .unwrap_or_else(|problem| problems.push(problem));
        }
    }
    values.fill();
    match typed::check(&values, &sources.environment) {
        Ok(config) if problems.is_empty() => Ok(Loaded {
            config,
            values,
            notices,
        }),
        Ok(_) => Err(Problems(problems)),
        Err(more) => {
            problems.extend(more);
            Err(Problems(problems))
        }
    }
}

#[cfg(test)]
mod tests;
