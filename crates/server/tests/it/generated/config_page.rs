//! Generates docs/config.md and parlor.example.toml from the table of settings.

use std::fmt::Write;

use parlor_server::config::settings::{self, Setting};
use parlor_server::config::{INTEGRATION_VARIABLES, SettingKind, default_value};

/// Text of parlor.example.toml: every implemented setting with its default, commented out.
pub(super) fn example_toml() -> String {
    let mut text = String::from(
        "# Every setting of Parlor with its default. Copy to parlor.toml and uncomment the settings to change.\n\
         # Durations are seconds (20, 0.5) or text (\"500ms\", \"20s\", \"5m\", \"1h\"). See docs/config.md.\n",
    );
    let mut section = "";
    for setting in settings::all_settings()
        .iter()
        .filter(|setting| setting.is_implemented)
    {
        if setting.section() != section {
            section = setting.section();
            let _ = write!(text, "\n[{section}]\n");
        }
        let value = default_value(setting);
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
pub(super) fn text() -> String {
    let mut text = String::from(HEAD);
    for section in settings::sections() {
        let of_section = settings::all_settings()
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
    for setting in settings::all_settings()
        .iter()
        .filter(|setting| !setting.is_implemented)
    {
        text += &row(setting);
    }
    text
}

fn row(setting: &Setting) -> String {
    let value = default_value(setting);
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
        SettingKind::Number(min, max) => {
            let _ = write!(meaning, " From {min} to {max}.");
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

**Reload.** Send `SIGHUP` to a server without a controlling terminal, for example `systemctl kill -s HUP parlor`: it reads
the configuration again and applies `log.level`. Its log names the other changed settings, which need a restart. An invalid
configuration changes nothing. A server with a controlling terminal takes `SIGHUP` as the end of the terminal and shuts
down; `SIGUSR1` has no effect.

If a `redis://` store is unavailable at the start, the server retries until it is reachable; meanwhile `/readyz` returns 503
with the reason. After the start, a node without the store, or whose disk is full, stays ready, marked as `degraded`;
`/readyz?strict` then returns 503. [Reliability](reliability.md) lists what clients get. A wrong password or an invalid
URL stops the start at once.
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
