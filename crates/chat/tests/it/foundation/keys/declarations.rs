//! Compares the declarations with the documented tables of keys.

use parlor_chat::keys::registry;
use parlor_chat::keys::{KeyKind, KeySettings, KeyTtl, Preset};

/// Pattern, type and TTL.
type Declared = (&'static str, &'static str, &'static str);

/// All documented rows of the default preset.
const DEFAULT: &[Declared] = &[
    ("presence:user:{user}", "hash", "60 s"),
    ("lastseen:{user}", "string", "none"),
    ("socket:{socket}:user", "string", "60 s"),
    ("typing:{conv}:{user}", "string", "3 s"),
    ("membership:{conv}:{user}", "string", "30 s"),
    ("conversation:{conv}:participants", "set", "1 h"),
    ("messages:{conv}:recent", "list", "1 h"),
    ("unread:{user}:{conv}", "counter", "none"),
    ("unread:{user}:total", "counter", "none"),
    ("rate:message:{user}", "counter", "60 s"),
    ("rate_limit:{id}", "sorted set", "the window"),
    ("sliding_limit:{id}", "sorted set", "the window"),
    (
        "gcra:{id}",
        "string",
        "until the limit is completely free again",
    ),
    ("user:{user}", "hash", "7 d"),
    ("admin:{admin}:presence", "string", "30 min"),
    ("admin:{admin}:assignments", "set", "1 h"),
    ("chat:conversations:active", "sorted set", "1 h"),
    ("chat:conversations:unread", "sorted set", "1 h"),
    ("chat:admin:dashboard:{admin}", "hash", "5 min"),
    ("connections:http:current", "integer", "none"),
    ("connections:http:max_since_startup", "integer", "none"),
    ("requests:accepted", "integer", "none"),
    ("requests:total", "integer", "none"),
    ("requests:speed_per_second", "integer", "none"),
    ("requests:max_speed_per_second", "integer", "none"),
    ("requests:endpoint:{METHOD route}", "integer", "none"),
    ("errors:total", "integer", "none"),
    ("errors:endpoint:{METHOD route}", "integer", "none"),
    ("cron:last-run:{job}", "string", "none"),
    ("events:message.created", "channel", "none"),
    ("events:user.online", "channel", "none"),
    ("events:user.offline", "channel", "none"),
    ("blocked:{user}", "set", "1 h"),
    ("delivery:{conv}:{user}", "string", "1 h"),
    ("geo:users", "geo (sorted set)", "none"),
    ("uploads:pending", "sorted set", "none"),
    ("search:{hash of user and query}", "string", "60 s"),
];

/// All internal keys and channels.
const INTERNAL: &[Declared] = &[
    ("parlor:large", "channel", "none"),
    (
        "parlor:presence:{user}",
        "hash",
        "48 h; none in the layout `sockets` while the user has a device",
    ),
    ("parlor:presence-version-floor", "string", "none"),
    ("parlor:deadlines:{0..63}", "sorted set", "none"),
    ("parlor:node:{node}", "string", "5 s"),
    ("parlor:nodes", "sorted set", "none"),
    ("parlor:node:{node}:users", "set", "none"),
    ("parlor:watch:{0..255}", "channel", "none"),
    ("parlor:typing:{conv}", "sorted set", "3 s"),
    ("parlor:typing:{conv}:names", "hash", "3 s"),
    ("parlor:participants:{conv}:v", "string", "1 h"),
    ("parlor:gen:{conv}", "counter", "24 h"),
    ("parlor:top:{conv}", "string", "1 h + 60 s"),
    ("parlor:catch-up", "string", "10 s"),
    ("parlor:unread:{user}", "hash", "30 d"),
    ("parlor:epoch", "hash", "none"),
    ("parlor:database", "string", "none"),
    ("parlor:schema", "string", "none"),
    ("parlor:revoked:{user}", "string", "7 d"),
    ("parlor:job:{job}", "string", "the runner's lease"),
    ("parlor:membership:{conv}:{user}", "string", "30 s"),
    ("parlor:{stats}:nodes", "hash", "none"),
    ("parlor:bus:conv:{conv}", "channel (sharded)", "none"),
    ("parlor:bus:user:{user}", "channel (sharded)", "none"),
    ("parlor:control", "channel", "none"),
];

/// The rows of the other presets that differ from the default preset.
const OTHERS: &[(Preset, &[Declared])] = &[
    (
        Preset::ChatApp,
        &[
            ("presence:{user}", "string", "5 min"),
            ("socket:{socket}:user", "string", "5 min"),
        ],
    ),
    (Preset::Rooms, &[]),
    (
        Preset::ChatService,
        &[
            ("user:{user}:online", "string", "none"),
            ("user:{user}:sockets", "set", "none"),
            ("typing:{conv}:{user}", "string", "5 s"),
            ("parlor:typing:{conv}", "sorted set", "5 s"),
            ("parlor:typing:{conv}:names", "hash", "5 s"),
        ],
    ),
    (
        Preset::UserStatus,
        &[
            ("user:status:{user}", "string", "30 s online, 24 h offline"),
            ("socket:{socket}:user", "string", "30 s"),
        ],
    ),
    (
        Preset::HomeAssistant,
        &[("chat:conversation:{conv}:messages", "list", "1 h")],
    ),
];

fn declared(preset: Preset) -> Vec<(&'static str, &'static str, String)> {
    let settings = KeySettings::from_preset(preset);
    registry::active_specs(&settings.layouts)
        .map(|(_, spec)| {
            (
                spec.pattern.text(),
                spec.kind.name(),
                spec.ttl.describe(&settings),
            )
        })
        .collect()
}

fn sorted<'a>(
    rows: impl Iterator<Item = (&'a str, &'a str, &'a str)>,
) -> Vec<(&'a str, &'a str, &'a str)> {
    let mut rows: Vec<_> = rows.collect();
    rows.sort_unstable();
    rows
}

#[test]
fn the_default_preset_declares_the_table_and_nothing_else() {
    let declared = declared(Preset::Parlor);
    assert_eq!(
        sorted(
            declared
                .iter()
                .map(|(pattern, kind, ttl)| (*pattern, *kind, ttl.as_str()))
        ),
        sorted(DEFAULT.iter().chain(INTERNAL).copied())
    );
}

#[test]
fn the_other_presets_differ_where_the_documents_do() {
    let default = declared(Preset::Parlor);
    for (preset, rows) in OTHERS {
        let own = declared(*preset);
        let differing = own
            .iter()
            .filter(|row| !default.contains(row))
            .map(|(pattern, kind, ttl)| (*pattern, *kind, ttl.as_str()));
        assert_eq!(sorted(differing), sorted(rows.iter().copied()), "{preset}");
    }
    assert_eq!(OTHERS.len() + 1, Preset::ALL.len());
}

#[test]
fn internal_names_start_with_parlor_and_documented_ones_do_not() {
    for (_, spec) in registry::all_specs() {
        let pattern = spec.pattern.text();
        assert_eq!(pattern.starts_with("parlor:"), spec.internal, "{pattern}");
    }
}

#[test]
fn every_declaration_is_complete() {
    for (group, spec) in registry::all_specs() {
        let pattern = spec.pattern.text();
        assert!(!spec.value.is_empty(), "{pattern} has no value");
        assert!(!spec.meaning.is_empty(), "{pattern} has no meaning");
        assert!(!spec.sources.is_empty(), "{pattern} has no source");
        assert!(
            !spec.kind.is_channel() || spec.ttl == KeyTtl::Never,
            "{pattern}: a channel has no TTL"
        );
        assert!(group.keys.contains(spec));
    }
}

#[test]
fn sharded_channels_carry_the_hash_tag_of_the_step_that_publishes() {
    for (_, spec) in registry::all_specs().filter(|(_, spec)| spec.kind == KeyKind::ShardChannel) {
        assert!(
            matches!(spec.pattern.tag(), Some("user" | "conv")),
            "{}",
            spec.pattern.text()
        );
    }
}

#[test]
fn a_ttl_is_held_against_what_is_declared() {
    use std::time::Duration;
    let settings = KeySettings::default();
    let allows = |pattern: &str, left: Option<u64>| {
        let (_, spec) = registry::active_specs(&settings.layouts)
            .find(|(_, spec)| spec.pattern.text() == pattern)
            .expect(pattern);
        spec.allows_ttl(&settings, left.map(Duration::from_secs))
    };
    assert!(allows("typing:{conv}:{user}", Some(3)));
    assert!(!allows("typing:{conv}:{user}", Some(4)));
    assert!(!allows("typing:{conv}:{user}", None));
    assert!(allows("lastseen:{user}", None));
    assert!(!allows("lastseen:{user}", Some(1)));
    assert!(allows("rate_limit:{id}", Some(900)));
    assert!(!allows("rate_limit:{id}", None));
    assert!(allows("parlor:top:{conv}", Some(3_660)));
    assert!(!allows("parlor:top:{conv}", Some(3_661)));
}
