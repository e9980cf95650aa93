//! Fixture: a store with nodes.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use parlor_chat::clock::Timestamp;
use parlor_chat::context::ChatContext;
use parlor_chat::keys::{Channel, KeySettings, Keyspace, Preset, TtlName, TypingLayout};
use parlor_chat::typing::Typing;
use parlor_store::{BusEvent, BusSubscription};

use crate::support::Fixture;
use crate::support::backend::TestBackend;
pub use crate::support::{conversation, user, with_timeout};

pub struct TypingFixture {
    backend: TestBackend,
    pub keys: Keyspace,
    pub layout: TypingLayout,
    /// The running nodes.
    pub nodes: Vec<Typing>,
    frames: BusSubscription,
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
                [1, 1, body @ ..] => frames.push(self.describe(body)),
                other => panic!("{other:?} is not a typing frame"),
            }
        }
    }

    fn describe(&self, body: &[u8]) -> String {
        let until = u64::from_be_bytes(body[..8].try_into().unwrap());
        let id = &body[9..9 + usize::from(body[8])];
        let id = String::from_utf8(id.to_vec()).unwrap();
        if until == 0 {
            return format!("{id} stopped");
        }
        let end = self.now().saturating_add(self.ttl());
        assert!(Timestamp(until) <= end && until > 0, "{id} {until}");
        format!("{id} types")
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

pub async fn start(node: &Typing, conv: &str, who: &str) {
    let (conv, who) = (conversation(conv), user(who));
    node.start(&conv, &who, None).await.unwrap();
}

pub async fn stop(node: &Typing, conv: &str, who: &str) {
    node.stop(&conversation(conv), &user(who)).await.unwrap();
}

/// Lists the ids of the typing users.
pub async fn typers(node: &Typing, conv: &str) -> Vec<String> {
    let users = node.typing_users(&conversation(conv)).await.unwrap();
    users.iter().map(|it| it.user_id.to_string()).collect()
}
