//! Tests of `parlor schema` in its three output formats.

use std::process::Stdio;

use crate::support::{command, run};

#[tokio::test]
async fn the_table_shows_key_type_ttl_and_meaning() {
    let out = run(&["schema"]).await.ok();
    let line = out
        .lines()
        .find(|line| line.starts_with("presence:user:{user}"))
        .unwrap();
    assert!(line.contains("hash") && line.contains("60 s"), "{line}");
}

#[tokio::test]
async fn preset_prefix_and_overrides_are_respected() {
    let out = run(&[
        "schema",
        "--preset",
        "home-assistant",
        "--set",
        "ttl.presence=90",
    ])
    .await
    .ok();
    let line = out
        .lines()
        .find(|line| line.starts_with("ha:presence:user:{user}"))
        .unwrap();
    assert!(line.contains("90 s"), "{line}");
    assert!(out.contains("ha:chat:conversation:{conv}:messages"));
}

#[tokio::test]
async fn cluster_names_carry_hash_tags() {
    let rows = run(&["schema", "--cluster", "--json"]).await.json();
    let examples: Vec<&str> = rows
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|row| row["example"].as_str())
        .collect();
    assert!(
        examples
            .iter()
            .any(|example| example.starts_with("presence:user:{")),
        "{examples:?}"
    );
}

#[tokio::test]
async fn markdown_is_a_table_per_capability() {
    let out = run(&["schema", "--format", "markdown"]).await.ok();
    assert!(
        out.starts_with("## ") && out.contains("| `presence:user:{user}` | hash |"),
        "{out}"
    );
}

#[tokio::test]
async fn a_closed_stdout_pipe_is_not_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = command(folder.path(), &["schema"], &[])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().await.unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
}
