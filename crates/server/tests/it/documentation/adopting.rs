//! The services of the guide to adopting. They fill the Redis before Parlor starts, run beside it, and find their keys
//! after each way back.

use parlor_testkit::Redis;
use serde_json::{Value, json};

use crate::documents::old_service::OldService;

pub struct OldServices {
    /// A chat service (S2): Ada is connected, and Ben has two unread messages.
    chat: OldService,
    /// A home-assistant backend (S4): `u1` is logged in, and `u2` is blocked.
    backend: OldService,
}

impl OldServices {
    /// Starts the services and lets them work.
    pub async fn start(redis: &Redis) -> Self {
        let (chat, backend) = tokio::join!(
            OldService::start("chat_service.mjs", redis),
            OldService::start("home_assistant.mjs", redis)
        );
        let hello = json!({ "id": "msg1", "content": "Hello", "senderId": "ada" });
        for (function, arguments) in [
            ("addUserSocket", json!(["ada", "ada-socket-1"])),
            ("addUserSocket", json!(["ben", "ben-socket-1"])),
            ("removeUserSocket", json!(["ben", "ben-socket-1"])),
            ("cacheMessage", json!(["conv123", hello])),
            ("countUnread", json!(["ben", "conv123"])),
            ("countUnread", json!(["ben", "conv9"])),
        ] {
            chat.call(function, arguments).await;
        }
        chat.run("SADD conversation:conv123:participants ada ben")
            .await;
        for (function, arguments) in [
            ("logIn", json!(["u1", "iPhone_12_ABC123", "192.168.1.100"])),
            ("logIn", json!(["u2", "web", "192.168.1.101"])),
            ("disable", json!(["u2"])),
            ("fixedWindow", json!(["user:u1", 5, 900_000])),
            ("countRequest", json!(["GET /api/users"])),
            ("setAvailable", json!(["7"])),
        ] {
            backend.call(function, arguments).await;
        }
        // The profile of another application at the name of a session.
        backend
            .run("HSET ha:user:u14 name Eve mail eve@example.com")
            .await;
        Self { chat, backend }
    }

    /// After the last way back, the services go on.
    pub async fn check(&self) {
        let chat = async |function, arguments| self.chat.call(function, arguments).await;
        assert_eq!(chat("isUserOnline", json!(["ada"])).await, true);
        assert_eq!(chat("userOfSocket", json!(["ada-socket-1"])).await, "ada");
        let sockets = self.chat.run("SMEMBERS user:ada:sockets").await;
        assert_eq!(sockets, json!(["ada-socket-1"]));
        assert_eq!(chat("unread", json!(["ben", "conv9"])).await, 1);
        chat("readMessages", json!(["ben", "conv9"])).await;
        let total = self.chat.run("GET unread:ben:total").await;
        assert_eq!(total, "0", "Parlor's count of conv123 is 0");
        chat("removeUserSocket", json!(["ada", "ada-socket-1"])).await;
        assert_eq!(chat("isUserOnline", json!(["ada"])).await, false);

        let backend = async |function, arguments| self.backend.call(function, arguments).await;
        assert_eq!(backend("validate", json!(["u1"])).await, Value::Null);
        assert_eq!(backend("validate", json!(["u2"])).await, "User disabled");
        assert_eq!(backend("validate", json!(["u3"])).await, "User disabled");
        assert_eq!(backend("isFree", json!(["7"])).await, true);
        let profile = self.backend.run("HGETALL ha:user:u14").await;
        assert_eq!(profile, json!(["name", "Eve", "mail", "eve@example.com"]));
        for (line, expected) in [
            ("TTL ha:user:u14", json!(-1)),
            ("GET ha:requests:total", json!("1")),
            ("ZCARD ha:rate_limit:user:u1", json!(2)),
        ] {
            assert_eq!(self.backend.run(line).await, expected, "{line}");
        }
    }
}
