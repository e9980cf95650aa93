//! The reference of keys and channels, for people and programs.
//!
//! Always true: everything here comes from the declarations and the settings; nothing is written twice.

mod document;
mod markdown;

use serde::Serialize;

use crate::keys::{Capability, KeySpec, Keyspace, Settings, SettingsError, TtlName};
use crate::registry;

pub use document::document;
pub use markdown::markdown;

/// A line of the reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Who owns it.
    pub capability: &'static str,
    /// The pattern with prefix; identifiers in braces, in cluster mode in angle brackets and the braces are literal.
    pub key: String,
    /// A name with example identifiers, as the store would hold it.
    pub example: String,
    /// What it holds.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What the store answers to `TYPE`; absent for channels.
    pub stored_type: Option<&'static str>,
    /// When it goes by itself, in words; empty for channels.
    pub ttl: String,
    /// The longest time it may have, in milliseconds.
    pub ttl_ms: Option<u64>,
    /// The settings that decide the time.
    pub ttl_settings: Vec<&'static str>,
    /// What the hash tag is in cluster mode.
    pub hash_tag: Option<&'static str>,
    /// What the value looks like.
    pub value: &'static str,
    /// What it is for.
    pub meaning: &'static str,
    /// Whose idea it is.
    pub source: String,
    /// Whether only Parlor may read it.
    pub internal: bool,
    /// The setting and value that choose it, where there are other layouts.
    pub layout: Option<String>,
}

/// Every key and channel of the active layouts, in the order of the reference.
pub fn rows(settings: &Settings, cluster: bool) -> Result<Vec<Row>, SettingsError> {
    let keys = Keyspace::new(settings.clone(), cluster)?;
    Ok(registry::active(&settings.layouts)
        .map(|(capability, spec)| row(&keys, capability, spec))
        .collect())
}

/// The reference as JSON.
pub fn json(settings: &Settings, cluster: bool) -> Result<String, SettingsError> {
    let rows = rows(settings, cluster)?;
    Ok(serde_json::to_string_pretty(&rows).expect("a row is made of strings and numbers"))
}

fn row(keys: &Keyspace, capability: &'static Capability, spec: &'static KeySpec) -> Row {
    let settings = keys.settings();
    let channel = spec.kind.is_channel();
    let longest = spec.ttl.longest(settings);
    let sources: Vec<&str> = spec.sources.iter().map(|source| source.name()).collect();
    Row {
        capability: capability.name,
        key: match keys.renamed(spec) {
            Some(name) => name.to_owned(),
            None => settings.prefix.clone() + &spec.pattern.shown(keys.cluster()),
        },
        example: keys.example(spec),
        kind: spec.kind.name(),
        stored_type: spec.kind.stored_type(),
        ttl: if channel {
            String::new()
        } else {
            spec.ttl.text(settings)
        },
        ttl_ms: longest.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        ttl_settings: spec.ttl.settings().into_iter().map(TtlName::name).collect(),
        hash_tag: spec.pattern.tag(),
        value: spec.value,
        meaning: spec.meaning,
        source: sources.join(", "),
        internal: spec.internal,
        layout: spec
            .layout
            .chosen_by()
            .map(|(setting, name)| format!("{setting} = {name}")),
    }
}
