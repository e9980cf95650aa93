//! Tests of the keys (identifiers, declarations, settings, matching, the reference) and of the capabilities.

mod builders;
mod conversations;
mod database;
mod declarations;
mod ground;
mod ids;
mod limits;
mod live;
mod matching;
mod messages;
mod operations;
mod presence;
mod schema;
mod sessions;
mod settings;
mod typing;
mod unread;

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
