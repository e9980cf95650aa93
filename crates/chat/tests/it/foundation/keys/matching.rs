//! Every key belongs to exactly one declaration.

use std::collections::BTreeSet;

use parlor_chat::ids::{ConversationId, IdKind, UserId};
use parlor_chat::keys::registry;
use parlor_chat::keys::{EndpointSeparator, KeySettings, KeySpec, Keyspace, PatternPart, Preset};

use crate::{every_keyspace, keyspace};

/// The only declaration that a name belongs to.
fn only_match(keys: &Keyspace, name: &str) -> &'static KeySpec {
    let found: Vec<_> = keys.matching_specs(name.as_bytes()).collect();
    let [one] = found.as_slice() else {
        let patterns: Vec<_> = found
            .iter()
            .map(|found| found.spec.pattern.text())
            .collect();
        unreachable!("{name} is {patterns:?} with {:?}", keys.settings());
    };
    one.spec
}

#[test]
fn an_example_of_every_key_belongs_to_its_declaration_alone() {
    for keys in every_keyspace() {
        for (_, spec) in registry::active_specs(&keys.settings().layouts) {
            assert_eq!(only_match(&keys, &keys.example(spec)), spec);
        }
    }
}

/// Puts identifiers into a pattern, independently of the tested code.
fn spell(keys: &Keyspace, spec: &KeySpec, ids: &[&str]) -> String {
    let mut ids = ids.iter();
    let mut tagged = false;
    let mut out = keys.settings().prefix.clone();
    for part in spec.pattern.parts() {
        let text = match part {
            PatternPart::Literal(text) => {
                out.push_str(text);
                continue;
            }
            PatternPart::FixedHashTag(text) => text,
            PatternPart::Id(_) => ids.next().expect("enough identifiers"),
        };
        if keys.cluster() && !tagged {
            out += &format!("{{{text}}}");
        } else {
            out += text;
        }
        tagged = true;
    }
    out
}

/// The words of all patterns, in all layouts, that start like this one: the identifiers that are most likely to be
/// confused with another key.
fn words(spec: &KeySpec) -> BTreeSet<&'static str> {
    let start = |spec: &KeySpec| spec.pattern.text().split(':').next();
    registry::all_specs()
        .filter(|(_, other)| start(other) == start(spec))
        .flat_map(|(_, other)| other.pattern.text().split([':', '{', '}', ' ']))
        .filter(|word| !word.is_empty())
        .chain(["user:status", "message:x", "GET /:id:x", "0", "63", "255"])
        .collect()
}

/// All combinations of one word for each kind.
fn choices(kinds: &[IdKind], words: &BTreeSet<&'static str>) -> Vec<Vec<&'static str>> {
    let mut choices = vec![Vec::new()];
    for kind in kinds {
        let fitting = words.iter().filter(|word| kind.validate(word).is_ok());
        choices = fitting
            .flat_map(|word| {
                choices
                    .iter()
                    .map(move |before| [before.as_slice(), &[*word]].concat())
            })
            .collect();
    }
    choices
}

#[test]
fn identifiers_that_look_like_parts_of_keys_confuse_nothing() {
    for keys in every_keyspace() {
        for (_, spec) in registry::active_specs(&keys.settings().layouts) {
            let kinds: Vec<IdKind> = spec.pattern.ids().collect();
            for ids in choices(&kinds, &words(spec)) {
                assert_eq!(only_match(&keys, &spell(&keys, spec, &ids)), spec);
            }
        }
    }
}

/// A store may still contain keys of an earlier layout.
#[test]
fn a_key_of_one_layout_is_nothing_else_in_another() {
    for cluster in [false, true] {
        let layouts = [
            Preset::Parlor,
            Preset::ChatApp,
            Preset::ChatService,
            Preset::UserStatus,
        ];
        let all = layouts.map(|preset| keyspace(preset, cluster));
        for (_, spec) in registry::all_specs() {
            let kinds: Vec<IdKind> = spec.pattern.ids().collect();
            for ids in choices(&kinds, &words(spec)) {
                let name = spell(&all[0], spec, &ids);
                for found in all
                    .iter()
                    .flat_map(|keys| keys.matching_specs(name.as_bytes()))
                {
                    assert_eq!(found.spec.pattern.text(), spec.pattern.text(), "{name}");
                }
            }
        }
    }
}

#[test]
fn a_match_tells_the_identifiers() {
    for cluster in [false, true] {
        let keys = keyspace(Preset::HomeAssistant, cluster);
        let user = UserId::new("auth0|7").expect("valid");
        let conversation = ConversationId::new("c1").expect("valid");
        let name = keys.unread(&user, &conversation).into_string();
        let found = keys.match_key(name.as_bytes()).expect("declared");
        assert_eq!(found.group.name, "unread");
        assert_eq!(found.spec.pattern.text(), "unread:{user}:{conv}");
        assert_eq!(
            found.ids,
            [(IdKind::User, "auth0|7"), (IdKind::Conversation, "c1")]
        );
    }
}

#[test]
fn what_nobody_declared_is_not_recognised() {
    let keys = keyspace(Preset::Parlor, false);
    for name in [
        "",
        "foo",
        "presence:",
        "presence:alice",
        "presence:user:",
        "presence:user:a:b",
        "presence:user:{alice}",
        "user:status:alice",
        "user:alice:online",
        "user:online",
        "user:a b",
        "typing:c1",
        "typing:c1:u1:x",
        "unread:alice",
        "unread:alice:c1:x",
        "ha:user:alice",
        "parlor",
        "parlor:",
        "parlor:foo",
        "parlor:deadlines:64",
        "parlor:deadlines:07",
        "parlor:deadlines:-1",
        "parlor:deadlines:+1",
        "parlor:watch:256",
        "parlor:{stats}:nodes",
        "search:xyz",
        "rate_limit:",
        "rate_limit:{a}",
        "requests:endpoint:GET",
        "requests:endpoint:GET_/v1",
        "requests:endpoint:GET /v1 x",
        "chat:conversation:c1:messages",
        "Presence:user:alice",
    ] {
        assert_eq!(keys.matching_specs(name.as_bytes()).count(), 0, "{name}");
    }
    assert!(keys.match_key(b"user:\xff\xfe").is_none(), "not UTF-8");
    assert!(keys.match_key(b"presence:user:\0").is_none());
}

#[test]
fn cluster_mode_recognises_only_tagged_names() {
    let keys = keyspace(Preset::Parlor, true);
    for name in [
        "unread:{u1}:c1",
        "presence:user:{u1}",
        "typing:{c1}:u2",
        "parlor:{stats}:nodes",
        "geo:users",
        "rate_limit:{user:1}",
    ] {
        only_match(&keys, name);
    }
    for name in [
        "unread:u1:c1",
        "unread:u1:{c1}",
        "unread:{u1}:{c1}",
        "unread:{u1:c1",
        "presence:user:{u1",
        "rate_limit:{user:1",
        "parlor:{stats:nodes",
        "unread:{u1}c1",
        "parlor:stats:nodes",
        "{geo}:users",
        "unread:{}:c1",
        "rate_limit:{a}b",
    ] {
        assert_eq!(keys.matching_specs(name.as_bytes()).count(), 0, "{name}");
    }
}

#[test]
fn keys_and_channels_are_told_apart() {
    let keys = keyspace(Preset::HomeAssistant, false);
    assert!(only_match(&keys, "ha:events:user.online").kind.is_channel());
    assert!(keys.match_key(b"ha:events:user.online").is_none());
    assert!(keys.match_key(b"ha:user:alice").is_some());
    assert!(!only_match(&keys, "ha:user:alice").kind.is_channel());
}

#[test]
fn another_channel_for_messages_is_used_as_it_is() {
    let mut settings = KeySettings::from_preset(Preset::HomeAssistant);
    settings.message_channel_override = Some("notifications".to_owned());
    let keys = Keyspace::new(settings, true).expect("valid");
    assert_eq!(keys.message_created_events(), "notifications");
    let spec = only_match(&keys, "notifications");
    assert_eq!(spec.pattern.text(), "events:message.created");
    assert_eq!(keys.matching_specs(b"ha:events:message.created").count(), 0);
    assert_eq!(keys.user_online_channel(), "ha:events:user.online");
}

#[test]
fn the_separator_of_endpoints_is_part_of_the_name() {
    let settings = KeySettings {
        endpoint_separator: EndpointSeparator::Underscore,
        ..KeySettings::default()
    };
    let keys = Keyspace::new(settings, false).expect("valid");
    only_match(&keys, "requests:endpoint:GET_/v1/conversations/:id");
    assert!(
        keys.match_key(b"requests:endpoint:GET /v1/conversations/:id")
            .is_none()
    );
}
