//! Prints the settings: `--print-config`.
//!
//! Invariant: no secret is written, and no password of a URL.

use serde_json::json;

use super::layer::SettingOrigin;
use super::setting_kind::{SettingKind, SettingValue};
use super::settings::Setting;
use super::values::SettingValues;

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
            SettingValue::Number(number) => json!(number),
            SettingValue::Boolean(flag) => json!(flag),
            SettingValue::List(items) => json!(items),
            SettingValue::Text(_) | SettingValue::Duration(_) => {
                json!(display_value(setting, value))
            }
        };
        json!({ "name": setting.name, "value": shown, "origin": origin.to_string() })
    });
    all.collect()
}

fn setting_line(setting: &Setting, value: &SettingValue, origin: &SettingOrigin) -> String {
    let key = setting.key();
    // An explicitly empty value can override the value of a preset, so it is printed and not shown as "not set".
    let unset = value.is_empty()
        && *origin == SettingOrigin::Default
        && !matches!(value, SettingValue::List(_));
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
            SettingValue::Text(_) => SettingValue::Text(display_value(setting, value)),
            other => other.clone(),
        };
        format!("{key} = {}", shown.to_toml())
    }
}

fn is_hidden(setting: &Setting, value: &SettingValue) -> bool {
    setting.secret && !value.is_empty()
}

/// The value as text, without the password of a URL.
fn display_value(setting: &Setting, value: &SettingValue) -> String {
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
