//! Configuration: reads the settings from all sources and checks them. The order, where a later source wins: defaults,
//! preset, `parlor.toml`, integration variables (`REDIS_HOST`, …), `PARLOR_SECTION__KEY`, flags.
//!
//! Invariants:
//! 1. Every setting is declared once, in [`settings`]; the other files here derive from that table.
//! 2. A [`Config`] exists only if every value is valid. All problems of all sources are reported at once.
//! 3. An invalid value is an error even if a later source overrides it.

pub mod duration;
mod environment;
mod file;
mod key_settings;
mod layer;
mod model;
pub mod render;
mod setting_kind;
pub mod settings;
mod suggest;
mod values;

use std::fmt;
use std::path::PathBuf;

pub use environment::{Environment, INTEGRATION_VARIABLES};
pub use layer::{ConfigProblem, Flags, SettingOrigin};
pub(crate) use model::set_default_password;
pub(crate) use model::{BurstRate, Config, LogConfig, LogFormat, SocketIoConfig};
pub use setting_kind::{RawValue, SettingKind, SettingValue};
pub use values::{SettingValues, default_value};

/// Everything that can set a value, besides the defaults.
#[derive(Clone, Default)]
pub struct ConfigSources {
    /// The file named by `--config`; `None` reads `parlor.toml` if it exists.
    pub file: Option<PathBuf>,
    /// Environment variables.
    pub environment: Environment,
    /// Command line flags.
    pub flags: Flags,
}

impl fmt::Debug for ConfigSources {
    /// Omits the environment, which also contains secrets of other programs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("ConfigSources");
        all.field("file", &self.file).field("flags", &self.flags);
        all.finish_non_exhaustive()
    }
}

/// A valid configuration.
#[derive(Clone, Debug)]
pub struct LoadedConfig {
    /// The settings in typed form.
    pub config: Config,
    /// Every setting with its origin.
    pub values: SettingValues,
    /// Warnings for the log: variables that are ignored, and why.
    pub warnings: Vec<String>,
    /// Everything that was read, for [`LoadedConfig::reload`].
    sources: ConfigSources,
}

impl LoadedConfig {
    /// Reads and checks the same sources again. Only the file can have changed.
    pub fn reload(&self) -> Result<LoadedConfig, ConfigProblems> {
        load(&self.sources)
    }
}

/// All errors of a configuration.
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

/// Reads and checks all sources.
pub fn load(sources: &ConfigSources) -> Result<LoadedConfig, ConfigProblems> {
    let layers = [
        file::read(sources.file.as_deref()),
        environment::read_integration_variables(&sources.environment),
        environment::read_parlor_variables(&sources.environment),
        layer::read_flags(&sources.flags),
    ];
    let (mut problems, mut warnings, mut values) =
        (Vec::new(), Vec::new(), SettingValues::default());
    for layer in layers {
        problems.extend(layer.problems);
        warnings.extend(layer.warnings);
        for entry in layer.entries {
            values
                .insert(entry)
                .unwrap_or_else(|problem| problems.push(problem));
        }
    }
    values.apply_defaults();
    match model::build_config(&values, &sources.environment) {
        Ok(config) if problems.is_empty() => Ok(LoadedConfig {
            config,
            values,
            warnings,
            sources: sources.clone(),
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
