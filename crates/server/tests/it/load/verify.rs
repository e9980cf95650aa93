//! Checks of rows, keys and responses after a load.

use std::collections::BTreeMap;
use std::time::Duration;

use parlor_testkit::eventually_within;
use serde_json::Value;

use super::clients::AcknowledgedMessage;
use super::deployment::{CONVERSATIONS, USERS, World, conversation, user};
use super::retrying_client::Request;

/// Timeout until the keys match the rows.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum length of a recent list.
const RECENT_LIST_LEN: u64 = 100;

const MESSAGES: &str = "
    SELECT conversation_id || '|' || seq || '|' || id || '|' || sender_id || '|' || client_id
    FROM messages ORDER BY conversation_id, seq";
const CONVERSATION_ROWS: &str =
    "SELECT id || '|' || last_seq || '|' || member_count FROM conversations ORDER BY id";
const UNREAD: &str = "
    SELECT user_id || '|' || conversation_id || '|' || (
        SELECT COUNT(*) FROM messages
        WHERE messages.conversation_id = members.conversation_id
            AND seq > badge_seq AND sender_id <> user_id)
    FROM members ORDER BY user_id, conversation_id";

/// Unread messages by user and conversation, zeros included.
type Unread = BTreeMap<String, BTreeMap<String, u64>>;

/// Checks that the rows are what was acknowledged, and that keys and responses match the rows.
pub async fn assert_right(world: &mut World, acknowledged: &[AcknowledgedMessage]) {
    assert_messages(world, acknowledged).await;
    assert_keys(world).await;
    for number in 0..world.nodes.len() {
        if world.nodes[number].is_running() {
            assert_answers(world, number, acknowledged).await;
        }
    }
}

/// Checks that the rows contain every acknowledged message once and no other message, and that `seq` has no gaps.
async fn assert_messages(world: &World, acknowledged: &[AcknowledgedMessage]) {
    let read = |row: &String| {
        let mut fields = row.split('|').map(str::to_owned);
        let mut next = || fields.next().unwrap();
        AcknowledgedMessage {
            conversation: next(),
            seq: next().parse().unwrap(),
            id: next(),
            sender: next(),
            client_id: next(),
        }
    };
    let rows: Vec<AcknowledgedMessage> = world.rows(MESSAGES).await.iter().map(read).collect();
    for (nth, row) in rows.iter().enumerate() {
        let before = nth.checked_sub(1).map(|nth| &rows[nth]);
        let before = before.filter(|before| before.conversation == row.conversation);
        let expected = before.map_or(1, |before| before.seq + 1);
        assert_eq!(row.seq, expected, "a gap before {row:?}");
    }
    let differs = |(row, known): &(_, _)| row != known;
    let first = rows.iter().zip(acknowledged).find(differs);
    assert_eq!(
        first, None,
        "left: the row, right: the acknowledged message"
    );
    assert_eq!(rows.len(), acknowledged.len());
    let lasts = last_seqs(acknowledged);
    for head in world.rows(CONVERSATION_ROWS).await {
        let mut fields = head.split('|');
        let last = lasts.get(fields.next().unwrap()).copied().unwrap_or(0);
        assert_eq!(fields.next().unwrap(), last.to_string(), "{head}");
    }
}

fn last_seqs(acknowledged: &[AcknowledgedMessage]) -> BTreeMap<&str, u64> {
    let pairs = acknowledged.iter();
    pairs.map(|it| (&it.conversation[..], it.seq)).collect()
}

/// Waits until the keys match the rows without any request. The node of an embedded store is stopped for the check.
async fn assert_keys(world: &mut World) {
    let what = "the keys match the rows";
    if world.shared.is_some() {
        let shared = &*world;
        eventually_within(TEST_TIMEOUT, what, async || differing(shared).await).await;
    } else {
        eventually_within(TEST_TIMEOUT, what, async || {
            if !world.nodes[0].is_running() {
                world.restart_node(0).await;
            }
            assert!(world.nodes[0].terminate_and_wait().await.success());
            differing(world).await
        })
        .await;
    }
    let repair = world.repair().await;
    assert_eq!(repair.exit_code, 0, "{repair:?}");
    assert_eq!(repair.json()["users"], USERS, "{repair:?}");
    if world.shared.is_none() {
        world.restart_node(0).await;
    }
}

/// Compares the keys with the rows; the error lists the differences.
async fn differing(world: &World) -> Result<(), String> {
    let mut wrong = Vec::new();
    let unread = unread(world).await;
    let mut pipe = redis::pipe();
    for (user, places) in &unread {
        pipe.cmd("GET").arg(format!("unread:{user}:total"));
        for place in places.keys() {
            pipe.cmd("GET").arg(format!("unread:{user}:{place}"));
        }
    }
    let found: Vec<Option<u64>> = world.store(&pipe).await;
    let mut found = found.into_iter().map(Option::unwrap_or_default);
    for (user, places) in &unread {
        let mut check = |what: &str, expected: u64| {
            let shown = found.next().unwrap();
            if shown != expected {
                wrong.push(format!("{user} {what}: {shown} for {expected}"));
            }
        };
        check("total", places.values().sum());
        for (place, count) in places {
            check(place, *count);
        }
    }
    wrong.extend(wrong_recent_lists(world).await);
    match wrong.len() {
        0 => Ok(()),
        count => Err(format!("{count} wrong: {:?}", &wrong[..count.min(10)])),
    }
}

/// Recent lists that do not contain the newest messages. A missing list is correct.
async fn wrong_recent_lists(world: &World) -> Vec<String> {
    let mut pipe = redis::pipe();
    for number in 0..CONVERSATIONS {
        let key = format!("messages:{}:recent", conversation(number));
        pipe.cmd("LRANGE").arg(key).arg(0).arg(-1);
    }
    let lists: Vec<Vec<String>> = world.store(&pipe).await;
    let heads = world.rows(CONVERSATION_ROWS).await;
    let mut wrong = Vec::new();
    for (head, list) in heads.iter().zip(lists) {
        let last: u64 = head.split('|').nth(1).unwrap().parse().unwrap();
        let seq = |entry: &String| serde_json::from_str::<Value>(entry).unwrap()["seq"].as_u64();
        let shown: Vec<u64> = list.iter().filter_map(seq).collect();
        let newest = (1..=last).rev().take(RECENT_LIST_LEN as usize);
        if !shown.is_empty() && !newest.eq(shown.iter().copied()) {
            wrong.push(format!("the list of {head}: {shown:?}"));
        }
    }
    wrong
}

async fn unread(world: &World) -> Unread {
    let mut unread = Unread::new();
    for row in world.rows(UNREAD).await {
        let mut fields = row.split('|').map(str::to_owned);
        let mut next = || fields.next().unwrap();
        let (user, place) = (next(), next());
        let places = unread.entry(user).or_default();
        places.insert(place, next().parse().unwrap());
    }
    unread
}

/// Checks that the responses of a node match the rows.
async fn assert_answers(world: &World, node: usize, acknowledged: &[AcknowledgedMessage]) {
    let address = &world.addresses()[node..=node];
    let mut wire = super::retrying_client::Wire::new(address, 0, &crate::tokens::service());
    let unread = unread(world).await;
    for number in 0..USERS {
        let user = user(number);
        let answer = wire.ask(&Request::get(&user, "/v1/unread")).await;
        let answer = answer.unwrap().ok();
        let expected = &unread[&user];
        let total: u64 = expected.values().sum();
        assert_eq!(answer["total"], total, "{user}: {answer}");
        let mut counts: BTreeMap<String, u64> = expected.keys().map(|it| (it.clone(), 0)).collect();
        for count in answer["conversations"].as_array().unwrap() {
            let place = count["conversationId"].as_str().unwrap().to_owned();
            counts.insert(place, count["count"].as_u64().unwrap());
        }
        assert_eq!(&counts, expected, "{user}");
    }
    let lasts = last_seqs(acknowledged);
    for (place, last) in lasts {
        let member = acknowledged.iter().find(|it| it.conversation == place);
        let path = format!("/v1/conversations/{place}/messages?limit=100");
        let page = wire
            .ask(&Request::get(&member.unwrap().sender, &path))
            .await;
        let page = page.unwrap().ok();
        let seqs = page["messages"].as_array().unwrap().iter();
        let seqs = seqs.map(|it| it["seq"].as_u64().unwrap());
        let expected = last.saturating_sub(RECENT_LIST_LEN) + 1..=last;
        assert!(seqs.eq(expected), "{place} up to {last}: {page}");
    }
}
