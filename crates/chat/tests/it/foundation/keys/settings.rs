//! Presets, layouts and TTLs.

use std::time::Duration;

use parlor_chat::keys::{
    KeyLayouts, KeySettings, KeySettingsError, Keyspace, PresenceLayout, Preset, RecentLayout,
    SessionLayout, TtlName, TypingLayout, format_duration,
};

use PresenceLayout::{Devices, Document, Sockets, Status};
use RecentLayout::{Conversation, Messages};

#[test]
fn presets_are_those_of_the_documents() {
    use TypingLayout::{Document as Text, Flag};
    let expected = [
        ("parlor", "", Devices, 60, 20, Text, 3, Messages),
        ("chat-app", "", Document, 300, 60, Text, 3, Messages),
        ("rooms", "", Devices, 60, 20, Text, 3, Messages),
        ("chat-service", "", Sockets, 60, 20, Flag, 5, Messages),
        ("user-status", "", Status, 30, 10, Text, 3, Messages),
        (
            "home-assistant",
            "ha:",
            Devices,
            60,
            20,
            Text,
            3,
            Conversation,
        ),
    ];
    let actual: Vec<_> = Preset::ALL
        .iter()
        .map(|preset| {
            let settings = KeySettings::from_preset(*preset);
            let KeyLayouts {
                presence,
                typing,
                recent,
                session,
            } = settings.layouts;
            assert_eq!(session, SessionLayout::Hash);
            let seconds = |name| settings.ttls.get(name).as_secs();
            (
                preset.name(),
                preset.prefix(),
                presence,
                seconds(TtlName::Presence),
                settings.heartbeat.as_secs(),
                typing,
                seconds(TtlName::Typing),
                recent,
            )
        })
        .collect();
    assert_eq!(actual, expected);
}

#[test]
fn times_have_the_documented_names_and_defaults() {
    let expected = [
        ("ttl.presence", 60),
        ("ttl.status_offline", 86_400),
        ("ttl.typing", 3),
        ("ttl.membership", 30),
        ("ttl.participants", 3_600),
        ("ttl.recent", 3_600),
        ("ttl.session", 604_800),
        ("ttl.agent_presence", 1_800),
        ("ttl.assignments", 3_600),
        ("ttl.queues", 3_600),
        ("ttl.dashboard", 300),
        ("ttl.blocked", 3_600),
        ("ttl.delivery", 3_600),
        ("ttl.search", 60),
        ("limits.message_window", 60),
        ("presence.node_lease", 5),
    ];
    let layouts = Preset::Parlor.layouts();
    let actual: Vec<_> = TtlName::ALL
        .iter()
        .map(|name| (name.name(), name.default_seconds(&layouts)))
        .collect();
    assert_eq!(actual, expected);
    assert_eq!(
        TtlName::ALL
            .iter()
            .filter(|name| name.is_in_ttl_section())
            .count(),
        14
    );
}

#[test]
fn every_setting_can_be_overridden() {
    let mut settings = KeySettings::from_preset(Preset::HomeAssistant);
    settings.prefix = "shop:".to_owned();
    settings.layouts.presence = Status;
    settings
        .ttls
        .set(TtlName::Presence, Duration::from_secs(45));
    settings.heartbeat = Duration::from_secs(15);
    let keys = Keyspace::new(settings, false).expect("valid");
    let found = keys.match_key(b"shop:user:status:alice").expect("declared");
    assert_eq!(
        found.spec.ttl.describe(keys.settings()),
        "45 s online, 24 h offline"
    );
    assert!(keys.match_key(b"shop:presence:user:alice").is_none());
    assert!(keys.match_key(b"ha:user:status:alice").is_none());
}

#[test]
fn a_replaced_layout_brings_its_times() {
    let mut layouts = Preset::Parlor.layouts();
    layouts.presence = Status;
    layouts.typing = TypingLayout::Flag;
    let settings = KeySettings::from_layouts(Preset::Parlor, layouts);
    assert_eq!(
        settings.ttls.get(TtlName::Presence),
        Duration::from_secs(30)
    );
    assert_eq!(settings.ttls.get(TtlName::Typing), Duration::from_secs(5));
    assert_eq!(settings.heartbeat, Duration::from_secs(10));
}

#[test]
fn names_are_read_as_they_are_written() {
    for preset in Preset::ALL {
        assert_eq!(preset.name().parse(), Ok(*preset));
    }
    let error = "chatapp".parse::<Preset>().expect_err("unknown");
    assert_eq!(
        error.to_string(),
        "keys.preset is \"chatapp\"; use one of \"parlor\", \"chat-app\", \"rooms\", \"chat-service\", \"user-status\", \"home-assistant\""
    );
    assert_eq!("ttl.typing".parse(), Ok(TtlName::Typing));
    assert_eq!(
        serde_json::to_string(&Preset::ChatApp).expect("serializes"),
        "\"chat-app\""
    );
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let refusal = |change: fn(&mut KeySettings)| {
        let mut settings = KeySettings::default();
        change(&mut settings);
        Keyspace::new(settings, false).expect_err("refused")
    };
    for prefix in ["{a}:", "a b", "a*", "é:", "a\n", "[a]", "a?"] {
        let settings = KeySettings {
            prefix: prefix.to_owned(),
            ..KeySettings::default()
        };
        assert!(
            matches!(
                settings.validate(),
                Err(KeySettingsError::PrefixCharacter(..))
            ),
            "{prefix:?}"
        );
    }
    assert_eq!(
        refusal(|s| s.prefix = "x".repeat(65)),
        KeySettingsError::PrefixLength(65)
    );
    assert_eq!(
        refusal(|s| s.ttls.set(TtlName::Recent, Duration::ZERO)),
        KeySettingsError::ZeroTtl("ttl.recent")
    );
    assert!(matches!(
        refusal(|s| s.heartbeat = Duration::from_secs(60)),
        KeySettingsError::HeartbeatTooLong(..)
    ));
    assert!(matches!(
        refusal(|s| s.message_channel_override = Some(String::new())),
        KeySettingsError::MessageChannel(_)
    ));
}

#[test]
fn times_are_written_as_people_write_them() {
    let text = |seconds| format_duration(Duration::from_secs(seconds));
    let written = [
        3, 60, 90, 120, 300, 3_600, 3_660, 86_400, 172_800, 604_800, 2_592_000,
    ]
    .map(text);
    assert_eq!(
        written,
        [
            "3 s", "60 s", "90 s", "2 min", "5 min", "1 h", "61 min", "24 h", "48 h", "7 d", "30 d"
        ]
    );
    assert_eq!(format_duration(Duration::from_millis(1_500)), "1500 ms");
}
