//! The reference of keys and channels, for people and programs.
//!
//! Always true: everything here comes from the declarations and the settings; nothing is written twice.

mod document;
mod markdown;

use serde::Serialize;

use crate::keys::{KeyGroup, KeySettings, KeySettingsError, KeySpec, Keyspace, TtlName};
use crate::registry;

pub use document::schema_document;
pub use markdown::reference_markdown;

/// A line of the reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyReferenceRow {
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
pub fn rows(
    settings: &KeySettings,
    cluster: bool,
) -> Result<Vec<KeyReferenceRow>, KeySettingsError> {
    let keys = Keyspace::new(settings.clone(), cluster)?;
    Ok(registry::active_specs(&settings.layouts)
        .map(|(capability, spec)| reference_row(&keys, capability, spec))
        .collect())
}

/// The reference as JSON.
pub fn json(settings: &KeySettings, cluster: bool) -> Result<String, KeySettingsError> {
    let rows = rows(settings, cluster)?;
    Ok(serde_json::to_string_pretty(&rows).expect("a row consists of strings and numbers"))
}

fn reference_row(
    keys: &Keyspace,
    capability: &'static KeyGroup,
    spec: &'static KeySpec,
) -> KeyReferenceRow {
    let settings = keys.settings();
    let channel = spec.kind.is_channel();
    let longest = spec.ttl.longest(settings);
    let sources: Vec<&str> = spec.sources.iter().map(|source| source.name()).collect();
    KeyReferenceRow {
        capability: capability.name,
        key: match keys.channel_override(spec) {
            Some(name) => name.to_owned(),
            None => settings.prefix.clone() + &spec.pattern.shown(keys.cluster()),
        },
        example: keys.example(spec),
        kind: spec.kind.name(),
        stored_type: spec.kind.redis_type(),
        ttl: if channel {
            String::new()
        } else {
            spec.ttl.text(settings)
        },
        ttl_ms: longest.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        ttl_settings: spec
            .ttl
            .configured_by()
            .into_iter()
            .map(TtlName::name)
            .collect(),
        hash_tag: spec.pattern.tag(),
        value: spec.value,
        meaning: spec.meaning,
        source: sources.join(", "),
        internal: spec.internal,
        layout: spec
            .layout
            .selecting_setting()
            .map(|(setting, name)| format!("{setting} = {name}")),
    }
}
