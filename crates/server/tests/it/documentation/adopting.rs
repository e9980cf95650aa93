//! What the services of the guide to adopting have written before Parlor starts, and what they must find after each
//! way back.

use parlor_testkit::Redis;
use redis::aio::MultiplexedConnection;

use crate::tokens::now;

/// A chat service (S2): Ada is connected, and Ben has one unread message.
const CHAT_SERVICE: &str = r#"
SADD user:ada:sockets ada-socket-1
SET socket:ada-socket-1:user ada
SET user:ada:online true
SET lastseen:ada 2026-01-01T10:00:00.000Z
SET user:ben:online false
SET lastseen:ben 2026-01-01T09:00:00.000Z
SADD conversation:conv123:participants ada ben
LPUSH messages:conv123:recent {"id":"msg1","content":"Hello","senderId":"ada","timestamp":"2026-01-01T10:00:00Z"}
EXPIRE messages:conv123:recent 3600
INCR unread:ben:conv123
INCRBY unread:ben:total 1
INCR unread:ben:conv9
INCRBY unread:ben:total 1
"#;

/// A home-assistant backend (S4): `u1` is logged in, `u2` is blocked, and `u14` is the profile of another application.
const HOME_ASSISTANT: &str = r"
HSET ha:user:u1 device_id iPhone_12_ABC123 login_time <now> last_seen <now> active true ip_address 192.168.1.100
EXPIRE ha:user:u1 604800
HSET ha:user:u2 device_id web login_time <now> last_seen <now> status blocked active false
EXPIRE ha:user:u2 604800
HSET ha:user:u14 name Eve mail eve@example.com
ZADD ha:rate_limit:user:u1 <now> <now>
EXPIRE ha:rate_limit:user:u1 900
INCRBY ha:requests:total 41
SET ha:admin:7:presence online EX 1800
";

async fn run<T: redis::FromRedisValue>(old: &mut MultiplexedConnection, line: &str) -> T {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    for word in words {
        command.arg(word);
    }
    command.query_async(old).await.unwrap()
}

/// Writes what the services have written.
pub async fn fill(redis: &Redis) {
    let mut old = redis.connection().await;
    let now = (now() * 1_000).to_string();
    for line in [CHAT_SERVICE, HOME_ASSISTANT]
        .iter()
        .flat_map(|it| it.lines())
    {
        let line = line.replace("<now>", &now);
        if !line.is_empty() {
            let _: redis::Value = run(&mut old, &line).await;
        }
    }
}

/// After the last way back, the services find their keys as they expect them.
pub async fn check_rollback(redis: &Redis) {
    let mut old = redis.connection().await;
    for (line, expected) in [
        ("GET user:ada:online", "true"),
        ("GET socket:ada-socket-1:user", "ada"),
        ("GET unread:ben:conv9", "1"),
        ("HGET ha:user:u1 active", "true"),
        ("HGET ha:user:u2 active", "false"),
        ("HGET ha:user:u14 mail", "eve@example.com"),
        ("GET ha:requests:total", "41"),
        ("GET ha:admin:7:presence", "online"),
    ] {
        let found: Option<String> = run(&mut old, line).await;
        assert_eq!(found.as_deref(), Some(expected), "{line}");
    }
    let sockets: Vec<String> = run(&mut old, "SMEMBERS user:ada:sockets").await;
    assert_eq!(sockets, ["ada-socket-1"]);
    let profile: i64 = run(&mut old, "TTL ha:user:u14").await;
    assert_eq!(profile, -1);
}
