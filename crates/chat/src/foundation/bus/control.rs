//! The channel `parlor:control`: messages to all nodes.
//!
//! Invariant: a message may be lost. Each capability that uses the channel has a slower way to learn the same.

use std::time::Duration;

use parlor_store::{BusEvent, BusSubscription};
use tokio::time::sleep;

use super::frame::{self, BusFrame, BusFrameKind};
use crate::context::ChatContext;

/// Wait before subscribing again while the store is unavailable.
const RESUBSCRIBE_DELAY: Duration = Duration::from_secs(1);

/// Publishes a message to all nodes. A failure is ignored, because the message may be lost anyway.
pub(crate) async fn publish(ctx: &ChatContext, kind: BusFrameKind, body: &str) {
    let mut frame = frame::start_frame(kind, body.len());
    frame.extend(body.as_bytes());
    let channel = ctx.keys().control_channel();
    let _ = ctx.store().bus().publish(channel.as_str(), frame).await;
}

/// Receives the messages of one kind.
pub(crate) struct ControlListener {
    ctx: ChatContext,
    kind: BusFrameKind,
    subscription: Option<BusSubscription>,
}

impl ControlListener {
    pub(crate) fn new(ctx: ChatContext, kind: BusFrameKind) -> Self {
        Self {
            ctx,
            kind,
            subscription: None,
        }
    }

    /// Waits for the body of the next message. `None` means that messages may have been missed, which includes the time
    /// before each subscription.
    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            let Some(subscription) = &mut self.subscription else {
                let channel = self.ctx.keys().control_channel();
                match self.ctx.store().bus().subscribe(channel.as_str()).await {
                    Ok(subscription) => {
                        self.subscription = Some(subscription);
                        return None;
                    }
                    Err(_) => sleep(RESUBSCRIBE_DELAY).await,
                }
                continue;
            };
            match subscription.next().await {
                Some(BusEvent::Message { payload, .. }) => match BusFrame::from(&payload[..]) {
                    BusFrame::Known(kind, body) if kind == self.kind => {
                        return Some(String::from_utf8_lossy(body).into_owned());
                    }
                    _ => {}
                },
                Some(BusEvent::MaybeMissed) => return None,
                None => {
                    self.subscription = None;
                    sleep(RESUBSCRIBE_DELAY).await;
                }
            }
        }
    }
}

/// Splits a body into words. The last word may be empty or contain spaces.
pub(crate) fn words<const COUNT: usize>(body: &str) -> Option<[&str; COUNT]> {
    let words: Vec<&str> = body.splitn(COUNT, ' ').collect();
    words.try_into().ok()
}
