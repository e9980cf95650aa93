//! Test of every event, in the order of a short conversation between Alice on a phone and Bob on a phone and a laptop.

use parlor_testkit::eventually;
use serde_json::{Value, json};

use super::deployment::{Ground, StoreView, World};
use super::driver::{Driver, Language};
use crate::http::client::{TestRequest, call};
use crate::tokens::{admin, token_with_claims, user};

struct EventScenario {
    world: World,
    driver: Driver,
    keys: Option<StoreView>,
}

/// Checks keys of the store, unless the store is embedded.
macro_rules! check_store {
    ($scene:expr, $keys:ident => $look:expr) => {
        if let Some($keys) = &mut $scene.keys {
            $look
        }
    };
}

async fn every_event(language: Language, ground: Ground) {
    let world = World::with(ground, &[("PARLOR_TTL__TYPING", "60s")]).await;
    let keys = world.keys().await;
    let driver = Driver::start(language);
    let mut scene = EventScenario {
        world,
        driver,
        keys,
    };
    scene.connecting().await;
    scene.presence().await;
    scene.joining().await;
    scene.typing().await;
    scene.sending().await;
    scene.receipts().await;
    scene.changing().await;
    scene.coming_back().await;
    scene.sessions().await;
    scene.leaving().await;
}

fn named(name: &str, id: &str) -> String {
    token_with_claims(id, &json!({ "name": name }))
}

impl EventScenario {
    async fn http(&self, by: &str, request: TestRequest) -> Value {
        let answer = request.by(by).at(&self.world.nodes[0]).await;
        assert!(answer.status < 300, "{answer:?}");
        answer.json()
    }

    async fn connecting(&mut self) {
        let Self { world, driver, .. } = self;
        let alice = json!({ "token": named("Alice", "alice"), "deviceId": "phone" });
        let sid = driver.open("alice", &world.url(0), alice).await.unwrap();
        for (number, device) in [(1, "phone"), (2, "laptop")] {
            let bob = json!({ "token": user("bob"), "deviceId": device });
            let (name, url) = (format!("bob-{device}"), world.url(number));
            driver.open(&name, &url, bob).await.unwrap();
        }
        check_store!(self, keys => {
            let devices = keys.hash("presence:user:alice").await;
            let device: Value = serde_json::from_str(&devices[sid["sid"].as_str().unwrap()]).unwrap();
            assert!(device["serverId"].is_string() && device["connectedAt"].is_string());
            assert!((1..=60_000).contains(&keys.ttl("presence:user:alice").await));
            assert_eq!(keys.hash("presence:user:bob").await.len(), 2);
            let socket = format!("socket:{}:user", sid["sid"].as_str().unwrap());
            assert_eq!(keys.text(&socket).await.unwrap(), "alice");
            assert_eq!(keys.hash("user:alice").await["status"], "login");
        });
    }

    async fn presence(&mut self) {
        let driver = &self.driver;
        let beat = driver.ok("alice", "heartbeat", json!({})).await;
        assert_eq!(beat["nextInMs"], 20_000);
        let watch = json!({ "userIds": ["alice", "nobody"] });
        let watched = driver.ok("bob-phone", "presence:watch", watch).await;
        assert_eq!(watched["users"][0]["userId"], "alice");
        assert_eq!(watched["users"][0]["status"], "online");
        assert_eq!(watched["users"][1]["status"], "offline");
        let busy = json!({ "status": "busy" });
        driver.ok("alice", "presence:set", busy).await;
        let is_busy = |it: &Value| it["users"][0]["status"] == "busy";
        let changed = driver.next("bob-phone", "presence", is_busy).await;
        assert_eq!(changed["users"][0]["userId"], "alice");
        let nobody = json!({ "userIds": ["alice"] });
        driver.ok("bob-phone", "presence:unwatch", nobody).await;
        driver
            .ok("alice", "presence:set", json!({ "status": "online" }))
            .await;
    }

    async fn joining(&mut self) {
        let create = call("POST", "/v1/conversations");
        let create = create.json(json!({ "id": "lunch", "kind": "group", "members": ["bob"] }));
        self.http(&user("alice"), create).await;
        let driver = &self.driver;
        let lunch = |it: &Value| it["conversationId"] == "lunch";
        for socket in ["bob-phone", "bob-laptop"] {
            driver.next(socket, "conversation:added", lunch).await;
        }
        for socket in ["alice", "bob-phone", "bob-laptop"] {
            let join = json!({ "conversationId": "lunch" });
            let joined = driver.ok(socket, "conversation:join", join).await;
            assert_eq!(joined["missed"], json!([]));
            assert_eq!(
                (&joined["lastSeq"], &joined["unread"]),
                (&json!(0), &json!(0))
            );
            assert_eq!(joined["typing"], json!([]));
            assert!(joined["rev"].is_u64());
        }
    }

    async fn typing(&mut self) {
        let lunch = json!({ "conversationId": "lunch" });
        self.driver.ok("alice", "typing:start", lunch.clone()).await;
        let typing = |typing: bool| move |it: &Value| it["typing"] == typing;
        let event = self.driver.next("bob-laptop", "typing", typing(true)).await;
        let expected = json!({ "conversationId": "lunch", "userId": "alice", "username": "Alice", "typing": true });
        assert_eq!(event, expected);
        self.driver.next("bob-phone", "typing", typing(true)).await;
        check_store!(self, keys => {
            assert!((1..=60_000).contains(&keys.ttl("typing:lunch:alice").await));
        });
        self.driver.ok("alice", "typing:stop", lunch).await;
        self.driver
            .next("bob-laptop", "typing", typing(false))
            .await;
        self.driver.next("bob-phone", "typing", typing(false)).await;
        check_store!(self, keys => assert!(!keys.exists("typing:lunch:alice").await));
    }

    async fn sending(&mut self) {
        let message = json!({
            "conversationId": "lunch", "content": "Noon? ☕", "clientId": "first", "metadata": { "mentions": ["bob"] },
        });
        let sent = self
            .driver
            .ok("alice", "message:send", message.clone())
            .await;
        let sent = &sent["message"];
        assert_eq!(
            (&sent["seq"], &sent["senderId"]),
            (&json!(1), &json!("alice"))
        );
        let again = self.driver.ok("alice", "message:send", message).await;
        assert_eq!(&again["message"], sent);
        for socket in ["alice", "bob-phone", "bob-laptop"] {
            let new = self.driver.next(socket, "message:new", |_| true).await;
            assert_eq!(&new, sent, "{socket}");
        }
        let one = json!({ "conversationId": "lunch", "count": 1, "total": 1 });
        for socket in ["bob-phone", "bob-laptop"] {
            self.driver.next(socket, "unread", |it| *it == one).await;
        }
        check_store!(self, keys => {
            assert_eq!(keys.text("unread:bob:lunch").await.unwrap(), "1");
            assert_eq!(keys.text("unread:bob:total").await.unwrap(), "1");
            assert_eq!(keys.newest("messages:lunch:recent").await["content"], "Noon? ☕");
            assert_eq!(keys.text("rate:message:alice").await.unwrap(), "1");
        });
    }

    async fn receipts(&mut self) {
        let driver = &self.driver;
        let seq = json!({ "conversationId": "lunch", "seq": 1 });
        let lunch = json!({ "conversationId": "lunch" });
        driver
            .ok("bob-phone", "message:delivered", lunch.clone())
            .await;
        let receipt = json!({ "conversationId": "lunch", "userId": "bob", "seq": 1 });
        let delivered = driver.next("alice", "message:delivered", |it| it["userId"] == "bob");
        assert_eq!(delivered.await, receipt);
        let read = driver.ok("bob-phone", "message:read", lunch).await;
        assert_eq!((&read["unread"], &read["total"]), (&json!(0), &json!(0)));
        let read_event = driver.next("alice", "message:read", |it| it["userId"] == "bob");
        assert_eq!(read_event.await, receipt);
        // Reading on the phone resets the unread count on the laptop.
        let none = json!({ "conversationId": "lunch", "count": 0, "total": 0 });
        driver.next("bob-laptop", "unread", |it| *it == none).await;
        check_store!(self, keys => {
            assert_eq!(keys.text("delivery:lunch:bob").await.unwrap(), "1");
            assert!(!keys.exists("unread:bob:lunch").await);
        });
        let driver = &self.driver;
        let unread = driver.ok("bob-laptop", "message:unread", seq.clone()).await;
        assert_eq!(
            (&unread["unread"], &unread["total"]),
            (&json!(1), &json!(1))
        );
        let one = json!({ "conversationId": "lunch", "count": 1, "total": 1 });
        driver.next("bob-phone", "unread", |it| *it == one).await;
        driver.ok("bob-laptop", "message:read", seq).await;
    }

    async fn changing(&mut self) {
        let edit = json!({ "conversationId": "lunch", "seq": 1, "content": "One?" });
        let edited = self.driver.ok("alice", "message:edit", edit).await;
        assert!(edited["message"]["editedAt"].is_string());
        for socket in ["alice", "bob-phone", "bob-laptop"] {
            let event = self.driver.next(socket, "message:edited", |_| true).await;
            assert_eq!(event, edited["message"], "{socket}");
        }
        check_store!(self, keys => {
            assert_eq!(keys.newest("messages:lunch:recent").await["content"], "One?");
        });
        let delete = json!({ "conversationId": "lunch", "seq": 1 });
        let deleted = self.driver.ok("alice", "message:delete", delete).await;
        for socket in ["alice", "bob-phone", "bob-laptop"] {
            let event = self.driver.next(socket, "message:deleted", |_| true).await;
            assert_eq!(event, deleted["message"], "{socket}");
            assert_eq!(event["content"], "");
        }
        let page = json!({ "conversationId": "lunch" });
        let history = self.driver.ok("bob-phone", "history", page).await;
        assert_eq!(history["messages"], json!([deleted["message"]]));
        assert_eq!(history["hasMore"], false);
    }

    async fn coming_back(&mut self) {
        let driver = &self.driver;
        let lunch = json!({ "conversationId": "lunch" });
        driver.ok("bob-laptop", "conversation:leave", lunch).await;
        driver.rest("bob-laptop");
        let send = |content: &str| json!({ "conversationId": "lunch", "content": content });
        let two = driver.ok("alice", "message:send", send("two")).await;
        let three = driver.ok("bob-phone", "message:send", send("three")).await;
        let seq = |seq: u64| move |it: &Value| it["seq"] == seq;
        for number in [2, 3] {
            driver.next("bob-phone", "message:new", seq(number)).await;
            driver.next("alice", "message:new", seq(number)).await;
        }
        // A socket that has not joined the conversation gets the unread count, too.
        let one = |it: &Value| it["count"] == 1;
        driver.next("bob-laptop", "unread", one).await;
        let rest = driver.rest("bob-laptop");
        assert!(!rest.iter().any(|it| it.0 == "message:new"), "{rest:?}");
        let join = json!({ "conversationId": "lunch", "afterSeq": 1 });
        let joined = driver.ok("bob-laptop", "conversation:join", join).await;
        assert_eq!(joined["missed"], json!([two["message"], three["message"]]));
        assert_eq!(joined["lastSeq"], 3);

        // After a lost connection, a handshake on another node sends all missed messages and changes.
        driver.drop_line("bob-laptop").await;
        driver.next("bob-laptop", "disconnect", |_| true).await;
        let edit = json!({ "conversationId": "lunch", "seq": 2, "content": "zwei" });
        driver.ok("alice", "message:edit", edit).await;
        let four = driver.ok("alice", "message:send", send("four")).await;
        let resume = json!({ "lunch": { "seq": 3, "rev": joined["rev"] } });
        let auth = json!({ "token": user("bob"), "deviceId": "laptop", "resume": resume });
        let url = self.world.url(0);
        driver.open("bob-laptop", &url, auth).await.unwrap();
        let new = driver.next("bob-laptop", "message:new", |_| true).await;
        assert_eq!(new, four["message"]);
        let edited = driver.next("bob-laptop", "message:edited", seq(2)).await;
        assert_eq!(edited["content"], "zwei");
        let five = driver.ok("alice", "message:send", send("five")).await;
        let new = driver.next("bob-laptop", "message:new", |_| true).await;
        assert_eq!(new, five["message"]);
    }

    async fn sessions(&mut self) {
        let driver = &self.driver;
        let token = json!({ "token": named("Alice", "alice") });
        driver.ok("alice", "session:refresh", token).await;
        let others = json!({ "token": user("bob") });
        let code = driver.refused("alice", "session:refresh", others).await;
        assert_eq!(code, "forbidden");

        let remove = call("DELETE", "/v1/conversations/lunch/members/bob");
        self.http(&user("alice"), remove).await;
        let driver = &self.driver;
        for socket in ["bob-phone", "bob-laptop"] {
            let lunch = |it: &Value| it["conversationId"] == "lunch";
            driver.next(socket, "conversation:removed", lunch).await;
            driver.rest(socket);
        }
        let secret = json!({ "conversationId": "lunch", "content": "about bob" });
        driver.ok("alice", "message:send", secret).await;
        let join = json!({ "conversationId": "lunch" });
        let code = driver.refused("bob-phone", "conversation:join", join).await;
        assert_eq!(code, "not_a_member");
        let rest = driver.rest("bob-phone");
        assert!(!rest.iter().any(|it| it.0 == "message:new"), "{rest:?}");

        let block = call("PATCH", "/v1/admin/sessions/bob");
        let block = block.json(json!({ "status": "blocked", "reason": "noise" }));
        self.http(&admin("root"), block).await;
        let driver = &self.driver;
        for socket in ["bob-phone", "bob-laptop"] {
            let closed = driver.next(socket, "session:closed", |_| true).await;
            assert_eq!(closed["reason"], "blocked");
            driver.next(socket, "disconnect", |_| true).await;
        }
        check_store!(self, keys => assert_eq!(keys.hash("user:bob").await["status"], "blocked"));
        let again = json!({ "token": user("bob") });
        let url = self.world.url(1);
        let refused = self.driver.open("bob-phone", &url, again);
        assert_eq!(refused.await.unwrap_err()["code"], "session_blocked");
    }

    async fn leaving(&mut self) {
        self.driver.close("alice").await;
        let presence = async || {
            let get = call("GET", "/v1/users/alice/presence");
            self.http(&admin("root"), get).await
        };
        let left = eventually("alice is offline", async || {
            let presence = presence().await;
            let gone = presence["status"] == "offline" && presence["lastSeen"].is_string();
            gone.then_some(presence)
        })
        .await;
        assert_eq!(left["userId"], "alice");
        check_store!(self, keys => {
            assert!(!keys.exists("presence:user:alice").await);
            assert!(keys.exists("lastseen:alice").await);
        });
    }
}

#[tokio::test]
async fn the_node_client_drives_every_event_embedded() {
    every_event(Language::Node, Ground::Embedded).await;
}

#[tokio::test]
async fn the_node_client_drives_every_event_on_three_nodes() {
    every_event(Language::Node, Ground::ThreeNodes).await;
}

#[tokio::test]
async fn the_python_client_drives_every_event_embedded() {
    every_event(Language::Python, Ground::Embedded).await;
}

#[tokio::test]
async fn the_python_client_drives_every_event_on_three_nodes() {
    every_event(Language::Python, Ground::ThreeNodes).await;
}
