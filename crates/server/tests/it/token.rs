//! Tests of `parlor token`: the server accepts the printed tokens; errors are reported.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use futures_util::future::join_all;
use parlor_chat::api::caller::{Caller, Role};
use parlor_embedded::{Clock, SystemClock};
use parlor_server::auth::{AuthConfig, AuthSettings, Authenticator};

use crate::support::{CommandOutput, PARLOR, run_in};

async fn verified(folder: &Path, written: AuthSettings<'_>, token: &str) -> Caller {
    let config = AuthConfig::new(&written).unwrap();
    let identity = Authenticator::load(&config, &folder.join("data"), Arc::new(SystemClock))
        .await
        .unwrap();
    assert_eq!(token.lines().count(), 1, "{token}");
    identity.verify(token.trim_end()).await.unwrap()
}

async fn token(folder: &Path, args: &[&str]) -> CommandOutput {
    run_in(folder, &[&["token"], args].concat(), &[]).await
}

#[tokio::test]
async fn a_printed_token_contains_the_requested_claims() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let before = SystemClock.now_ms();
    let printed = token(folder, &["--user", "alice", "--name", "Alice"])
        .await
        .ok();
    let caller = verified(folder, AuthSettings::default(), &printed).await;
    assert_eq!(
        (caller.user.unwrap().as_str(), caller.name.as_deref()),
        ("alice", Some("Alice"))
    );
    assert_eq!((caller.role, caller.anonymous), (Role::User, false));
    let issued = caller.issued_at.unwrap();
    assert!(issued + 1_000 > before && issued <= SystemClock.now_ms());
    assert_eq!(caller.expires_at, issued + 3_600_000);

    let printed = token(
        folder,
        &["--user", "root", "--role", "admin", "--ttl", "8h"],
    )
    .await
    .ok();
    let caller = verified(folder, AuthSettings::default(), &printed).await;
    assert_eq!((caller.role, caller.name.clone()), (Role::Admin, None));
    assert_eq!(caller.expires_at, caller.issued_at.unwrap() + 8 * 3_600_000);

    let printed = token(folder, &["--user", "visitor-1", "--anon"]).await.ok();
    assert!(
        verified(folder, AuthSettings::default(), &printed)
            .await
            .anonymous
    );

    let printed = token(folder, &["--role", "service", "--name", "billing"])
        .await
        .ok();
    let caller = verified(folder, AuthSettings::default(), &printed).await;
    assert_eq!((caller.role, caller.user), (Role::Service, None));
}

#[tokio::test]
async fn a_configured_secret_audience_and_issuer_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let secret = "the new secret of thirty-two bytes and more";
    let variables = [
        ("PARLOR_AUTH__SECRET", &*format!("{secret},former")),
        ("PARLOR_AUTH__AUDIENCE", "chat"),
        ("PARLOR_AUTH__ISSUER", "parlor"),
    ];
    let printed = run_in(folder.path(), &["token", "--user", "alice"], &variables)
        .await
        .ok();
    let written = AuthSettings {
        secret,
        audience: "chat",
        issuer: "parlor",
        ..AuthSettings::default()
    };
    verified(folder.path(), written, &printed).await;
    assert!(!folder.path().join("data").exists());
}

#[tokio::test]
async fn processes_that_start_together_use_one_secret() {
    let folder = tempfile::tempdir().unwrap();
    let all = join_all((0..6).map(|_| token(folder.path(), &["--user", "alice"]))).await;
    for ran in all {
        verified(folder.path(), AuthSettings::default(), &ran.ok()).await;
    }
}

#[tokio::test]
async fn the_secret_file_is_private_with_any_umask() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("umask 000 && exec {PARLOR} token --user alice");
    let mut shell = tokio::process::Command::new("/bin/sh");
    shell.args(["-c", &script]).current_dir(folder.path());
    let ran = shell.env_clear().output().await.unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let mode = |name: &str| {
        let facts = std::fs::metadata(folder.path().join(name)).unwrap();
        facts.permissions().mode() & 0o7777
    };
    assert_eq!((mode("data"), mode("data/auth.secret")), (0o700, 0o600));
}

#[tokio::test]
async fn with_a_public_key_only_the_issuer_signs_tokens() {
    let folder = tempfile::tempdir().unwrap();
    for source in [
        "auth.jwks=https://issuer.invalid/jwks.json",
        "auth.public_key=missing.pem",
    ] {
        let args = [
            "--user",
            "alice",
            "--set",
            "auth.algorithm=EdDSA",
            "--set",
            source,
        ];
        let ran = token(folder.path(), &args).await;
        assert_eq!((ran.exit_code, ran.stdout.as_str()), (1, ""));
        assert!(
            ran.stderr.contains("this server cannot issue tokens"),
            "{ran:?}"
        );
    }
}

#[tokio::test]
async fn wrong_usage_has_the_exit_code_two() {
    let folder = tempfile::tempdir().unwrap();
    for (args, said) in [
        (&["--name", "Alice"][..], "--user is required"),
        (&["--user", "a:b"], "a:b"),
        (
            &["--user", "alice", "--role", "root"],
            "possible values: user, admin, service",
        ),
        (&["--user", "alice", "--ttl", "0"], "the minimum is 1s"),
        (&["--user", "alice", "--ttl", "soon"], "not a unit of time"),
        (
            &["--user", "alice", "--anon", "--role", "admin"],
            "cannot be used with",
        ),
        (
            &["--user", "alice", "--set", "auth.jwks=keys.json"],
            "auth.jwks needs auth.algorithm",
        ),
    ] {
        let ran = token(folder.path(), args).await;
        assert_eq!(
            (ran.exit_code, ran.stdout.as_str()),
            (2, ""),
            "{args:?} {ran:?}"
        );
        assert!(ran.stderr.contains(said), "{said}\n{}", ran.stderr);
    }
    assert!(!folder.path().join("data").exists());
}

#[tokio::test]
async fn a_short_secret_causes_a_warning_without_the_secret() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run_in(
        folder.path(),
        &["token", "--user", "alice"],
        &[("PARLOR_AUTH__SECRET", "hunter2")],
    )
    .await;
    assert!(
        ran.stderr.contains("shorter than 32 bytes") && !ran.stderr.contains("hunter2"),
        "{ran:?}"
    );
    assert_eq!(ran.exit_code, 0);
}
