//! `docs/schema.md`: the default preset in full, and what the others do differently.

use super::markdown::{code, markdown, push, table};
use super::{Row, rows};
use crate::keys::{Layouts, Preset, Settings, SettingsError, TtlName, duration_text};

const HEAD: &str = "\
# Keys and channels

Generated from the declarations in `crates/chat/src/*/keys.rs`; do not edit. `parlor schema` prints the same for the configuration in use.

This is what Parlor keeps in Redis, Valkey or its embedded store with the preset `parlor`. The keys under a capability's heading are a contract:
other services may read them and subscribe to the channels. What starts with `parlor:` is Parlor's own and may change with any version.

- A word in braces stands for an identifier: `unread:{user}:{conv}` is `unread:alice:c42` for the user `alice` and the conversation `c42`.
- Identifiers have 1 to 128 of `A-Z a-z 0-9 . _ - @ + = ~ |`. A conversation cannot be called `total`, a user not `status`, `online` or `sockets`.
  `{id}`, what a limit counts by, has 1 to 256 printable characters without blanks and braces; an IPv6 address counts as its /64 network.
- `keys.prefix` goes before every key and channel.
- TTL is when a key goes by itself, with the setting that decides it; `none` means that it stays until it is deleted.
- Source tells whose key it is: S0 the key design of a chat application (preset `chat-app`), S1 the key structure of a rooms service (`rooms`),
  S2 the schema of a chat service (`chat-service`), S3 the data model of a user status service (`user-status`), S4 the schema of a home-assistant backend
  (`home-assistant`), ours Parlor itself.

";

const CLUSTER: &str = "\
## Cluster mode

In a cluster the first identifier of a key is its hash tag, with literal braces. All keys of a user share a slot, and all keys of a conversation.
A key without identifiers has no tag, except where a step needs one, as in the last row. `parlor schema` shows the braces when the store is a cluster, and the identifiers in angle brackets.

| key | standalone | cluster |
|---|---|---|
";

/// The patterns whose cluster form the document shows: one of each shape.
const CLUSTER_EXAMPLES: &[&str] = &[
    "presence:user:{user}",
    "unread:{user}:{conv}",
    "typing:{conv}:{user}",
    "membership:{conv}:{user}",
    "rate_limit:{id}",
    "chat:conversations:active",
    "parlor:stats:nodes",
];

/// The text of `docs/schema.md`.
pub fn document() -> Result<String, SettingsError> {
    let mut out = HEAD.to_owned();
    out.push_str(&markdown(&Settings::default(), false)?);
    cluster(&mut out)?;
    presets(&mut out)?;
    times(&mut out);
    Ok(out)
}

fn cluster(out: &mut String) -> Result<(), SettingsError> {
    let settings = Settings::default();
    out.push_str(CLUSTER);
    let alone = rows(&settings, false)?;
    let clustered = rows(&settings, true)?;
    for (alone, clustered) in alone.iter().zip(&clustered) {
        if CLUSTER_EXAMPLES.contains(&alone.key.as_str()) {
            let (key, one, other) = (
                code(&alone.key),
                code(&alone.example),
                code(&clustered.example),
            );
            push(out, format_args!("| {key} | {one} | {other} |\n"));
        }
    }
    out.push('\n');
    Ok(())
}

fn presets(out: &mut String) -> Result<(), SettingsError> {
    out.push_str(
        "## Presets\n\nA preset (`keys.preset`) is a prefix and a choice of layouts; every setting can still be set by itself. \
         A layout brings its times with it.\n\n\
         | preset | `keys.prefix` | `keys.presence` | `ttl.presence` | `presence.heartbeat` | `keys.typing` | `ttl.typing` | `keys.recent` |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for preset in Preset::ALL {
        let settings = Settings::from_preset(*preset);
        let Layouts {
            presence,
            typing,
            recent,
        } = settings.layouts;
        let prefix = if settings.prefix.is_empty() {
            String::new()
        } else {
            code(&settings.prefix)
        };
        let time = |name| duration_text(settings.ttls.get(name));
        push(
            out,
            format_args!(
                "| `{preset}` | {prefix} | {presence} | {} | {} | {typing} | {} | {recent} |\n",
                time(TtlName::Presence),
                duration_text(settings.heartbeat),
                time(TtlName::Typing),
            ),
        );
    }
    out.push('\n');
    let default = rows(&Settings::default(), false)?;
    for preset in Preset::ALL
        .iter()
        .filter(|preset| **preset != Preset::Parlor)
    {
        difference(out, *preset, &default)?;
    }
    Ok(())
}

/// The rows of a preset that the default does not have, compared without prefix.
fn difference(out: &mut String, preset: Preset, default: &[Row]) -> Result<(), SettingsError> {
    let mut settings = Settings::from_preset(preset);
    let prefix = std::mem::take(&mut settings.prefix);
    let own = rows(&settings, false)?;
    push(out, format_args!("### Preset `{preset}`\n\n"));
    if !prefix.is_empty() {
        push(
            out,
            format_args!(
                "Every key and channel starts with `{prefix}`, which the rows below leave out.\n\n"
            ),
        );
    }
    let differs: Vec<&Row> = own.iter().filter(|row| !default.contains(row)).collect();
    if differs.is_empty() {
        out.push_str("The keys are those of `parlor`.\n\n");
        return Ok(());
    }
    table(out, differs.into_iter());
    let gone: Vec<String> = default
        .iter()
        .filter(|row| !own.iter().any(|mine| mine.key == row.key))
        .map(|row| code(&row.key))
        .collect();
    if !gone.is_empty() {
        push(out, format_args!("\nNot written: {}.\n", gone.join(", ")));
    }
    out.push('\n');
    Ok(())
}

fn times(out: &mut String) {
    out.push_str(
        "## Times\n\nIn the configuration `ttl.*` are given in seconds.\n\n| setting | meaning |",
    );
    for preset in Preset::ALL {
        push(out, format_args!(" `{preset}` |"));
    }
    out.push_str("\n|---|---|");
    out.push_str(&"---|".repeat(Preset::ALL.len()));
    out.push('\n');
    for name in TtlName::ALL {
        push(out, format_args!("| `{name}` | {} |", name.meaning()));
        for preset in Preset::ALL {
            let time = Settings::from_preset(*preset).ttls.get(*name);
            push(out, format_args!(" {} |", duration_text(time)));
        }
        out.push('\n');
    }
}
