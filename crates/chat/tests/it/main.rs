//! Tests of the keys (identifiers, declarations, settings, matching, the reference) and of the capabilities.

mod api;
mod capabilities;
mod foundation;
mod support;

use parlor_chat::keys::{KeySettings, Keyspace, Preset};

/// The keys of a preset.
fn keyspace(preset: Preset, cluster: bool) -> Keyspace {
    Keyspace::new(KeySettings::from_preset(preset), cluster).expect("a preset is valid")
}

/// All presets, each with and without hash tags.
fn every_keyspace() -> impl Iterator<Item = Keyspace> {
    Preset::ALL
        .iter()
        .flat_map(|preset| [false, true].map(|cluster| keyspace(*preset, cluster)))
}
