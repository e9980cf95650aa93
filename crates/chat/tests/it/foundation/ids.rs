//! Valid and invalid identifiers.

use std::collections::HashMap;
use std::net::IpAddr;

use parlor_chat::api::error::Error;
use parlor_chat::ids::{
    ConversationId, DeadlineShard, DeviceId, IdKind, InvalidId, KeyIdentifier, LimiterId, NodeId,
    SocketId, UserId, WatchShard,
};
use redis::{FromRedisValue, ToRedisArgs, Value};

type Check = fn(&str) -> Result<(), InvalidId>;

/// The kinds with the common alphabet.
const ORDINARY: &[Check] = &[
    |text| UserId::new(text).map(drop),
    |text| ConversationId::new(text).map(drop),
    |text| SocketId::new(text).map(drop),
    |text| DeviceId::new(text).map(drop),
    |text| IdKind::Admin.validate(text),
    |text| NodeId::new(text).map(drop),
    |text| IdKind::Job.validate(text),
];

#[test]
fn ordinary_identifiers_take_the_documented_alphabet() {
    let longest = "x".repeat(128);
    for check in ORDINARY {
        for text in [
            "a",
            "507f1f77bcf86cd799439011",
            "auth0|5f7c8ec7c33c6c004bbafe82",
            "ann@example.org",
            "A-Z.a_z~0+9=",
            "unread-reminder",
            "parlor",
            "user",
            &longest,
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }
}

#[test]
fn ordinary_identifiers_refuse_everything_that_could_forge_a_key() {
    let too_long = "x".repeat(129);
    for check in ORDINARY {
        for text in [
            "",
            " ",
            "a:b",
            ":",
            "{a}",
            "a{",
            "a}",
            "a b",
            "a\tb",
            "a\nb",
            "a\0",
            "\u{7f}",
            "é",
            "名前",
            "a\u{200b}",
            "a*",
            "a?",
            "[a]",
            "a/b",
            "a\\b",
            "a\"b",
            "a'b",
            "a,b",
            "a%b",
            "a#b",
            "a$b",
            "<a>",
            &too_long,
        ] {
            let error = Error::from(check(text).expect_err(text));
            assert_eq!(error.code().name(), "invalid_id");
        }
    }
}

#[test]
fn words_that_would_make_two_keys_alike_are_reserved() {
    for word in ["status", "online", "sockets"] {
        assert!(UserId::new(word).is_err(), "{word}");
        assert!(IdKind::Admin.validate(word).is_err(), "{word}");
        assert!(ConversationId::new(word).is_ok(), "{word}");
    }
    assert!(ConversationId::new("total").is_err());
    assert!(UserId::new("total").is_ok());
    assert!(UserId::new("Online").is_ok(), "keys are case sensitive");
}

#[test]
fn a_refusal_says_what_is_wrong_and_what_is_allowed() {
    let text = |result: Result<UserId, InvalidId>| result.expect_err("refused").to_string();
    assert_eq!(
        text(UserId::new("a:b")),
        "user id \"a:b\" is not allowed: it has ':' as character 2; \
         use 1 to 128 of A-Z a-z 0-9 . _ - @ + = ~ |, except status, online, sockets"
    );
    assert!(text(UserId::new("")).contains("it is empty"));
    assert!(text(UserId::new("online")).contains("reserved"));
    assert!(text(UserId::new("x".repeat(129))).contains("it has 129 characters"));
    let long = text(UserId::new("é".repeat(5_000)));
    assert!(
        long.len() < 300,
        "the error does not repeat a long text: {long}"
    );
    let hidden = text(UserId::new("a\u{1b}[2Jb"));
    assert!(
        !hidden.contains('\u{1b}'),
        "control characters are escaped: {hidden:?}"
    );
    let total = ConversationId::new("total").expect_err("reserved");
    assert!(total.to_string().starts_with("conversation id"), "{total}");
    assert!(total.to_string().ends_with("except total"), "{total}");
}

#[test]
fn every_kind_accepts_its_own_example() {
    for kind in IdKind::ALL.iter().copied() {
        assert_eq!(kind.validate(kind.example()), Ok(()));
    }
}

#[test]
fn json_is_checked_when_it_is_read() {
    let user: UserId = serde_json::from_str("\"al\\u0069ce\"").expect("valid");
    assert_eq!(user.as_str(), "alice");
    assert_eq!(
        serde_json::to_string(&user).expect("serializes"),
        "\"alice\""
    );
    let error = serde_json::from_str::<UserId>("\"a b\"").expect_err("refused");
    assert!(
        error.to_string().contains("user id \"a b\" is not allowed"),
        "{error}"
    );
    let error = serde_json::from_str::<UserId>("7").expect_err("refused");
    assert!(
        error.to_string().contains("expected a user id as a string"),
        "{error}"
    );
    let map: HashMap<UserId, u8> = serde_json::from_str("{\"alice\":1}").expect("ids are map keys");
    assert_eq!(map.get("alice"), Some(&1));
}

#[test]
fn replies_of_the_store_are_checked_too() {
    let user = UserId::new("alice").expect("valid");
    assert_eq!(user.to_redis_args(), [b"alice".to_vec()]);
    let read = |text: &str| UserId::from_redis_value(Value::BulkString(text.into()));
    assert_eq!(read("alice").expect("valid"), user);
    assert!(read("a b").is_err());
}

#[test]
fn a_socket_can_be_a_device() {
    let socket = SocketId::new("Zk3v_-").expect("valid");
    assert_eq!(DeviceId::from(socket).as_str(), "Zk3v_-");
}

#[test]
fn limiter_ids_take_printable_text_without_blanks_and_braces() {
    let longest = "x".repeat(256);
    for text in [
        "user:123",
        "192.168.1.100",
        "ip/user#7*?[a]",
        "fade:user",
        "a:b:c",
        &longest,
    ] {
        assert_eq!(LimiterId::new(text).expect(text).as_str(), text);
    }
    let too_long = "x".repeat(257);
    for text in [
        "", " ", "a b", "{a}", "a}", "a\t", "a\n", "\u{7f}", "é", &too_long,
    ] {
        assert!(LimiterId::new(text).is_err(), "{text:?}");
    }
}

#[test]
fn one_ipv6_network_is_one_limiter() {
    for text in [
        "2001:db8:1:2::1",
        "2001:0DB8:0001:0002:ffff:ffff:ffff:ffff",
        "2001:db8:1:2:0:0:0:0",
        "2001:db8:1:2::",
    ] {
        assert_eq!(LimiterId::new(text).expect(text).as_str(), "2001:db8:1:2::");
        let address: IpAddr = text.parse().expect("an address");
        assert_eq!(LimiterId::from_ip(address).as_str(), "2001:db8:1:2::");
    }
    assert_eq!(
        LimiterId::new("::ffff:10.0.0.7").expect("valid").as_str(),
        "10.0.0.7"
    );
    assert_eq!(
        LimiterId::new("::FFFF:a00:7").expect("valid").as_str(),
        "10.0.0.7"
    );
    assert_eq!(LimiterId::new("::1").expect("valid").as_str(), "::");
    let v4: IpAddr = "10.0.0.7".parse().expect("an address");
    assert_eq!(LimiterId::from_ip(v4).as_str(), "10.0.0.7");
}

#[test]
fn endpoints_are_a_method_and_a_route_template() {
    for text in [
        "GET /v1/conversations/:id/files/*rest",
        "GET_/v1/users",
        "GET *",
    ] {
        assert_eq!(IdKind::Endpoint.validate(text), Ok(()), "{text}");
    }
    for text in ["get /", " /", "GET ", "GET /a b", "GET /a{b", "GET v1"] {
        assert!(IdKind::Endpoint.validate(text).is_err(), "{text}");
    }
}

#[test]
fn a_search_hash_has_32_hexadecimal_digits() {
    let valid = |text: &str| IdKind::SearchHash.validate(text).is_ok();
    assert!(valid("0fa00102030405060708090a0b0c0dff"));
    assert!(!valid("0fa0"));
    assert!(!valid("0FA00102030405060708090A0B0C0DFF"));
}

#[test]
fn a_user_stays_in_their_shard_for_ever() {
    let shards = |user: &str| {
        let user = UserId::new(user).expect("valid");
        (
            DeadlineShard::for_user(&user).number(),
            WatchShard::for_user(&user).number(),
        )
    };
    assert_eq!(["alice", "bob", "u1", "u2"].map(shards), FIXED_SHARDS);
    let numbers = |text: Vec<String>| text.join(" ");
    assert_eq!(
        numbers(
            DeadlineShard::all()
                .map(|shard| shard.as_str().to_owned())
                .collect()
        ),
        numbers((0..64).map(|n| n.to_string()).collect())
    );
    assert_eq!(
        numbers(
            WatchShard::all()
                .map(|shard| shard.as_str().to_owned())
                .collect()
        ),
        numbers((0..256).map(|n| n.to_string()).collect())
    );
}

/// Fixed values: with another hash, nodes would look for users in the wrong shard during an upgrade.
const FIXED_SHARDS: [(u8, u8); 4] = [(14, 206), (18, 82), (55, 55), (37, 165)];

#[test]
fn shards_are_filled_evenly() {
    let mut counts = [0_u32; 256];
    for n in 0..25_600 {
        let user = UserId::new(format!("user-{n}")).expect("valid");
        counts[usize::from(WatchShard::for_user(&user).number())] += 1;
    }
    let fullest = counts.iter().max().expect("256 shards");
    let emptiest = counts.iter().min().expect("256 shards");
    assert!(
        *fullest < 200 && *emptiest > 40,
        "{emptiest} to {fullest} of 100"
    );
}
