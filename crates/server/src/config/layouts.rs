//! The settings that the chat crate owns: `keys.*`, `ttl.*`, `presence.heartbeat`, and what preset and layouts make of them.
//!
//! Always true: a preset changes defaults only. A value that any source has set stays as it is.

use std::time::Duration;

use parlor_chat::keys::{
    Layouts, PresenceLayout, Preset, RecentLayout, Settings, TtlName, TypingLayout,
};

use super::duration;
use super::kind::{Kind, Value};
use super::settings::{Setting, setting};
use super::sources::Origin;
use super::values::Values;

/// The shortest TTL that makes sense over a network.
const SHORTEST_MS: u64 = 100;

/// The settings of the sections `keys` and `ttl`, and `presence.heartbeat`.
#[rustfmt::skip]
pub fn settings() -> Vec<Setting> {
    let Layouts { presence, typing, recent } = Preset::Parlor.layouts();
    let mut settings = vec![
        setting(Preset::SETTING, Kind::Choice(Preset::NAMES), Preset::Parlor.name(), "The named set of prefix, layouts and times to start from; every single setting still wins over it."),
        setting("keys.prefix", Kind::Text, Preset::Parlor.prefix(), "What goes before every key and channel.").note("none"),
        setting(PresenceLayout::SETTING, Kind::Choice(PresenceLayout::NAMES), presence.name(), "How presence is written to keys."),
        setting(TypingLayout::SETTING, Kind::Choice(TypingLayout::NAMES), typing.name(), "How typing is written to keys."),
        setting(RecentLayout::SETTING, Kind::Choice(RecentLayout::NAMES), recent.name(), "How recent messages are written to keys."),
    ];
    settings.extend(TtlName::ALL.iter().filter(|name| name.is_ttl_setting()).map(|name| time(*name)));
    let heartbeat = duration::format(Preset::Parlor.layouts().heartbeat());
    settings.push(setting("presence.heartbeat", Kind::Time(1_000), heartbeat, "How often a client says that it is still there."));
    settings
}

/// The setting of a time that keys live by.
pub fn time(name: TtlName) -> Setting {
    let default = Duration::from_secs(name.default_seconds(&Preset::Parlor.layouts()));
    let meaning = name.meaning();
    let doc = format!("{}{}.", meaning[..1].to_uppercase(), &meaning[1..]);
    setting(
        name.name(),
        Kind::Time(SHORTEST_MS),
        duration::format(default),
        doc,
    )
}

/// The defaults that the chosen preset and layouts change, each with what changed it.
pub fn chosen(values: &Values) -> Vec<(&'static str, Value, Origin)> {
    let preset = preset(values);
    let (base, own) = (Settings::default(), Settings::from_preset(preset));
    let layouts = layouts(values, &own.layouts);
    let text = |text: &str| Value::Text(text.to_owned());
    let mut changed = Vec::new();
    let mut add = |name, value: Value, same: bool, origin| {
        if !same {
            changed.push((name, value, origin));
        }
    };
    let by_preset = || Origin::Preset(preset.name());
    let (b, o) = (&base.layouts, &own.layouts);
    add(
        "keys.prefix",
        text(&own.prefix),
        own.prefix == base.prefix,
        by_preset(),
    );
    add(
        PresenceLayout::SETTING,
        text(o.presence.name()),
        o.presence == b.presence,
        by_preset(),
    );
    add(
        TypingLayout::SETTING,
        text(o.typing.name()),
        o.typing == b.typing,
        by_preset(),
    );
    add(
        RecentLayout::SETTING,
        text(o.recent.name()),
        o.recent == b.recent,
        by_preset(),
    );

    let actual = Settings::from_layouts(preset, layouts);
    let origin = |is_own: bool, name: TtlName| match name {
        _ if is_own => by_preset(),
        TtlName::Typing => Origin::Layout(TypingLayout::SETTING, layouts.typing.name()),
        _ => Origin::Layout(PresenceLayout::SETTING, layouts.presence.name()),
    };
    for name in TtlName::ALL {
        let time = actual.ttls.get(*name);
        let is_own = time == own.ttls.get(*name);
        add(
            name.name(),
            Value::Time(time),
            time == base.ttls.get(*name),
            origin(is_own, *name),
        );
    }
    let is_own = actual.heartbeat == own.heartbeat;
    let beat = origin(is_own, TtlName::Presence);
    add(
        "presence.heartbeat",
        Value::Time(actual.heartbeat),
        actual.heartbeat == base.heartbeat,
        beat,
    );
    changed
}

/// The settings of keys as the chat crate takes them.
pub fn typed(values: &Values) -> Settings {
    let preset = preset(values);
    let mut settings = Settings::from_layouts(preset, layouts(values, &preset.layouts()));
    settings.prefix = values.text("keys.prefix").to_owned();
    for name in TtlName::ALL {
        settings.ttls.set(*name, values.time(name.name()));
    }
    settings.heartbeat = values.time("presence.heartbeat");
    if let Ok(separator) = values.text("stats.endpoint_separator").parse() {
        settings.endpoint_separator = separator;
    }
    settings.message_channel = values.optional("notifications.channel").map(str::to_owned);
    settings
}

// The names below were accepted by their kinds; what is not set yet falls back to the preset's choice.

fn preset(values: &Values) -> Preset {
    values
        .text(Preset::SETTING)
        .parse()
        .unwrap_or(Preset::Parlor)
}

fn layouts(values: &Values, preset: &Layouts) -> Layouts {
    Layouts {
        presence: choice(values, PresenceLayout::SETTING, preset.presence),
        typing: choice(values, TypingLayout::SETTING, preset.typing),
        recent: choice(values, RecentLayout::SETTING, preset.recent),
    }
}

fn choice<T: std::str::FromStr>(values: &Values, name: &str, preset: T) -> T {
    match values.origin(name) {
        Origin::Default | Origin::Preset(_) => preset,
        _ => values.text(name).parse().unwrap_or(preset),
    }
}
