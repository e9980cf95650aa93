//! Fixture: a store with nodes.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use parlor_chat::context::{ChatContext, Timestamp};
use parlor_chat::keys::{Channel, KeySettings, Keyspace, Preset, TtlName, TypingLayout};
use parlor_chat::typing::{Typing, TypingListener};
use parlor_store::{BusEvent, BusSubscription};

use crate::support::Fixture;
use crate::support::backend::TestBackend;
pub use crate::support::{conversation, user, with_timeout};

/// Users who type to show how far a listener has come.
const MARKER_USER: &str = "marker-";

pub struct TypingFixture {
    backend: TestBackend,
    pub keys: Keyspace,
    pub layout: TypingLayout,
    /// The running nodes.
    pub nodes: Vec<Typing>,
    frames: BusSubscription,
    markers: u32,
}

impl TypingFixture {
    /// Creates another node.
    pub fn start(&self) -> Typing {
        Typing::new(ChatContext::new(self.store.clone(), self.keys.clone()))
    }

    pub fn ttl(&self) -> Duration {
        self.keys.ttl(TtlName::Typing)
    }

    /// How much earlier than by the test's clock the keys of the store may expire.
    pub fn slack(&self) -> Duration {
        if self.primaries.is_empty() {
            Duration::ZERO
        } else {
            self.ttl() / 5
        }
    }

    pub fn channel(&self, conv: &str) -> Channel {
        self.keys.conversation_channel(&conversation(conv))
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

    /// Returns the frames published in `c1` since the last call: `alice types`, `alice stopped`.
    pub async fn drain_frames(&mut self) -> Vec<String> {
        self.publish("c1", &[1, 255]).await;
        let mut frames = Vec::new();
        loop {
            let Some(BusEvent::Message { payload, .. }) = with_timeout(self.frames.next()).await
            else {
                panic!("the subscription ended or may have lost a message");
            };
            match &payload[..] {
                [1, 255] => return frames,
                [1, 1, body @ ..] => frames.extend(self.read(body)),
                other => panic!("{other:?} is not a typing frame"),
            }
        }
    }

    fn read(&self, body: &[u8]) -> Option<String> {
        let until = u64::from_be_bytes(body[..8].try_into().unwrap());
        let id = &body[9..9 + usize::from(body[8])];
        let id = String::from_utf8(id.to_vec()).unwrap();
        if id.starts_with(MARKER_USER) {
            return None;
        }
        if until == 0 {
            return Some(format!("{id} stopped"));
        }
        let end = self.now().saturating_add(self.ttl());
        assert!(Timestamp(until) <= end && until > 0, "{id} {until}");
        Some(format!("{id} types"))
    }

    /// What a listener was told since the last call, up to what was published until now in a conversation it listens to:
    /// where, who, and whether they type.
    pub async fn drain_changes(
        &mut self,
        listener: &mut TypingListener,
        conv: &str,
    ) -> Vec<((String, String), bool)> {
        self.markers += 1;
        let marker = format!("{MARKER_USER}{}", self.markers);
        let mut told = Vec::new();
        for until in [self.now().as_millis() + 1, 0] {
            self.publish(conv, &frame(until, &marker)).await;
            loop {
                let change = with_timeout(listener.next()).await;
                let who = change.user_id.to_string();
                if who == marker && change.typing == (until != 0) {
                    break;
                }
                told.push(((change.conversation_id.to_string(), who), change.typing));
            }
        }
        told.retain(|((_, who), _)| !who.starts_with(MARKER_USER));
        told
    }

    /// [`changes`](Self::changes) in words: `alice types`, `alice stopped`.
    pub async fn change_texts(&mut self, listener: &mut TypingListener, conv: &str) -> Vec<String> {
        let changes = self.drain_changes(listener, conv).await.into_iter();
        let words = changes.map(|((_, who), typing)| {
            let what = if typing { "types" } else { "stopped" };
            format!("{who} {what}")
        });
        words.collect()
    }
}

impl Fixture<TypingLayout> for TypingFixture {
    async fn on(backend: TestBackend, layout: TypingLayout) -> Self {
        let mut settings = settings(layout);
        backend.extend_typing_ttl(&mut settings);
        let keys = backend.keys(settings);
        let channel = keys.conversation_channel(&conversation("c1"));
        let frames = backend.store.bus().subscribe_sharded(channel.as_str());
        let mut fixture = Self {
            frames: frames.await.unwrap(),
            keys,
            layout,
            nodes: Vec::new(),
            markers: 0,
            backend,
        };
        fixture.nodes.push(fixture.start());
        fixture.nodes.push(fixture.start());
        fixture
    }
}

impl Deref for TypingFixture {
    type Target = TestBackend;

    fn deref(&self) -> &TestBackend {
        &self.backend
    }
}

impl DerefMut for TypingFixture {
    fn deref_mut(&mut self) -> &mut TestBackend {
        &mut self.backend
    }
}

/// Default settings with this layout.
pub fn settings(layout: TypingLayout) -> KeySettings {
    let mut layouts = Preset::Parlor.layouts();
    layouts.typing = layout;
    KeySettings::from_layouts(Preset::Parlor, layouts)
}

/// Encodes a typing frame without the code under test.
pub fn frame(until: u64, user: &str) -> Vec<u8> {
    let mut frame = vec![1, 1];
    frame.extend(until.to_be_bytes());
    frame.push(u8::try_from(user.len()).unwrap());
    frame.extend(user.as_bytes());
    frame
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
    listener.subscribe(&conversation(conv)).await.unwrap();
    listener
}

/// Lists the ids of the typing users.
pub async fn typers(node: &Typing, conv: &str) -> Vec<String> {
    let typers = node.typers(&conversation(conv)).await.unwrap();
    typers.iter().map(|it| it.user_id.to_string()).collect()
}
