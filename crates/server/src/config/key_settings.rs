//! Settings that the chat crate owns (`keys.*`, `ttl.*`, `presence.*`), and the defaults of presets and
//! layouts.
//!
//! Invariant: a preset changes defaults only. A value that a source has set stays as it is.

use std::time::Duration;

use parlor_chat::keys::{
    KeyLayouts, KeySettings, PresenceLayout, Preset, RecentLayout, SessionLayout, TtlName,
    TypingLayout,
};

use super::duration;
use super::layer::SettingOrigin;
use super::setting_kind::{SettingKind, SettingValue};
use super::settings::{Setting, setting};
use super::values::SettingValues;

/// Minimum TTL; a shorter one would expire within the latency of a network.
const MIN_TTL_MS: u64 = 100;

/// Declares the settings of the sections `keys` and `ttl`, and those of `presence` except the grace period and the lease.
#[rustfmt::skip]
pub fn key_layout_settings() -> Vec<Setting> {
    let KeyLayouts { presence, typing, recent, session } = Preset::Parlor.layouts();
    let mut settings = vec![
        setting(Preset::SETTING, SettingKind::Choice(Preset::NAMES), Preset::Parlor.name(), "Named set of prefix, layouts and times to start from; each explicit setting takes precedence."),
        setting("keys.prefix", SettingKind::Text, Preset::Parlor.prefix(), "Prefix of every key and channel.").default_display("none"),
        setting(PresenceLayout::SETTING, SettingKind::Choice(PresenceLayout::NAMES), presence.name(), "Layout of the presence keys."),
        setting(TypingLayout::SETTING, SettingKind::Choice(TypingLayout::NAMES), typing.name(), "Layout of the typing keys."),
        setting(RecentLayout::SETTING, SettingKind::Choice(RecentLayout::NAMES), recent.name(), "Layout of the keys with recent messages."),
        setting(SessionLayout::SETTING, SettingKind::Choice(SessionLayout::NAMES), session.name(), "Where sessions are stored: `hash` writes each session to the key `user:{user}`, which other services may read and change, and to the database; `off` writes it to the database only."),
    ];
    settings.extend(TtlName::ALL.iter().filter(|name| name.is_in_ttl_section()).map(|name| ttl_setting(*name)));
    let heartbeat = duration::format(Preset::Parlor.layouts().heartbeat());
    settings.push(setting("presence.heartbeat", SettingKind::Duration(1_000), heartbeat, "Interval at which each device sends a heartbeat, at most half of `ttl.presence`. If it is not set and the default is longer than that, it is a third of `ttl.presence`."));
    settings.push(setting("presence.external", SettingKind::Boolean, "false", "Whether entries of other services in the presence keys count as online, marked `external`. On in the presets of the documents."));
    settings.push(setting("presence.beat_registers", SettingKind::Boolean, "true", "Whether a heartbeat over HTTP or gRPC registers an unknown device. Off in the layout `status`."));
    settings
}

/// Declares the setting of a TTL.
pub fn ttl_setting(name: TtlName) -> Setting {
    let default = Duration::from_secs(name.default_seconds(&Preset::Parlor.layouts()));
    setting(
        name.name(),
        SettingKind::Duration(MIN_TTL_MS),
        duration::format(default),
        name.description(),
    )
}

/// Defaults that the chosen preset and layouts change, each with its origin.
pub fn preset_defaults(values: &SettingValues) -> Vec<(&'static str, SettingValue, SettingOrigin)> {
    let preset = preset(values);
    let own = KeySettings::from_preset(preset);
    let layouts = layouts(values, &own.layouts);
    // Times follow the layouts that are set, and the layouts themselves follow the preset.
    let chosen = KeySettings {
        prefix: own.prefix.clone(),
        layouts: own.layouts,
        ..KeySettings::from_layouts(preset, layouts)
    };
    let of_preset = setting_values(&own);
    let of_base = setting_values(&KeySettings::default());
    let chosen = setting_values(&chosen)
        .into_iter()
        .zip(of_preset)
        .zip(of_base);
    chosen
        .filter(|(((_, value), _), (_, base))| value != base)
        .map(|(((name, value), (_, of_preset)), _)| {
            let origin = match name {
                _ if value == of_preset => SettingOrigin::Preset(preset.name()),
                _ if name == TtlName::Typing.name() => {
                    SettingOrigin::Layout(TypingLayout::SETTING, layouts.typing.name())
                }
                _ => SettingOrigin::Layout(PresenceLayout::SETTING, layouts.presence.name()),
            };
            (name, value, origin)
        })
        .collect()
}

/// The values of the settings in this file, in a fixed order.
fn setting_values(settings: &KeySettings) -> Vec<(&'static str, SettingValue)> {
    let text = |text: &str| SettingValue::Text(text.to_owned());
    let layouts = &settings.layouts;
    let mut all = vec![
        ("keys.prefix", text(&settings.prefix)),
        (PresenceLayout::SETTING, text(layouts.presence.name())),
        (TypingLayout::SETTING, text(layouts.typing.name())),
        (RecentLayout::SETTING, text(layouts.recent.name())),
    ];
    let time = |name: &TtlName| SettingValue::Duration(settings.ttls.get(*name));
    all.extend(TtlName::ALL.iter().map(|name| (name.name(), time(name))));
    all.push((
        "presence.heartbeat",
        SettingValue::Duration(settings.heartbeat),
    ));
    let external = SettingValue::Boolean(settings.presence_external);
    let registers = SettingValue::Boolean(settings.beat_registers);
    all.push(("presence.external", external));
    all.push(("presence.beat_registers", registers));
    all
}

/// Intervals that no source has set and that are too long for the chosen `ttl.presence`.
pub fn derived_defaults(
    values: &SettingValues,
) -> Vec<(&'static str, SettingValue, SettingOrigin)> {
    let ttl = values.time("ttl.presence");
    let is_set = |name: &str| {
        let origin = values.origin(name);
        !matches!(
            origin,
            SettingOrigin::Default | SettingOrigin::Preset(_) | SettingOrigin::Layout(..)
        )
    };
    let too_long = |name: &&str| !is_set(name) && values.time(name) > ttl / 2;
    // Whole seconds, unless that is none.
    let third = match ttl.as_secs() / 3 {
        0 => ttl / 3,
        seconds => Duration::from_secs(seconds),
    };
    let derived = |name| {
        let origin = SettingOrigin::Derived("ttl.presence");
        (name, SettingValue::Duration(third), origin)
    };
    let intervals = ["presence.heartbeat", "gateway.ping_interval"].into_iter();
    intervals.filter(too_long).map(derived).collect()
}

/// Builds the key settings of the chat crate.
pub fn key_settings(values: &SettingValues) -> KeySettings {
    let preset = preset(values);
    let mut settings = KeySettings::from_layouts(preset, layouts(values, &preset.layouts()));
    settings.prefix = values.text("keys.prefix").to_owned();
    for name in TtlName::ALL {
        settings.ttls.set(*name, values.time(name.name()));
    }
    settings.heartbeat = values.time("presence.heartbeat");
    settings.presence_external = values.flag("presence.external");
    settings.beat_registers = values.flag("presence.beat_registers");
    if let Ok(separator) = values.text("stats.endpoint_separator").parse() {
        settings.endpoint_separator = separator;
    }
    settings.message_channel_override = values.optional("notifications.channel").map(str::to_owned);
    settings
}

// The setting kinds have checked the names below. A setting that has no value yet falls back to the choice of the
// preset.

fn preset(values: &SettingValues) -> Preset {
    values
        .text(Preset::SETTING)
        .parse()
        .unwrap_or(Preset::Parlor)
}

fn layouts(values: &SettingValues, preset: &KeyLayouts) -> KeyLayouts {
    KeyLayouts {
        presence: choice(values, PresenceLayout::SETTING, preset.presence),
        typing: choice(values, TypingLayout::SETTING, preset.typing),
        recent: choice(values, RecentLayout::SETTING, preset.recent),
        session: choice(values, SessionLayout::SETTING, preset.session),
    }
}

fn choice<T: std::str::FromStr>(values: &SettingValues, name: &str, preset: T) -> T {
    match values.origin(name) {
        SettingOrigin::Default | SettingOrigin::Preset(_) => preset,
        _ => values.text(name).parse().unwrap_or(preset),
    }
}
