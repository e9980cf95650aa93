//! The names that the key builders return.

use std::collections::BTreeSet;

use parlor_chat::ids::{
    ConversationId, DeadlineShard, LimiterId, NodeId, SocketId, UserId, WatchShard,
};
use parlor_chat::keys::registry;
use parlor_chat::keys::{KeySettings, Keyspace, PresenceLayout, Preset};
use redis::ToRedisArgs;

use crate::keyspace;

struct Ids {
    user: UserId,
    conversation: ConversationId,
    socket: SocketId,
    node: NodeId,
    limiter: LimiterId,
    deadline: DeadlineShard,
    watch: WatchShard,
}

fn ids() -> Ids {
    Ids {
        user: UserId::new("u1").expect("valid"),
        conversation: ConversationId::new("c1").expect("valid"),
        socket: SocketId::new("s1").expect("valid"),
        node: NodeId::new("n1").expect("valid"),
        limiter: LimiterId::new("user:123").expect("valid"),
        deadline: DeadlineShard::all().nth(7).expect("there are 64"),
        watch: WatchShard::all().nth(200).expect("there are 256"),
    }
}

/// All names with their cluster form. Braces mark the hash tag in cluster mode; a standalone store has no braces.
fn all_built_names(keys: &Keyspace) -> Vec<(String, &'static str)> {
    let id = ids();
    vec![
        (
            keys.presence_devices(&id.user).into_string(),
            "presence:user:{u1}",
        ),
        (
            keys.presence_document(&id.user).into_string(),
            "presence:{u1}",
        ),
        (
            keys.presence_online(&id.user).into_string(),
            "user:{u1}:online",
        ),
        (
            keys.presence_sockets(&id.user).into_string(),
            "user:{u1}:sockets",
        ),
        (
            keys.presence_status(&id.user).into_string(),
            "user:status:{u1}",
        ),
        (keys.last_seen(&id.user).into_string(), "lastseen:{u1}"),
        (
            keys.socket_user(&id.socket).into_string(),
            "socket:{s1}:user",
        ),
        (
            keys.user_online_channel().into_string(),
            "events:user.online",
        ),
        (
            keys.user_offline_channel().into_string(),
            "events:user.offline",
        ),
        (
            keys.presence_state(&id.user).into_string(),
            "parlor:presence:{u1}",
        ),
        (
            keys.presence_deadlines(id.deadline).into_string(),
            "parlor:deadlines:{7}",
        ),
        (
            keys.node_presence_users(&id.node).into_string(),
            "parlor:node:{n1}:users",
        ),
        (
            keys.version_floor().into_string(),
            "parlor:presence-version-floor",
        ),
        (
            keys.presence_changes_channel(id.watch).into_string(),
            "parlor:watch:{200}",
        ),
        (
            keys.typing_user(&id.conversation, &id.user).into_string(),
            "typing:{c1}:u1",
        ),
        (
            keys.typing_index(&id.conversation).into_string(),
            "parlor:typing:{c1}",
        ),
        (
            keys.typing_names(&id.conversation).into_string(),
            "parlor:typing:{c1}:names",
        ),
        (
            keys.membership(&id.conversation, &id.user).into_string(),
            "membership:{c1}:u1",
        ),
        (
            keys.membership_epoch(&id.conversation, &id.user)
                .into_string(),
            "parlor:membership:{c1}:u1",
        ),
        (
            keys.participants(&id.conversation).into_string(),
            "conversation:{c1}:participants",
        ),
        (
            keys.participants_version(&id.conversation).into_string(),
            "parlor:participants:{c1}:v",
        ),
        (
            keys.membership_generation(&id.conversation).into_string(),
            "parlor:gen:{c1}",
        ),
        (
            keys.message_created_events().into_string(),
            "events:message.created",
        ),
        (
            keys.apply_watermark(&id.conversation).into_string(),
            "parlor:top:{c1}",
        ),
        (keys.recovery_claim().into_string(), "parlor:catch-up"),
        (
            keys.unread(&id.user, &id.conversation).into_string(),
            "unread:{u1}:c1",
        ),
        (
            keys.unread_total(&id.user).into_string(),
            "unread:{u1}:total",
        ),
        (
            keys.unread_state(&id.user).into_string(),
            "parlor:unread:{u1}",
        ),
        (
            keys.message_counter(&id.user).into_string(),
            "rate:message:{u1}",
        ),
        (
            keys.fixed_window(&id.limiter).into_string(),
            "rate_limit:{user:123}",
        ),
        (
            keys.sliding_window(&id.limiter).into_string(),
            "sliding_limit:{user:123}",
        ),
        (
            keys.gcra_state(&id.limiter).into_string(),
            "gcra:{user:123}",
        ),
        (keys.session(&id.user).into_string(), "user:{u1}"),
        (
            keys.session_check(&id.user).into_string(),
            "parlor:revoked:{u1}",
        ),
        (
            keys.delivered_seq(&id.conversation, &id.user).into_string(),
            "delivery:{c1}:u1",
        ),
        (
            keys.conversation_channel(&id.conversation).into_string(),
            "parlor:bus:conv:{c1}",
        ),
        (
            keys.user_channel(&id.user).into_string(),
            "parlor:bus:user:{u1}",
        ),
        (keys.control_channel().into_string(), "parlor:control"),
        (
            keys.large_conversations_channel().into_string(),
            "parlor:large",
        ),
        (keys.node_lease(&id.node).into_string(), "parlor:node:{n1}"),
        (keys.node_index().into_string(), "parlor:nodes"),
        (keys.epoch().into_string(), "parlor:epoch"),
        (keys.database_id().into_string(), "parlor:database"),
        (keys.schema().into_string(), "parlor:schema"),
    ]
}

#[test]
fn names_are_those_of_the_documents() {
    for (name, tagged) in all_built_names(&keyspace(Preset::Parlor, false)) {
        assert_eq!(name, tagged.replace(['{', '}'], ""));
    }
}

#[test]
fn the_first_identifier_is_the_hash_tag_in_cluster_mode() {
    for (name, tagged) in all_built_names(&keyspace(Preset::Parlor, true)) {
        assert_eq!(name, tagged);
    }
}

#[test]
fn the_prefix_goes_before_every_key_and_channel() {
    for (name, tagged) in all_built_names(&keyspace(Preset::HomeAssistant, true)) {
        assert_eq!(name, format!("ha:{tagged}"));
    }
}

#[test]
fn the_recent_list_follows_its_layout() {
    let id = ids();
    let recent = |preset, cluster| keyspace(preset, cluster).recent_list(&id.conversation);
    assert_eq!(recent(Preset::Parlor, false), "messages:c1:recent");
    assert_eq!(recent(Preset::Parlor, true), "messages:{c1}:recent");
    assert_eq!(
        recent(Preset::HomeAssistant, false),
        "ha:chat:conversation:c1:messages"
    );
    assert_eq!(
        recent(Preset::HomeAssistant, true),
        "ha:chat:conversation:{c1}:messages"
    );
}

#[test]
fn every_declared_key_has_a_builder() {
    let mut reached = BTreeSet::new();
    for layout in PresenceLayout::ALL {
        for preset in [Preset::Parlor, Preset::HomeAssistant] {
            let mut settings = KeySettings::from_preset(preset);
            settings.layouts.presence = *layout;
            let keys = Keyspace::new(settings, false).expect("valid");
            let names = all_built_names(&keys).into_iter().map(|(name, _)| name);
            for name in names.chain([keys.recent_list(&ids().conversation).into_string()]) {
                reached.extend(
                    keys.matching_specs(name.as_bytes())
                        .map(|found| found.spec.pattern.text()),
                );
            }
        }
    }
    let declared: BTreeSet<_> = registry::all_specs()
        .filter(|(group, _)| !registry::is_planned(group))
        .map(|(_, spec)| spec.pattern.text())
        .collect();
    assert_eq!(reached, declared);
}

#[test]
fn a_key_is_built_in_one_allocation_of_the_exact_size() {
    for cluster in [false, true] {
        for (name, _) in all_built_names(&keyspace(Preset::HomeAssistant, cluster)) {
            assert_eq!(name.capacity(), name.len(), "{name}");
        }
    }
}

#[test]
fn keys_are_arguments_of_commands() {
    let key = keyspace(Preset::Parlor, false).session(&ids().user);
    assert_eq!(key.to_redis_args(), [b"user:u1".to_vec()]);
    let command = redis::cmd("HGETALL").arg(&key).get_packed_command();
    assert_eq!(command, b"*2\r\n$7\r\nHGETALL\r\n$7\r\nuser:u1\r\n");
}

/// The hash tag of a name: the text between the first `{` and the next `}`, which the server hashes.
fn hash_tag(name: &str) -> &str {
    let (_, after) = name.split_once('{').expect(name);
    let (tag, _) = after.split_once('}').expect(name);
    tag
}

#[test]
fn the_keys_of_one_script_share_a_cluster_slot() {
    let keys = keyspace(Preset::HomeAssistant, true);
    let id = ids();
    let steps = [
        vec![
            keys.presence_state(&id.user),
            keys.presence_devices(&id.user),
            keys.presence_online(&id.user),
            keys.presence_sockets(&id.user),
            keys.presence_status(&id.user),
            keys.last_seen(&id.user),
        ],
        vec![
            keys.unread(&id.user, &id.conversation),
            keys.unread_total(&id.user),
            keys.unread_state(&id.user),
        ],
        vec![
            keys.session(&id.user),
            keys.session_check(&id.user),
            keys.message_counter(&id.user),
        ],
        vec![
            keys.recent_list(&id.conversation),
            keys.apply_watermark(&id.conversation),
            keys.typing_user(&id.conversation, &id.user),
            keys.typing_index(&id.conversation),
            keys.typing_names(&id.conversation),
        ],
        vec![
            keys.membership(&id.conversation, &id.user),
            keys.membership_epoch(&id.conversation, &id.user),
            keys.participants(&id.conversation),
            keys.participants_version(&id.conversation),
            keys.membership_generation(&id.conversation),
        ],
    ];
    for step in steps {
        let tags: BTreeSet<_> = step.iter().map(|key| hash_tag(key.as_str())).collect();
        assert_eq!(tags.len(), 1, "{step:?}");
    }
    let bus = keys.conversation_channel(&id.conversation);
    assert_eq!(
        hash_tag(bus.as_str()),
        hash_tag(keys.apply_watermark(&id.conversation).as_str())
    );
}
