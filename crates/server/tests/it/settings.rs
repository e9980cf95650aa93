//! Tests of the configuration with the binary: sources, origins, errors.

use crate::support::{run, run_in};

/// Value and origin of a setting in the output of `--print-config --json`.
fn printed(all: &serde_json::Value, name: &str) -> (String, String) {
    let entry = all
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["name"] == name)
        .unwrap();
    let value = entry["value"]
        .as_str()
        .map_or_else(|| entry["value"].to_string(), str::to_owned);
    (value, entry["origin"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn every_integration_variable_is_applied() {
    let folder = tempfile::tempdir().unwrap();
    let variables = [
        ("REDIS_HOST", "cache"),
        ("REDIS_PASSWORD", "hunter2"),
        ("REDIS_KEY_PREFIX", "ha:"),
        ("MESSAGE_RATE_LIMIT", "5"),
        ("MESSAGE_RATE_WINDOW", "1500"),
        ("NOTIFICATION_REDIS_CHANNEL", "chat.created"),
    ];
    let ran = run_in(
        folder.path(),
        &["serve", "--print-config", "--json"],
        &variables,
    )
    .await;
    assert!(!ran.stdout.contains("hunter2"));
    for (name, value, origin) in [
        ("store.url", "redis://cache:6379/0", "REDIS_HOST"),
        ("store.password", "(hidden)", "REDIS_PASSWORD"),
        ("keys.prefix", "ha:", "REDIS_KEY_PREFIX"),
        ("limits.messages", "5", "MESSAGE_RATE_LIMIT"),
        ("limits.message_window", "1500ms", "MESSAGE_RATE_WINDOW"),
        (
            "notifications.channel",
            "chat.created",
            "NOTIFICATION_REDIS_CHANNEL",
        ),
    ] {
        assert_eq!(
            printed(&ran.json(), name),
            (value.to_owned(), origin.to_owned())
        );
    }
    let with_port = [variables[0], ("REDIS_PORT", "6380")];
    let ran = run_in(
        folder.path(),
        &["serve", "--print-config", "--json"],
        &with_port,
    )
    .await;
    assert_eq!(printed(&ran.json(), "store.url").0, "redis://cache:6380/0");
}

#[tokio::test]
async fn the_printed_configuration_has_the_origin_of_each_value() {
    let folder = tempfile::tempdir().unwrap();
    let file = "[server]\ndata = \"./here\"\n[keys]\npreset = \"chat-app\"\n";
    std::fs::write(folder.path().join("parlor.toml"), file).unwrap();
    let args = [
        "serve",
        "--print-config",
        "--http",
        "127.0.0.1:1",
        "--set",
        "ttl.typing=4s",
    ];
    let out = run_in(folder.path(), &args, &[("PARLOR_LOG__FORMAT", "json")])
        .await
        .ok();
    for (line, origin) in [
        ("http = \"127.0.0.1:1\"", "--http"),
        ("data = \"./here\"", "parlor.toml:2"),
        ("preset = \"chat-app\"", "parlor.toml:4"),
        ("presence = \"document\"", "preset chat-app"),
        ("typing = \"4s\"", "--set ttl.typing"),
        ("session = \"7d\"", "default"),
        ("format = \"json\"", "PARLOR_LOG__FORMAT"),
    ] {
        let fits = |l: &str| l.starts_with(line) && l.ends_with(&format!("# {origin}"));
        assert!(out.lines().any(fits), "{line} {origin}\n{out}");
    }
}

#[tokio::test]
async fn all_problems_are_reported_at_once_with_places_and_suggestions() {
    let folder = tempfile::tempdir().unwrap();
    let file = "[server]\nhttp = \"nowhere\"\n\n[stroe]\nurl = \"redis://a\"\n";
    std::fs::write(folder.path().join("other.toml"), file).unwrap();
    let args = ["serve", "--config", "other.toml", "--set", "log.lvl=info"];
    let ran = run_in(folder.path(), &args, &[("PARLOR_STORE__TIMEUOT", "1")]).await;
    assert_eq!((ran.exit_code, ran.stdout.as_str()), (2, ""));
    for part in [
        "the configuration has 4 problems",
        "other.toml:2: server.http: `nowhere` is not an address like 127.0.0.1:7070",
        "other.toml:5: there is no setting `stroe.url`; did you mean `store.url`?",
        "PARLOR_STORE__TIMEUOT: there is no setting `store.timeuot`; did you mean `PARLOR_STORE__TIMEOUT`?",
        "--set log.lvl: there is no setting `log.lvl`; did you mean `log.level`?",
    ] {
        assert!(ran.stderr.contains(part), "{part}\n{}", ran.stderr);
    }
}

#[tokio::test]
async fn contradicting_settings_are_reported_with_their_place() {
    for (set, said) in [
        (
            "keys.prefix=a{b",
            "--set keys.prefix: keys.prefix \"a{b\" has '{'",
        ),
        (
            "presence.heartbeat=40s",
            "--set presence.heartbeat: presence.heartbeat is 40s",
        ),
        (
            "server.node=a b",
            "--set server.node: server.node: node id \"a b\" is not allowed",
        ),
        (
            "server.data=",
            "--set server.data: server.data: `` is not a folder",
        ),
        (
            "ttl.foo=1",
            "--set ttl.foo: there is no setting `ttl.foo`; the settings are listed in docs/config.md",
        ),
    ] {
        let ran = run(&["schema", "--set", set]).await;
        assert!(
            ran.exit_code == 2 && ran.stderr.contains(said),
            "{said}\n{ran:?}"
        );
    }
}

#[tokio::test]
async fn no_password_of_a_url_is_printed() {
    for url in [
        "postgres://u:hunter2@h/db",
        "postgres://h/db?user=u&password=hunter2",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let variables = [
            ("PARLOR_DATABASE__URL", url),
            ("PARLOR_STORE__URL", "redis://:hunter2@h"),
            ("PARLOR_AUTH__SECRET", "hunter2"),
        ];
        for args in [
            &["serve", "--print-config"][..],
            &["serve", "--print-config", "--json"],
        ] {
            let ran = run_in(folder.path(), args, &variables).await;
            assert!(
                ran.exit_code == 0 && !ran.stdout.contains("hunter2"),
                "{ran:?}"
            );
        }
    }
}

#[tokio::test]
async fn wrong_usage_and_missing_files_have_the_exit_code_two() {
    for args in [
        &["sevre"][..],
        &["serve", "--htpp", "x"],
        &["serve", "--config", "missing.toml"],
        &[],
    ] {
        let ran = run(args).await;
        assert_eq!(
            (ran.exit_code, ran.stdout.as_str()),
            (2, ""),
            "{args:?} {ran:?}"
        );
    }
    assert!(
        run(&["serve", "--config", "missing.toml"])
            .await
            .stderr
            .contains("missing.toml: cannot be read")
    );
}

#[tokio::test]
async fn completions_are_written_for_every_shell() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            run(&["completions", shell]).await.ok().contains("doctor"),
            "{shell}"
        );
    }
}

#[tokio::test]
async fn a_word_that_is_no_log_level_is_rejected_with_its_place_and_a_suggestion() {
    let folder = tempfile::tempdir().unwrap();
    let file = "[log]\nlevel = \"warning\"\n";
    std::fs::write(folder.path().join("parlor.toml"), file).unwrap();
    let ran = run_in(folder.path(), &["serve", "--set", "log.level=verbose"], &[]).await;
    assert_eq!(ran.exit_code, 2, "{ran:?}");
    for problem in [
        "parlor.toml:2: log.level: `warning` is not a level (error, warn, info, debug, trace, off) or levels by module; did you mean `warn`?",
        "--set log.level: log.level: `verbose` is not a level",
    ] {
        assert!(ran.stderr.contains(problem), "{ran:?}");
    }
}
