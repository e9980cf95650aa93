//! The reference of all keys and channels, as text, Markdown and JSON.
//!
//! Invariant: everything in the reference comes from the declarations and the settings.

mod markdown;

use serde::Serialize;

use crate::clock::duration_millis;
use crate::keys::registry;
use crate::keys::{KeyGroup, KeySettings, KeySettingsError, KeySpec, Keyspace, TtlName};

pub use markdown::{code_span, push_table, push_written_keys, reference_markdown};

/// One line of the key reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyReferenceRow {
    /// Name of the key group.
    pub capability: &'static str,
    /// Pattern with prefix. Identifiers are in braces; in cluster mode they are in angle brackets, and braces are
    /// literal.
    pub key: String,
    /// The name with example identifiers, as it is in the store.
    pub example: String,
    /// Type of the key.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Reply of the command `TYPE`; `None` for channels.
    pub stored_type: Option<&'static str>,
    /// TTL as text; empty for channels.
    pub ttl: String,
    /// Maximum TTL in milliseconds.
    pub ttl_ms: Option<u64>,
    /// The settings that decide the TTL.
    pub ttl_settings: Vec<&'static str>,
    /// The hash tag in cluster mode.
    pub hash_tag: Option<&'static str>,
    /// Format of the value.
    pub value: &'static str,
    /// Description of the key.
    pub meaning: &'static str,
    /// Documented schemas that the key comes from.
    pub source: String,
    /// True if only Parlor may read the key.
    pub internal: bool,
    /// True if the key belongs to a planned feature, so that nothing writes it.
    pub planned: bool,
    /// Setting and value that select the key's layout; `None` if the key belongs to all layouts.
    pub layout: Option<String>,
}

/// All keys and channels of the configured layouts, in the order of the reference.
pub fn reference_rows(
    settings: &KeySettings,
    cluster: bool,
) -> Result<Vec<KeyReferenceRow>, KeySettingsError> {
    let keys = Keyspace::new(settings.clone(), cluster)?;
    Ok(registry::active_specs(&settings.layouts)
        .map(|(group, spec)| reference_row(&keys, group, spec))
        .collect())
}

/// The reference as JSON.
pub fn reference_json(settings: &KeySettings, cluster: bool) -> Result<String, KeySettingsError> {
    let rows = reference_rows(settings, cluster)?;
    Ok(serde_json::to_string_pretty(&rows).expect("a row consists of strings and numbers"))
}

fn reference_row(
    keys: &Keyspace,
    group: &'static KeyGroup,
    spec: &'static KeySpec,
) -> KeyReferenceRow {
    let settings = keys.settings();
    let channel = spec.kind.is_channel();
    let max_ttl = spec.ttl.max_duration(settings);
    let sources: Vec<&str> = spec.sources.iter().map(|source| source.name()).collect();
    KeyReferenceRow {
        capability: group.name,
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
            spec.ttl.describe(settings)
        },
        ttl_ms: max_ttl.map(duration_millis),
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
        planned: registry::is_planned(group),
        layout: spec
            .layout
            .selecting_setting()
            .map(|(setting, name)| format!("{setting} = {name}")),
    }
}
