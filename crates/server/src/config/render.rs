//! What is written from the table of settings: `--print-config`, docs/config.md, parlor.example.toml.
//!
//! Always true: a secret is never written, and neither is the password inside a URL.

use std::fmt::Write;

use serde_json::json;

use super::environment::DOCUMENTED;
use super::kind::{Kind, Value};
use super::settings::{self, Setting};
use super::sources::Origin;
use super::values::{self, Values};

/// Every setting as TOML, with its origin behind it. Can be used as a configuration file where nothing is hidden.
pub fn toml(values: &Values) -> String {
    let lines: Vec<_> = values
        .iter()
        .map(|(setting, value, origin)| (setting, line(setting, value, origin), origin))
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
pub fn json(values: &Values) -> serde_json::Value {
    let all = values.iter().map(|(setting, value, origin)| {
        let shown = match value {
            _ if hidden(setting, value) => json!("(hidden)"),
            _ if value.is_empty() => json!(null),
            Value::Number(number) => json!(number),
            Value::Flag(flag) => json!(flag),
            Value::List(items) => json!(items),
            Value::Text(_) | Value::Time(_) => json!(shown(setting, value)),
        };
        json!({ "name": setting.name, "value": shown, "origin": origin.to_string() })
    });
    all.collect()
}

fn line(setting: &Setting, value: &Value, origin: &Origin) -> String {
    let key = setting.key();
    // An empty value that somebody wrote may stand against a preset's, so it is shown as one.
    let unset = value.is_empty() && *origin == Origin::Default && !matches!(value, Value::List(_));
    if hidden(setting, value) {
        format!("# {key} = (hidden)")
    } else if unset {
        let note = if setting.default_note.is_empty() {
            "not set"
        } else {
            setting.default_note
        };
        format!("# {key} = ({note})")
    } else {
        let shown = match value {
            Value::Text(_) => Value::Text(shown(setting, value)),
            other => other.clone(),
        };
        format!("{key} = {}", shown.toml())
    }
}

fn hidden(setting: &Setting, value: &Value) -> bool {
    setting.secret && !value.is_empty()
}

/// The value as text, without the password of a URL.
fn shown(setting: &Setting, value: &Value) -> String {
    let text = value.plain();
    match setting.kind {
        Kind::StoreUrl | Kind::DatabaseUrl => without_password(&text),
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
    // PostgreSQL also takes `?password=…`, `sslpassword=…`; which of its options are secret is not ours to know.
    match shown.split_once('?') {
        Some((address, _)) => format!("{address}?***"),
        None => shown,
    }
}

/// parlor.example.toml: every effective setting with its default, commented out.
pub fn example() -> String {
    let mut text = String::from(
        "# Every setting of Parlor with its default. Copy to parlor.toml and uncomment what should differ.\n\
         # Times are seconds (20, 0.5) or text (\"500ms\", \"20s\", \"5m\", \"1h\"). The reference is docs/config.md.\n",
    );
    let mut section = "";
    for setting in settings::all().iter().filter(|setting| setting.effective) {
        if setting.section() != section {
            section = setting.section();
            let _ = write!(text, "\n[{section}]\n");
        }
        let value = values::default(setting);
        let _ = writeln!(text, "# {}", setting.doc);
        let note = if setting.default_note.is_empty() {
            String::new()
        } else {
            format!("  # {}", setting.default_note)
        };
        let _ = writeln!(text, "# {} = {}{note}", setting.key(), value.toml());
    }
    text
}

/// docs/config.md.
pub fn reference() -> String {
    let mut text = String::from(HEAD);
    for section in settings::sections() {
        let of_section = settings::all()
            .iter()
            .filter(|s| s.section() == section && s.effective);
        let rows: Vec<String> = of_section.map(row).collect();
        if !rows.is_empty() {
            let _ = write!(
                text,
                "\n## `[{section}]`\n\n| setting | default | meaning |\n|---|---|---|\n{}",
                rows.concat()
            );
        }
    }
    text += DOCUMENTS;
    for (variable, setting, meaning) in DOCUMENTED {
        let _ = writeln!(text, "| `{variable}` | `{setting}` | {meaning} |");
    }
    text += LATER;
    for setting in settings::all().iter().filter(|setting| !setting.effective) {
        text += &row(setting);
    }
    text
}

fn row(setting: &Setting) -> String {
    let value = values::default(setting);
    let default = match setting.default_note {
        "" if value.is_empty() => "not set".to_owned(),
        "" => format!("`{}`", value.plain()),
        note => note.to_owned(),
    };
    let mut meaning = setting.doc.to_string();
    match setting.kind {
        Kind::Choice(words) if words.len() > 1 => {
            let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            let _ = write!(meaning, " One of {}.", words.join(", "));
        }
        Kind::Number(least, most) => {
            let _ = write!(meaning, " From {least} to {most}.");
        }
        _ => {}
    }
    if setting.secret {
        meaning += " Secret: never shown.";
    }
    format!("| `{}` | {default} | {meaning} |\n", setting.name)
}

const HEAD: &str = "\
# Configuration

<!-- Written from the table of settings; `make docs` rewrites it. -->

A value comes from, the later one wins:

1. the default below, or the one of the chosen preset (`keys.preset`),
2. `parlor.toml` in the working folder, if it exists, or the file named by `--config`, which must exist,
3. the variables of the source documents (`REDIS_HOST`, …), listed below,
4. the environment: `PARLOR_SECTION__KEY`, e.g. `PARLOR_SERVER__HTTP=0.0.0.0:7070`,
5. flags: `--set section.key=value` for every setting, and the short ones (`--http`, `--store`, …).

`parlor serve --print-config` shows every value and where it came from, without secrets. A key that does not exist or a
value that cannot be used stops the start with exit code 2; all such problems are listed at once, each with its place
(file and line, variable, or flag) and, where there is one, the name that was probably meant.

Times are seconds (`20`, `0.5`) or text with a unit: `\"500ms\"`, `\"20s\"`, `\"5m\"`, `\"1h\"`, `\"7d\"`. Lists are TOML lists; in
variables and flags they are separated by commas. Where a setting is \"not set\" by default, an empty value means the same.

The settings of the sections `keys`, `ttl`, `presence`, `limits`, `notifications` and `stats` decide which keys and times
`parlor schema` shows, and what `parlor keys` and `parlor doctor` compare a store with. Changing `keys.presence` or `keys.typing` also changes the default times that belong to that layout.

A `redis://` store that cannot be reached at the start is tried again for ever, and `/readyz` answers 503 with the reason
meanwhile. A wrong password or a wrong URL ends the start at once.
";

const DOCUMENTS: &str = "
## Variables of the source documents

| variable | sets | meaning |
|---|---|---|
";

const LATER: &str = "
## Accepted, without effect yet

These names are fixed and their values are checked, but nothing reads them in this version.

| setting | default | meaning |
|---|---|---|
";
