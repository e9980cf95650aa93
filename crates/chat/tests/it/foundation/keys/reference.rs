//! The key reference. `make docs` finds the test that writes it by the word `generated` in its name.

use std::path::Path;

use parlor_chat::keys::reference::{self, KeyReferenceRow};
use parlor_chat::keys::registry;
use parlor_chat::keys::{KeySettings, Preset};

use super::schema_document::schema_document;

#[test]
fn the_generated_reference_is_the_one_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema.md");
    let expected = schema_document().expect("presets are valid");
    if std::env::var_os("PARLOR_UPDATE").is_some() {
        std::fs::write(&path, &expected).expect("docs/schema.md can be written");
    }
    let actual = std::fs::read_to_string(&path).unwrap_or_default();
    let line = expected
        .lines()
        .zip(actual.lines().chain(std::iter::repeat("")))
        .position(|(expected, actual)| expected != actual);
    assert!(
        actual == expected,
        "docs/schema.md differs from the declarations, first in line {}; generate it again with `make docs`",
        line.unwrap_or(expected.lines().count()) + 1
    );
}

fn row(rows: &[KeyReferenceRow], key: &str) -> KeyReferenceRow {
    rows.iter().find(|row| row.key == key).expect(key).clone()
}

#[test]
fn rows_cover_every_active_declaration() {
    for preset in Preset::ALL {
        let settings = KeySettings::from_preset(*preset);
        let rows = reference::reference_rows(&settings, false).expect("valid");
        assert_eq!(
            rows.len(),
            registry::active_specs(&settings.layouts).count()
        );
        assert!(rows.iter().all(|row| row.key.starts_with(preset.prefix())));
    }
}

#[test]
fn rows_show_prefix_and_hash_tags() {
    let settings = KeySettings::from_preset(Preset::HomeAssistant);
    let alone = reference::reference_rows(&settings, false).expect("valid");
    let unread = row(&alone, "ha:unread:{user}:{conv}");
    assert_eq!(unread.example, "ha:unread:alice:c42");
    assert_eq!(unread.hash_tag, Some("user"));
    assert_eq!(row(&alone, "ha:parlor:stats:nodes").hash_tag, Some("stats"));
    let cluster = reference::reference_rows(&settings, true).expect("valid");
    assert_eq!(
        row(&cluster, "ha:unread:{<user>}:<conv>").example,
        "ha:unread:{alice}:c42"
    );
    assert_eq!(
        row(&cluster, "ha:parlor:{stats}:nodes").example,
        "ha:parlor:{stats}:nodes"
    );
}

#[test]
fn json_has_stable_names() {
    let text = reference::reference_json(&KeySettings::default(), false).expect("valid");
    let rows: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        rows[0],
        serde_json::json!({
            "capability": "presence",
            "key": "presence:user:{user}",
            "example": "presence:user:alice",
            "type": "hash",
            "storedType": "hash",
            "ttl": "60 s",
            "ttlMs": 60_000,
            "ttlSettings": ["ttl.presence"],
            "hashTag": "user",
            "value": "field = socket id (for a device that connects over HTTP or gRPC: its device id); value `{\"serverId\",\"connectedAt\",\"refreshedAt\"}`, times in ISO 8601; optional `status`, `device`",
            "meaning": "the live devices of a user; no key when there is none",
            "source": "S1",
            "internal": false,
            "planned": false,
            "layout": "keys.presence = devices",
        })
    );
}

#[test]
fn markdown_keeps_its_columns() {
    for preset in Preset::ALL {
        let text =
            reference::reference_markdown(&KeySettings::from_preset(*preset), true).expect("valid");
        for line in text.lines().filter(|line| line.starts_with('|')) {
            let bars = line.replace("\\|", "").matches('|').count();
            assert_eq!(bars, 7, "{line}");
        }
    }
}

#[test]
fn a_renamed_channel_is_shown_as_it_is_named() {
    let mut settings = KeySettings::from_preset(Preset::HomeAssistant);
    settings.message_channel_override = Some("notifications".to_owned());
    let rows = reference::reference_rows(&settings, false).expect("valid");
    assert_eq!(row(&rows, "notifications").example, "notifications");
}
