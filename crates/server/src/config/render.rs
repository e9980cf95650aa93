//! Texts that are generated from the table of settings: `--print-config`, docs/config.md, parlor.example.toml.
//!
//! Invariant: no secret is written, and no password of a URL.

use std::fmt::Write;

use serde_json::json;

use super::environment::INTEGRATION_VARIABLES;
use super::layer::SettingOrigin;
use super::setting_kind::{SettingKind, Value};
use super::settings::{self, Setting};
use super::values::{self, SettingValues};

/// Every setting as TOML, with its origin as a comment. Usable as a configuration file if no value is hidden.
pub fn effective_toml(values: &SettingValues) -> String {
    let lines: Vec<_> = values
        .iter()
        .map(|(setting, value, origin)| (setting, setting_line(setting, value, origin), origin))
        .collect();
    let width = lines
        .iter()
        .map(|(_, line, _)| line.chars().count())
        .max()
        .unwrap_or(0)
        .min(60);
    let mut text = String::new();
    let mut section = "";
    for (setting, line, origin) in lines {
        if setting.section() != section {
            let gap = if section.is_empty() { "" } else { "\n" };
            section = setting.section();
            text += &format!("{gap}[{section}]\n");
        }
        text += &format!("{line:width$}  # {origin}\n");
    }
    text
}

/// Every setting as JSON.
pub fn json(values: &SettingValues) -> serde_json::Value {
    let all = values.iter().map(|(setting, value, origin)| {
        let shown = match value {
            _ if is_hidden(setting, value) => json!("(hidden)"),
            _ if value.is_empty() => json!(null),
            Value::Number(number) => json!(number),
            Value::Boolean(flag) => json!(flag),
            Value::List(items) => json!(items),
            Value::Text(_) | Value::Duration(_) => json!(display_value(setting, value)),
        };
        json!({ "name": setting.name, "value": shown, "origin": origin.to_string() })
    });
    all.collect()
}

fn setting_line(setting: &Setting, value: &Value, origin: &SettingOrigin) -> String {
    let key = setting.key();
    // An explicitly empty value can override the value of a preset, so it is printed and not shown as "not set".
    let unset =
        value.is_empty() && *origin == SettingOrigin::Default && !matches!(value, Value::List(_));
    if is_hidden(setting, value) {
        format!("# {key} = (hidden)")
    } else if unset {
        let note = if setting.default_display.is_empty() {
            "not set"
        } else {
            setting.default_display
        };
        format!("# {key} = ({note})")
    } else {
        let shown = match value {
            Value::Text(_) => Value::Text(display_value(setting, value)),
            other => other.clone(),
        };
        format!("{key} = {}", shown.to_toml())
    }
}

fn is_hidden(setting: &Setting, value: &Value) -> bool {
    setting.secret && !value.is_empty()
}

/// The value as text, without the password of a URL.
fn display_value(setting: &Setting, value: &Value) -> String {
    let text = value.to_text();
    match setting.kind {
        SettingKind::StoreUrl | SettingKind::DatabaseUrl => without_password(&text),
        _ => text,
    }
}

fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let shown = match rest.rsplit_once('@') {
        Some((login, hosts)) if login.contains(':') => {
            let user = login.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}:***@{hosts}")
        }
        _ => url.to_owned(),
    };
    // PostgreSQL also accepts `?password=…` and `sslpassword=…`. All options are hidden, because the list of secret
    // ones may grow.
    match shown.split_once('?') {
        Some((address, _)) => format!("{address}?***"),
        None => shown,
    }
}

/// Text of parlor.example.toml: every implemented setting with its default, commented out.
pub fn example_toml() -> String {
    let mut text = String::from(
        "# Every setting of Parlor with its default. Copy to parlor.toml and uncomment the settings to change.\n\
         # Durations are seconds (20, 0.5) or text (\"500ms\", \"20s\", \"5m\", \"1h\"). See docs/config.md.\n",
    );
    let mut section = "";
    for setting in settings::all()
        .iter()
        .filter(|setting| setting.is_implemented)
    {
        if setting.section() != section {
            section = setting.section();
            let _ = write!(text, "\n[{section}]\n");
        }
        let value = values::default_value(setting);
        let _ = writeln!(text, "# {}", setting.description);
        let note = if setting.default_display.is_empty() {
            String::new()
        } else {
            format!("  # {}", setting.default_display)
        };
        let _ = writeln!(text, "# {} = {}{note}", setting.key(), value.to_toml());
    }
    text
}

/// Text of docs/config.md.
pub fn settings_page() -> String {
    let mut text = String::from(HEAD);
    for section in settings::sections() {
        let of_section = settings::all()
            .iter()
            .filter(|s| s.section() == section && s.is_implemented);
        let rows: Vec<String> = of_section.map(row).collect();
        if !rows.is_empty() {
            let _ = write!(
                text,
                "\n## `[{section}]`\n\n| setting | default | meaning |\n|---|---|---|\n{}",
                rows.concat()
            );
        }
    }
    text += INTEGRATION_HEADER;
    for (variable, setting, meaning) in INTEGRATION_VARIABLES {
        let _ = writeln!(text, "| `{variable}` | `{setting}` | {meaning} |");
    }
    text += NOT_IMPLEMENTED_HEADER;
    for setting in settings::all()
        .iter()
        .filter(|setting| !setting.is_implemented)
    {
        text += &row(setting);
    }
    text
}

fn row(setting: &Setting) -> String {
    let value = values::default_value(setting);
    let default = match setting.default_display {
        "" if value.is_empty() => "not set".to_owned(),
        "" => format!("`{}`", value.to_text()),
        note => note.to_owned(),
    };
    let mut meaning = setting.description.to_string();
    match setting.kind {
        SettingKind::Choice(words) if words.len() > 1 => {
            let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            let _ = write!(meaning, " One of {}.", words.join(", "));
        }
        SettingKind::Number(least, most) => {
            let _ = write!(meaning, " From {least} to {most}.");
        }
        _ => {}
    }
    if setting.secret {
        meaning += " Secret: never printed.";
    }
    format!("| `{}` | {default} | {meaning} |\n", setting.name)
}

const HEAD: &str = "\
# Configuration

<!-- Generated from the table of settings by `make docs`; do not edit. -->

Parlor reads settings from these sources; a later source wins:

1. the default below, or the default of the chosen preset (`keys.preset`),
2. `parlor.toml` in the working folder, if it exists, or the file named by `--config`, which must exist,
3. integration variables (`REDIS_HOST`, …), listed below,
4. environment variables: `PARLOR_SECTION__KEY`, for example `PARLOR_SERVER__HTTP=0.0.0.0:7070`,
5. flags: `--set section.key=value` for every setting, and short flags for some (`--http`, `--store`, …).

`parlor serve --print-config` prints every value and its origin, without secrets. An unknown key or an invalid value stops
the start with exit code 2. All such problems are listed at once, each with its place (file and line, variable, or flag) and,
if a known name is similar, a suggestion.

Durations are seconds (`20`, `0.5`) or text with a unit: `\"500ms\"`, `\"20s\"`, `\"5m\"`, `\"1h\"`, `\"7d\"`. Lists are TOML lists;
variables and flags separate the items by commas. If a default is \"not set\", an empty value means the same.

The settings of the sections `keys`, `ttl`, `presence`, `limits`, `notifications` and `stats` determine the keys and times
that `parlor schema` prints and that `parlor keys` and `parlor doctor` compare a store with. Changing `keys.presence` or
`keys.typing` also changes the default times of that layout.

If a `redis://` store is unavailable at the start, the server retries until it is reachable; meanwhile `/readyz` returns 503
with the reason. A wrong password or an invalid URL stops the start at once.
";

const INTEGRATION_HEADER: &str = "
## Integration variables

Applications that use the documented Redis keys often set these variables already; Parlor reads them, too.

| variable | sets | meaning |
|---|---|---|
";

const NOT_IMPLEMENTED_HEADER: &str = "
## Accepted, but not implemented yet

The names are fixed and the values are checked, but this version does not use them.

| setting | default | meaning |
|---|---|---|
";
