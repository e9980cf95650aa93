//! Expected content of the documented keys, written without the code under test.

use std::collections::BTreeMap;
use std::time::Duration;

use parlor_chat::clock::Timestamp;
use parlor_chat::keys::PresenceLayout;
use serde_json::{Value, json};

use super::fixture::PresenceFixture;

/// How much less than expected a TTL of a real server may be on a busy machine.
const TTL_TOLERANCE: Duration = Duration::from_secs(12);

/// Expected documented keys of one user.
#[derive(Debug, Clone)]
pub struct ExpectedKeys {
    who: &'static str,
    /// The explicit status, or `online`.
    status: &'static str,
    devices: BTreeMap<&'static str, ExpectedDevice>,
    /// Sockets that have a key `socket:{socket}:user`, with its TTL.
    sockets: BTreeMap<&'static str, Duration>,
    /// Time until the last device expires.
    left: Duration,
    /// Time since the explicit `offline` was set.
    hidden_for: Duration,
    /// Time of the last connect or heartbeat.
    beaten: Timestamp,
    seen: Option<Timestamp>,
    /// Time that replaces `seen`, as it is stored.
    seen_iso: Option<String>,
}

#[derive(Debug, Clone)]
struct ExpectedDevice {
    /// True if the device has no socket.
    is_api: bool,
    node: &'static str,
    connected: Timestamp,
    refreshed: Timestamp,
    extra: Vec<(&'static str, String)>,
}

type Stored = BTreeMap<String, (&'static str, Value, Option<Duration>)>;

impl ExpectedKeys {
    /// No device, and never seen.
    pub fn offline(who: &'static str, fixture: &PresenceFixture) -> Self {
        Self {
            who,
            status: "online",
            devices: BTreeMap::new(),
            sockets: BTreeMap::new(),
            left: Duration::ZERO,
            hidden_for: Duration::ZERO,
            beaten: fixture.now(),
            seen: None,
            seen_iso: None,
        }
    }

    /// A device with a socket. Its connect counts as activity.
    pub fn device(self, id: &'static str, node: &'static str, connected: Timestamp) -> Self {
        self.entry(id, false, node, connected)
    }

    /// A device without a socket.
    pub fn api_device(self, id: &'static str, node: &'static str, connected: Timestamp) -> Self {
        self.entry(id, true, node, connected)
    }

    fn entry(
        mut self,
        id: &'static str,
        is_api: bool,
        node: &'static str,
        connected: Timestamp,
    ) -> Self {
        self.seen = self.seen.max(Some(connected));
        let entry = ExpectedDevice {
            is_api,
            node,
            connected,
            refreshed: connected,
            extra: Vec::new(),
        };
        self.devices.insert(id, entry);
        self
    }

    pub fn refreshed_at(mut self, id: &'static str, at: Timestamp) -> Self {
        self.devices.get_mut(id).unwrap().refreshed = at;
        let is_due = |seen: Timestamp| at.as_millis() >= seen.as_millis() + 60_000;
        if self.seen.is_none_or(is_due) {
            self.seen = Some(at);
        }
        self
    }

    pub fn with_field(mut self, id: &'static str, name: &'static str, value: &str) -> Self {
        let entry = self.devices.get_mut(id).unwrap();
        entry.extra.push((name, value.to_owned()));
        self
    }

    pub fn socket(mut self, id: &'static str, left: Duration) -> Self {
        self.sockets.insert(id, left);
        self
    }

    pub fn left(mut self, left: Duration) -> Self {
        self.left = left;
        self
    }

    pub fn last_heartbeat(mut self, at: Timestamp) -> Self {
        self.beaten = at;
        self
    }

    pub fn seen(mut self, at: Timestamp) -> Self {
        self.seen = Some(at);
        self
    }

    pub fn seen_at(mut self, iso: String) -> Self {
        self.seen_iso = Some(iso);
        self
    }

    pub fn hidden_for(mut self, since: Duration) -> Self {
        self.status = "offline";
        self.hidden_for = since;
        self
    }

    /// Asserts that the store has exactly these documented keys, and that all keys fit their declarations.
    pub async fn assert_only_these(self, fixture: &PresenceFixture) {
        assert_store_holds_exactly(fixture, &[self]).await;
    }

    fn write(&self, fixture: &PresenceFixture, into: &mut Stored) {
        let name = |pattern: &str, id: &str| {
            let id = if fixture.keys.cluster() {
                format!("{{{id}}}")
            } else {
                id.to_owned()
            };
            pattern.replace("<>", &id)
        };
        let here = !self.devices.is_empty();
        let visible = here && self.status != "offline";
        let api_socket = |id: &str| format!("{id}~{}", self.who);
        let members = self.devices.iter().map(|(id, it)| match it.is_api {
            true => api_socket(id),
            false => (*id).to_owned(),
        });
        let mut members: Vec<String> = members.collect();
        members.sort();
        let mut put = |pattern, kind, value, ttl| {
            into.insert(name(pattern, self.who), (kind, value, ttl));
        };
        match fixture.layout {
            PresenceLayout::Devices if visible => {
                put("presence:user:<>", "hash", self.entries(), Some(self.left));
            }
            PresenceLayout::Document if visible => {
                let document = json!({"userId": self.who, "status": "online", "lastSeen": self.beaten.as_millis()});
                put("presence:<>", "string", document, Some(self.left));
            }
            PresenceLayout::Sockets => {
                put("user:<>:online", "string", json!(visible), None);
                if here {
                    put("user:<>:sockets", "set", json!(members), None);
                }
            }
            PresenceLayout::Status if visible => {
                put("user:status:<>", "string", json!("online"), Some(self.left));
            }
            PresenceLayout::Status if self.status == "offline" => {
                let left = Duration::from_secs(86_400) - self.hidden_for;
                put("user:status:<>", "string", json!("offline"), Some(left));
            }
            _ => {}
        }
        let seen = self.seen.map(Timestamp::to_iso8601);
        if let Some(seen) = self.seen_iso.clone().or(seen) {
            put("lastseen:<>", "string", json!(seen), None);
        }
        if fixture.layout == PresenceLayout::Sockets {
            for (id, _) in self.devices.iter().filter(|(_, it)| it.is_api) {
                let name = name("socket:<>:user", &api_socket(id));
                into.insert(name, ("string", json!(self.who), Some(self.left)));
            }
        }
        for (socket, left) in &self.sockets {
            into.insert(
                name("socket:<>:user", socket),
                ("string", json!(self.who), Some(*left)),
            );
        }
    }

    fn entries(&self) -> Value {
        let entries = self.devices.iter().map(|(id, it)| {
            let mut entry = json!({
                "serverId": it.node,
                "connectedAt": it.connected.to_iso8601(),
                "refreshedAt": it.refreshed.to_iso8601(),
            });
            for (name, value) in &it.extra {
                entry[*name] = json!(value);
            }
            ((*id).to_owned(), entry)
        });
        Value::Object(entries.collect())
    }
}

/// Asserts that the store has exactly the documented keys of these users, and that all keys fit their declarations.
pub async fn assert_store_holds_exactly(fixture: &PresenceFixture, shown: &[ExpectedKeys]) {
    let mut expected = Stored::new();
    for shown in shown {
        shown.write(fixture, &mut expected);
    }
    let mut found = BTreeMap::new();
    for name in every_key(fixture).await {
        let left = time_left(fixture, &name).await;
        let declared: Vec<_> = fixture.keys.matching_specs(name.as_bytes()).collect();
        assert_eq!(declared.len(), 1, "{name} is not declared");
        let spec = declared[0].spec;
        assert!(
            spec.allows_ttl(fixture.keys.settings(), left),
            "{name} has the TTL {left:?}"
        );
        if !spec.internal {
            let value = value(fixture, &name).await;
            found.insert(name, (value, left));
        }
    }
    let names = |map: &mut dyn Iterator<Item = &String>| map.cloned().collect::<Vec<_>>();
    assert_eq!(names(&mut found.keys()), names(&mut expected.keys()));
    for (name, (kind, value, ttl)) in &expected {
        let (stored, left) = &found[name];
        assert_eq!(*stored, (*kind, value.clone()), "{name}");
        match (ttl, left) {
            (None, None) => {}
            (Some(ttl), Some(left)) => {
                assert!(
                    left <= ttl && *left + TTL_TOLERANCE >= *ttl,
                    "{name} has the TTL {left:?}, not {ttl:?}"
                );
            }
            _ => panic!("{name} has the TTL {left:?}, not {ttl:?}"),
        }
    }
}

async fn every_key(fixture: &PresenceFixture) -> Vec<String> {
    let mut scan = fixture.store.scan("*", 1_000);
    let mut names = Vec::new();
    while let Some(page) = scan.next().await.unwrap() {
        names.extend(
            page.iter()
                .map(|it| String::from_utf8(it.to_vec()).unwrap()),
        );
    }
    names.sort();
    names.dedup();
    names
}

async fn ask<T: redis::FromRedisValue>(
    fixture: &PresenceFixture,
    command: &str,
    args: &[&str],
) -> T {
    let mut cmd = redis::cmd(command);
    cmd.arg(args);
    cmd.query_async(&mut fixture.store.clone()).await.unwrap()
}

async fn time_left(fixture: &PresenceFixture, name: &str) -> Option<Duration> {
    let left: i64 = ask(fixture, "PTTL", &[name]).await;
    u64::try_from(left).ok().map(Duration::from_millis)
}

/// Reads type and value of a key. A string that contains JSON is parsed.
async fn value(fixture: &PresenceFixture, name: &str) -> (&'static str, Value) {
    let read = |text: String| serde_json::from_str(&text).unwrap_or(Value::String(text));
    let kind: String = ask(fixture, "TYPE", &[name]).await;
    match kind.as_str() {
        "hash" => {
            let fields: BTreeMap<String, String> = ask(fixture, "HGETALL", &[name]).await;
            let fields = fields.into_iter().map(|(field, text)| (field, read(text)));
            ("hash", Value::Object(fields.collect()))
        }
        "set" => {
            let mut members: Vec<String> = ask(fixture, "SMEMBERS", &[name]).await;
            members.sort();
            ("set", json!(members))
        }
        "string" => ("string", read(ask(fixture, "GET", &[name]).await)),
        other => panic!("{name} has the type {other}"),
    }
}
