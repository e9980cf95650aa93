//! Tests of `load`: precedence, presets and problems.

use std::time::Duration;

use super::*;

struct Given {
    folder: tempfile::TempDir,
    sources: ConfigSources,
}

fn given(file: &str, variables: &[(&str, &str)], set: &[&str]) -> Given {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("parlor.toml");
    std::fs::write(&path, file).unwrap();
    let flags = Flags {
        set: set.iter().map(|&s| s.to_owned()).collect(),
        ..Flags::default()
    };
    let environment = Environment::from_pairs(variables.iter().copied());
    Given {
        folder,
        sources: ConfigSources {
            file: Some(path),
            environment,
            flags,
        },
    }
}

impl Given {
    fn load(&self) -> LoadedConfig {
        load(&self.sources).unwrap()
    }

    fn problems(&self) -> Vec<String> {
        let folder = format!("{}/", self.folder.path().display());
        let ConfigProblems(problems) = load(&self.sources).unwrap_err();
        problems
            .iter()
            .map(|problem| problem.to_string().replace(&folder, ""))
            .collect()
    }
}

fn origin(loaded: &LoadedConfig, name: &str) -> String {
    let origin = loaded.values.origin(name).to_string();
    origin.rsplit('/').next().unwrap_or_default().to_owned()
}

#[test]
fn the_later_source_wins() {
    let file = "[limits]\nmessage_window = 1\n";
    let documented = ("MESSAGE_RATE_WINDOW", "2000");
    let own = ("PARLOR_LIMITS__MESSAGE_WINDOW", "3s");
    let steps: [(Given, u64, &str); 5] = [
        (given("", &[], &[]), 60, "default"),
        (given(file, &[], &[]), 1, "parlor.toml:2"),
        (given(file, &[documented], &[]), 2, "MESSAGE_RATE_WINDOW"),
        (
            given(file, &[documented, own], &[]),
            3,
            "PARLOR_LIMITS__MESSAGE_WINDOW",
        ),
        (
            given(file, &[documented, own], &["limits.message_window=4"]),
            4,
            "--set limits.message_window",
        ),
    ];
    for (given, seconds, place) in steps {
        let loaded = given.load();
        assert_eq!(
            loaded.values.time("limits.message_window"),
            Duration::from_secs(seconds),
            "{place}"
        );
        assert_eq!(origin(&loaded, "limits.message_window"), place);
    }
}

#[test]
fn every_integration_variable_sets_its_setting() {
    let loaded = given(
        "",
        &[
            ("REDIS_HOST", "cache"),
            ("REDIS_PORT", "6380"),
            ("REDIS_PASSWORD", "hunter2"),
            ("REDIS_KEY_PREFIX", "ha:"),
            ("MESSAGE_RATE_LIMIT", "7"),
            ("MESSAGE_RATE_WINDOW", "1500"),
            ("NOTIFICATION_REDIS_CHANNEL", "chat.created"),
        ],
        &[],
    )
    .load();
    let options = &loaded.config.store;
    assert_eq!(
        options.url,
        "redis://:hunter2@cache:6380/0".parse().unwrap()
    );
    assert_eq!(options.data_folder, None);
    assert_eq!(loaded.config.keys.prefix, "ha:");
    assert_eq!(loaded.values.number("limits.messages"), 7);
    assert_eq!(
        loaded.values.time("limits.message_window"),
        Duration::from_millis(1500)
    );
    assert_eq!(
        loaded.config.keys.message_channel_override.as_deref(),
        Some("chat.created")
    );
}

#[test]
fn a_preset_changes_defaults_and_an_explicit_setting_beats_it() {
    let loaded = given("[keys]\npreset = \"chat-app\"\n", &[], &[]).load();
    assert_eq!(loaded.values.time("ttl.presence"), Duration::from_secs(300));
    assert_eq!(origin(&loaded, "ttl.presence"), "preset chat-app");
    assert_eq!(origin(&loaded, "keys.presence"), "preset chat-app");
    assert_eq!(origin(&loaded, "presence.heartbeat"), "preset chat-app");
    assert_eq!(origin(&loaded, "ttl.session"), "default");

    let loaded = given(
        "[keys]\npreset = \"chat-app\"\n[ttl]\npresence = 90\n",
        &[],
        &[],
    )
    .load();
    assert_eq!(
        loaded
            .config
            .keys
            .ttls
            .get(parlor_chat::keys::TtlName::Presence),
        Duration::from_secs(90)
    );
    assert_eq!(origin(&loaded, "ttl.presence"), "parlor.toml:4");

    let loaded = given("", &[], &["keys.preset=home-assistant", "keys.prefix="]).load();
    assert_eq!(loaded.config.keys.prefix, "");
    assert_eq!(origin(&loaded, "keys.recent"), "preset home-assistant");
}

#[test]
fn overriding_a_layout_uses_the_default_ttls_of_that_layout() {
    let loaded = given(
        "",
        &[],
        &["keys.preset=chat-service", "keys.presence=status"],
    )
    .load();
    assert_eq!(loaded.values.time("ttl.presence"), Duration::from_secs(30));
    assert_eq!(origin(&loaded, "ttl.presence"), "keys.presence = status");
    assert_eq!(origin(&loaded, "ttl.typing"), "preset chat-service");
}

#[test]
fn all_problems_of_all_sources_are_reported_at_once() {
    let problems = given(
        "[server]\nhttp = 7070\nhtpp = 1\n[limits]\nmessages = \"many\"\n",
        &[
            ("PARLOR_STORE__TIMOUT", "1s"),
            ("PARLOR_LOG__FORMAT", "xml"),
            ("REDIS_HOST", "a"),
            ("REDIS_PORT", "x"),
        ],
        &["store.timeout=soon", "nonsense"],
    )
    .problems();
    let expected = [
        "parlor.toml:3: there is no setting `server.htpp`; did you mean `server.http`?",
        "parlor.toml:5: limits.messages: `many` is not a whole number from 1 to 10000",
        "parlor.toml:2: server.http: `7070` is not an address like 127.0.0.1:7070",
        "REDIS_PORT: `x` is not a port",
        "PARLOR_STORE__TIMOUT: there is no setting `store.timout`; did you mean `PARLOR_STORE__TIMEOUT`?",
        "PARLOR_LOG__FORMAT: log.format: `xml` is not one of auto, human, json",
        "--set: `nonsense` is not of the form section.key=value",
        "--set store.timeout: store.timeout: `soon` is not a unit of time",
    ];
    for expected in expected {
        assert!(
            problems.iter().any(|p| p.starts_with(expected)),
            "{expected}\n{problems:#?}"
        );
    }
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
}

#[test]
fn an_invalid_value_is_reported_even_if_it_is_overridden() {
    let problems = given("[log]\nformat = \"xml\"\n", &[], &["log.format=json"]).problems();
    assert_eq!(problems.len(), 1);
}

#[test]
fn intervals_fit_the_presence_ttl() {
    for (flags, heartbeat, ping) in [
        (&[][..], 20, 25),
        (&["ttl.presence=15"], 5, 5),
        (&["keys.preset=user-status"], 10, 10),
        (&["keys.preset=chat-app"], 60, 25),
        (&["ttl.presence=15", "gateway.ping_interval=7"], 5, 7),
    ] {
        let loaded = given("", &[], flags).load();
        let time = |name| loaded.values.time(name).as_secs();
        assert_eq!(
            (time("presence.heartbeat"), time("gateway.ping_interval")),
            (heartbeat, ping),
            "{flags:?}"
        );
    }
    let loaded = given("", &[], &["ttl.presence=15"]).load();
    let place = origin(&loaded, "gateway.ping_interval");
    assert_eq!(place, "a third of ttl.presence");
    let problems = given("", &[], &["ttl.presence=15", "gateway.ping_interval=25"]).problems();
    assert_eq!(
        problems,
        [
            "--set gateway.ping_interval: gateway.ping_interval is 25s and ttl.presence 15s; a connected client would go offline between two pings, so set gateway.ping_interval to at most 7500ms"
        ]
    );
}

#[test]
fn services_of_the_documents_share_presence() {
    for (flags, external, registers) in [
        (&[][..], false, true),
        (&["keys.preset=rooms"], true, true),
        (&["keys.preset=user-status"], true, false),
        (&["keys.presence=status"], false, false),
        (
            &["keys.preset=user-status", "presence.beat_registers=true"],
            true,
            true,
        ),
    ] {
        let keys = given("", &[], flags).load().config.keys;
        let found = (keys.presence_external, keys.beat_registers);
        assert_eq!(found, (external, registers), "{flags:?}");
    }
}

#[test]
fn contradicting_values_are_rejected() {
    let problems = given(
        "",
        &[],
        &[
            "ttl.presence=10",
            "presence.heartbeat=8",
            "store.client_cert=/nowhere",
        ],
    )
    .problems();
    assert!(
        problems.iter().any(|p| p.contains("presence.heartbeat")),
        "{problems:?}"
    );
    assert!(
        problems.iter().any(|p| p.contains("set both or neither")),
        "{problems:?}"
    );
    assert!(
        problems
            .iter()
            .any(|p| p.contains("/nowhere cannot be read")),
        "{problems:?}"
    );
}

#[test]
fn a_named_file_must_exist() {
    let sources = ConfigSources {
        file: Some("/nowhere/parlor.toml".into()),
        ..ConfigSources::default()
    };
    let problems = load(&sources).unwrap_err().to_string();
    assert!(
        problems.starts_with("/nowhere/parlor.toml: cannot be read"),
        "{problems}"
    );
}

#[test]
fn nothing_that_is_printed_shows_a_secret() {
    let mut given = given(
        "[auth]\nsecret = \"hunter2\"\n",
        &[
            ("REDIS_HOST", "cache"),
            ("REDIS_PASSWORD", "hunter2"),
            ("PARLOR_DATABASE__URL", "postgres://u:hunter2@db/x"),
        ],
        &["store.url=redis://bob:hunter2@cache"],
    );
    let store = "redis://bob:hunter2@cache".to_owned();
    given.sources.flags.shortcuts = vec![("--store", "store.url", store)];
    let loaded = given.load();
    let printed =
        render::effective_toml(&loaded.values) + &render::json(&loaded.values).to_string();
    assert!(!printed.contains("hunter2"), "{printed}");
    assert!(printed.contains("redis://bob:***@cache"), "{printed}");
    let debug = format!("{loaded:?} {:?}", given.sources);
    assert!(!debug.contains("hunter2"), "{debug}");
    assert!(debug.contains("redis://bob:***@cache"), "{debug}");
    assert!(debug.contains(r#"["--store", "store.url"]"#), "{debug}");
    for flag in ["auth.secret:hunter2", "auth.secret hunter2"] {
        given.sources.flags.set = vec![flag.to_owned()];
        let problems = given.problems();
        assert_eq!(
            problems,
            ["--set: `auth.secret` is not of the form section.key=value"]
        );
    }
}

#[test]
fn the_printed_configuration_parses_back_to_the_same_values() {
    let first = given(
        "",
        &[],
        &[
            "keys.preset=home-assistant",
            "keys.prefix=",
            "server.node=n1",
            "ttl.typing=2.5",
        ],
    )
    .load();
    let second = given(&render::effective_toml(&first.values), &[], &[]).load();
    for ((setting, one, _), (_, two, _)) in first.values.iter().zip(second.values.iter()) {
        assert_eq!(one, two, "{}", setting.name);
    }
}

#[test]
fn the_example_file_with_every_line_uncommented_is_the_default() {
    let text: String = include_str!("../../../../parlor.example.toml")
        .lines()
        .map(|line| {
            line.strip_prefix("# ")
                .filter(|line| line.contains(" = "))
                .unwrap_or(line)
        })
        .map(|line| format!("{line}\n"))
        .collect();
    let (plain, example) = (given("", &[], &[]).load(), given(&text, &[], &[]).load());
    for ((setting, one, _), (_, two, _)) in plain.values.iter().zip(example.values.iter()) {
        assert_eq!(one, two, "{}", setting.name);
    }
}
