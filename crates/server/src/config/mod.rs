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

pub use environment::{Environment, INTEGRATION_VARIABLES};
pub use kind::{RawValue, SettingKind, Value};
pub use sources::{ConfigProblem, Flags, SettingOrigin};
pub use typed::{BurstRate, Config, LogConfig, LogFormat, ServerConfig, SocketIoConfig, Store};
pub use values::SettingValues;

/// Everything that can set something.
#[derive(Clone, Default)]
pub struct ConfigSources {
    /// The file named by `--config`.
    pub file: Option<PathBuf>,
    /// The environment.
    pub environment: Environment,
    /// The command line.
    pub flags: Flags,
}

impl fmt::Debug for ConfigSources {
    /// Without the environment, which holds the secrets of others, too.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("Sources");
        all.field("file", &self.file).field("flags", &self.flags);
        all.finish_non_exhaustive()
    }
}

/// A configuration that was accepted.
#[derive(Clone, Debug)]
pub struct LoadedConfig {
    /// The settings in use, typed.
    pub config: Config,
    /// Every setting with its origin.
    pub values: SettingValues,
    /// What was left unused, and why.
    pub notices: Vec<String>,
}

/// All that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblems(pub Vec<ConfigProblem>);

impl std::error::Error for ConfigProblems {}

impl fmt::Display for ConfigProblems {
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
pub fn load(sources: &ConfigSources) -> Result<LoadedConfig, ConfigProblems> {
    let layers = [
        file::read(sources.file.as_deref()),
        environment::read_integration_variables(&sources.environment),
        environment::read_parlor_variables(&sources.environment),
        sources::read_flags(&sources.flags),
    ];
    let (mut problems, mut notices, mut values) =
        (Vec::new(), Vec::new(), SettingValues::default());
    for layer in layers {
        problems.extend(layer.problems);
        notices.extend(layer.notices);
        for entry in layer.entries {
            values
                .insert(entry)
                .unwrap_or_else(|problem| problems.push(problem));
        }
    }
    values.apply_defaults();
    match typed::build_config(&values, &sources.environment) {
        Ok(config) if problems.is_empty() => Ok(LoadedConfig {
            config,
            values,
            notices,
        }),
        Ok(_) => Err(ConfigProblems(problems)),
        Err(more) => {
            problems.extend(more);
            Err(ConfigProblems(problems))
        }
    }
}

#[cfg(test)]
mod tests;
