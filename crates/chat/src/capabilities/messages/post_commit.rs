//! Starts applying messages after each commit of the writer.
//!
//! Invariants:
//! 1. The messages of one conversation in one commit form a group. The groups of a conversation get their turns in the
//!    order of the commits.
//! 2. The writer does not wait for the store: each group is applied on its own task.

use std::sync::{Arc, Weak};

use tokio::runtime::Handle;

use super::Messages;
use super::apply_queue::{ApplyQueue, ApplyTurn};
use super::writer::{CommitObserver, CommittedMessage};
use crate::ids::ConversationId;

/// Applies messages to the store after their commit.
pub(super) struct PostCommitApplier {
    messages: Weak<Messages>,
    runtime: Handle,
    queue: Arc<ApplyQueue>,
}

/// The messages of one conversation in one commit.
pub(super) struct ConversationCommit {
    pub(super) conversation: ConversationId,
    pub(super) turn: ApplyTurn,
    pub(super) committed: Vec<CommittedMessage>,
}

impl PostCommitApplier {
    pub(super) fn new(messages: &Weak<Messages>) -> Arc<Self> {
        Arc::new(Self {
            messages: Weak::clone(messages),
            runtime: Handle::current(),
            queue: Arc::default(),
        })
    }
}

impl CommitObserver for PostCommitApplier {
    fn on_committed(&self, mut batch: Vec<CommittedMessage>) {
        let Some(messages) = self.messages.upgrade() else {
            return;
        };
        // The sort is stable: the messages of one conversation keep their order.
        batch.sort_by(|a, b| a.row.conversation_id.cmp(&b.row.conversation_id));
        let mut groups = Vec::<ConversationCommit>::new();
        for message in batch {
            let conversation = &message.row.conversation_id;
            match groups.last_mut() {
                Some(group) if group.conversation == *conversation => {
                    group.committed.push(message);
                }
                _ => groups.push(ConversationCommit {
                    conversation: conversation.clone(),
                    turn: self.queue.enqueue(conversation),
                    committed: vec![message],
                }),
            }
        }
        // One spawn from the writer thread wakes the runtime once, however many conversations the commit contains.
        self.runtime.spawn(async move {
            for group in groups {
                let messages = Arc::clone(&messages);
                tokio::spawn(async move { messages.apply_commit(group).await });
            }
        });
    }
}
