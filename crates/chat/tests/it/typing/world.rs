//! A store with nodes on it.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use parlor_chat::context::{Context, Moment};
use parlor_chat::ids::{ConversationId, UserId};
use parlor_chat::keys::{Channel, Keyspace, Preset, Settings, TtlName, TypingLayout};
use parlor_chat::typing::{Typing, TypingListener};
use parlor_store::{Event, Subscription};
use parlor_testkit::Cluster;

use crate::ground::Ground;

/// Users who type to show how far a listener has come.
const MARKER: &str = "marker-";

pub struct World {
    ground: Ground,
    pub keys: Keyspace,
    pub layout: TypingLayout,
    /// The nodes that run.
    pub nodes: Vec<Typing>,
    frames: Subscription,
    markers: u32,
}

impl World {
    pub async fn embedded(layout: TypingLayout) -> Self {
        Self::on(Ground::embedded().await, layout).await
    }

    pub async fn redis(layout: TypingLayout) -> Self {
        Self::on(Ground::redis().await, layout).await
    }

    pub async fn valkey(layout: TypingLayout) -> Self {
        Self::on(Ground::valkey().await, layout).await
    }

    pub async fn cluster(cluster: &mut Cluster, layout: TypingLayout) -> Self {
        Self::on(Ground::cluster(cluster).await, layout).await
    }

    pub async fn impatient(layout: TypingLayout) -> Self {
        Self::on(Ground::impatient().await, layout).await
    }

    async fn on(ground: Ground, layout: TypingLayout) -> Self {
        let mut settings = settings(layout);
        ground.lengthen_typing(&mut settings);
        let keys = ground.keys(settings);
        let channel = keys.conversation_bus(&conversation("c1"));
        let frames = ground.store.bus().subscribe_sharded(channel.as_str());
        let mut world = Self {
            frames: frames.await.unwrap(),
            keys,
            layout,
            nodes: Vec::new(),
            markers: 0,
            ground,
        };
        world.nodes.push(world.start());
        world.nodes.push(world.start());
        world
    }

    /// Another node.
    pub fn start(&self) -> Typing {
        Typing::new(Context::new(self.store.clone(), self.keys.clone()))
    }

    pub fn ttl(&self) -> Duration {
        self.keys.ttl(TtlName::Typing)
    }

    /// How much older than the clock says the keys of the store may be.
    pub fn slack(&self) -> Duration {
        if self.primaries.is_empty() {
            Duration::ZERO
        } else {
            self.ttl() / 5
        }
    }

    pub fn channel(&self, conv: &str) -> Channel {
        self.keys.conversation_bus(&conversation(conv))
    }

    pub async fn publish(&self, conv: &str, frame: &[u8]) {
        let bus = self.store.bus();
        let channel = self.channel(conv);
        bus.publish_sharded(channel.as_str(), frame).await.unwrap();
    }

    /// Who listens to the channel of a conversation.
    pub async fn subscribers(&self, conv: &str) -> u64 {
        let mut asked = redis::cmd("PUBSUB");
        asked.arg("NUMSUB").arg(self.channel(conv));
        let (_, count): (String, u64) = asked.query_async(&mut self.store.clone()).await.unwrap();
        count
    }

    /// What was published in `c1` since the last call: `alice types`, `alice stopped`.
    pub async fn frames(&mut self) -> Vec<String> {
        self.publish("c1", &[1, 255]).await;
        let mut frames = Vec::new();
        loop {
            let Some(Event::Message { payload, .. }) = soon(self.frames.next()).await else {
                panic!("the subscription ended or missed something");
            };
            match &payload[..] {
                [1, 255] => return frames,
                [1, 1, body @ ..] => frames.extend(self.read(body)),
                other => panic!("{other:?} is no frame"),
            }
        }
    }

    fn read(&self, body: &[u8]) -> Option<String> {
        let until = u64::from_be_bytes(body[..8].try_into().unwrap());
        let id = &body[9..9 + usize::from(body[8])];
        let id = String::from_utf8(id.to_vec()).unwrap();
        if id.starts_with(MARKER) {
            return None;
        }
        if until == 0 {
            return Some(format!("{id} stopped"));
        }
        let end = self.now().plus(self.ttl());
        assert!(Moment(until) <= end && until > 0, "{id} {until}");
        Some(format!("{id} types"))
    }

    /// What a listener was told since the last call, up to what was published until now in a conversation it listens to:
    /// where, who, and whether they type.
    pub async fn changes(
        &mut self,
        listener: &mut TypingListener,
        conv: &str,
    ) -> Vec<((String, String), bool)> {
        self.markers += 1;
        let marker = format!("{MARKER}{}", self.markers);
        let mut told = Vec::new();
        for until in [self.now().ms() + 1, 0] {
            self.publish(conv, &frame(until, &marker)).await;
            loop {
                let change = soon(listener.next()).await;
                let who = change.user_id.to_string();
                if who == marker && change.typing == (until != 0) {
                    break;
                }
                told.push(((change.conversation_id.to_string(), who), change.typing));
            }
        }
        told.retain(|((_, who), _)| !who.starts_with(MARKER));
        told
    }

    /// [`changes`](Self::changes) in words: `alice types`, `alice stopped`.
    pub async fn told(&mut self, listener: &mut TypingListener, conv: &str) -> Vec<String> {
        let changes = self.changes(listener, conv).await.into_iter();
        let words = changes.map(|((_, who), typing)| {
            let what = if typing { "types" } else { "stopped" };
            format!("{who} {what}")
        });
        words.collect()
    }
}

impl Deref for World {
    type Target = Ground;

    fn deref(&self) -> &Ground {
        &self.ground
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Ground {
        &mut self.ground
    }
}

/// What comes sooner or later.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    let patience = Duration::from_secs(60);
    tokio::time::timeout(patience, what).await.unwrap()
}

/// The default settings with a layout.
pub fn settings(layout: TypingLayout) -> Settings {
    let mut layouts = Preset::Parlor.layouts();
    layouts.typing = layout;
    Settings::from_layouts(Preset::Parlor, layouts)
}

/// A frame of typing, put together without the code under test.
pub fn frame(until: u64, user: &str) -> Vec<u8> {
    let mut frame = vec![1, 1];
    frame.extend(until.to_be_bytes());
    frame.push(u8::try_from(user.len()).unwrap());
    frame.extend(user.as_bytes());
    frame
}

pub fn user(id: &str) -> UserId {
    UserId::new(id).unwrap()
}

pub fn conversation(id: &str) -> ConversationId {
    ConversationId::new(id).unwrap()
}

pub async fn start(node: &Typing, conv: &str, who: &str) {
    let (conv, who) = (conversation(conv), user(who));
    node.start(&conv, &who, None).await.unwrap();
}

pub async fn stop(node: &Typing, conv: &str, who: &str) {
    node.stop(&conversation(conv), &user(who)).await.unwrap();
}

pub async fn listen(node: &Typing, conv: &str) -> TypingListener {
    let mut listener = node.listener();
    listener.listen(&conversation(conv)).await.unwrap();
    listener
}

/// The ids of those who type.
pub async fn typers(node: &Typing, conv: &str) -> Vec<String> {
    let typers = node.typers(&conversation(conv)).await.unwrap();
    typers.iter().map(|it| it.user_id.to_string()).collect()
}
