//! The text of `docs/schema.md`: the default preset in full, and the differences of the other presets.

use parlor_chat::keys::reference::{
    KeyReferenceRow, code_span, push_table, push_written_keys, reference_rows,
};
use parlor_chat::keys::registry;
use parlor_chat::keys::{
    KeyLayouts, KeySettings, KeySettingsError, Preset, TtlName, format_duration,
};

const INTRODUCTION: &str = "\
# Keys and channels

Generated from the key declarations in `crates/chat/src`; do not edit. `parlor schema` prints the same for your configuration.

These are the keys and channels in Redis, Valkey or the embedded store with the preset `parlor`. Keys that do not start with `parlor:` are a contract:
your services may read them and subscribe to the channels. Keys that start with `parlor:` are internal and may change with any version.

- A word in braces stands for an identifier: `unread:{user}:{conv}` is `unread:alice:c42` for the user `alice` and the conversation `c42`.
- Identifiers have 1 to 128 characters of `A-Z a-z 0-9 . _ - @ + = ~ |`. A conversation id cannot be `total`; a user id cannot be `status`, `online` or `sockets`.
  `{id}`, the name of a rate limit, has 1 to 256 printable ASCII characters without spaces and braces; an IPv6 address counts as its /64 network.
- The setting `keys.prefix` is put before every key and channel.
- TTL is the time after which a key expires, with the setting that decides it; `none` means that the key stays until it is deleted.
- Source is the schema that a key comes from: S0 is the key design of a chat application (preset `chat-app`), S1 the key structure of a rooms service (`rooms`),
  S2 the schema of a chat service (`chat-service`), S3 the data model of a user status service (`user-status`), S4 the schema of a home-assistant backend
  (`home-assistant`), ours is Parlor itself.
- `parlor schema` also lists keys of planned features under \"Planned\". Nothing writes them; their names are reserved.

";

const CLUSTER_INTRODUCTION: &str = "\
## Cluster mode

In a cluster the first identifier of a key is its hash tag, in literal braces. All keys that start with the same user id share a slot, and so do all keys that start
with the same conversation id. A key without identifiers has no hash tag. If the store is a cluster, `parlor schema` shows literal braces, and identifiers in angle
brackets.

| key | standalone | cluster |
|---|---|---|
";

/// The patterns for which the document shows the cluster form: one of each shape.
const CLUSTER_EXAMPLES: &[&str] = &[
    "presence:user:{user}",
    "unread:{user}:{conv}",
    "typing:{conv}:{user}",
    "membership:{conv}:{user}",
    "rate_limit:{id}",
    "parlor:nodes",
];

/// The text of `docs/schema.md`.
pub fn schema_document() -> Result<String, KeySettingsError> {
    let mut out = INTRODUCTION.to_owned();
    push_written_keys(&mut out, &written_rows(&KeySettings::default(), false)?);
    push_cluster_chapter(&mut out)?;
    push_presets_chapter(&mut out)?;
    push_ttl_chapter(&mut out);
    Ok(out)
}

fn written_rows(
    settings: &KeySettings,
    cluster: bool,
) -> Result<Vec<KeyReferenceRow>, KeySettingsError> {
    let mut rows = reference_rows(settings, cluster)?;
    rows.retain(|row| !row.planned);
    Ok(rows)
}

fn push_cluster_chapter(out: &mut String) -> Result<(), KeySettingsError> {
    let settings = KeySettings::default();
    out.push_str(CLUSTER_INTRODUCTION);
    let alone = written_rows(&settings, false)?;
    let clustered = written_rows(&settings, true)?;
    for (alone, clustered) in alone.iter().zip(&clustered) {
        if CLUSTER_EXAMPLES.contains(&alone.key.as_str()) {
            let (key, one, other) = (
                code_span(&alone.key),
                code_span(&alone.example),
                code_span(&clustered.example),
            );
            *out += &format!("| {key} | {one} | {other} |\n");
        }
    }
    out.push('\n');
    Ok(())
}

fn push_presets_chapter(out: &mut String) -> Result<(), KeySettingsError> {
    out.push_str(
        "## Presets\n\nA preset (`keys.preset`) is a prefix and a choice of layouts; every setting can still be set on its own. \
         A layout has its own default TTLs.\n\n\
         | preset | `keys.prefix` | `keys.presence` | `ttl.presence` | `presence.heartbeat` | `keys.typing` | `ttl.typing` | `keys.recent` |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for preset in Preset::ALL {
        let settings = KeySettings::from_preset(*preset);
        let KeyLayouts {
            presence,
            typing,
            recent,
            session: _,
        } = settings.layouts;
        let prefix = if settings.prefix.is_empty() {
            String::new()
        } else {
            code_span(&settings.prefix)
        };
        let time = |name| format_duration(settings.ttls.get(name));
        *out += &format!(
            "| `{preset}` | {prefix} | {presence} | {} | {} | {typing} | {} | {recent} |\n",
            time(TtlName::Presence),
            format_duration(settings.heartbeat),
            time(TtlName::Typing)
        );
    }
    out.push('\n');
    let default = written_rows(&KeySettings::default(), false)?;
    for preset in Preset::ALL
        .iter()
        .filter(|preset| **preset != Preset::Parlor)
    {
        push_preset_difference(out, *preset, &default)?;
    }
    Ok(())
}

/// The rows of a preset that differ from the default preset, compared without the prefix.
fn push_preset_difference(
    out: &mut String,
    preset: Preset,
    default: &[KeyReferenceRow],
) -> Result<(), KeySettingsError> {
    let mut settings = KeySettings::from_preset(preset);
    let prefix = std::mem::take(&mut settings.prefix);
    let own = written_rows(&settings, false)?;
    *out += &format!("### Preset `{preset}`\n\n");
    if !prefix.is_empty() {
        *out += &format!(
            "Every key and channel starts with `{prefix}`, which is omitted in the rows below.\n\n"
        );
    }
    let differs: Vec<&KeyReferenceRow> = own.iter().filter(|row| !default.contains(row)).collect();
    if differs.is_empty() {
        out.push_str("The keys are the same as those of `parlor`.\n\n");
        return Ok(());
    }
    push_table(out, differs.into_iter());
    let gone: Vec<String> = default
        .iter()
        .filter(|row| !own.iter().any(|mine| mine.key == row.key))
        .map(|row| code_span(&row.key))
        .collect();
    if !gone.is_empty() {
        *out += &format!("\nNot written: {}.\n", gone.join(", "));
    }
    out.push('\n');
    Ok(())
}

fn push_ttl_chapter(out: &mut String) {
    out.push_str(
        "## Times\n\nThe settings `ttl.*` of the configuration are in seconds.\n\n| setting | meaning |",
    );
    for preset in Preset::ALL {
        *out += &format!(" `{preset}` |");
    }
    out.push_str("\n|---|---|");
    out.push_str(&"---|".repeat(Preset::ALL.len()));
    out.push('\n');
    let is_planned = |name: &TtlName| {
        registry::all_specs().any(|(group, spec)| {
            registry::is_planned(group) && spec.ttl.configured_by().contains(name)
        })
    };
    for name in TtlName::ALL.iter().filter(|name| !is_planned(name)) {
        *out += &format!(
            "| `{name}` | {} |",
            name.description().trim_end_matches('.')
        );
        for preset in Preset::ALL {
            let time = KeySettings::from_preset(*preset).ttls.get(*name);
            *out += &format!(" {} |", format_duration(time));
        }
        out.push('\n');
    }
}
