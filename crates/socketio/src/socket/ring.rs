//! The last frames that a socket was sent, for a client that comes back.
//!
//! Always true:
//! 1. What is kept is the end of what was sent, without a hole.
//! 2. It is bounded in number, bytes and age, and a frame that the client certainly has is dropped, but for the last such one,
//!    by whose offset the client may name its place.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::Recovery;
use crate::account::{Account, Share};
use crate::engine::Parcel;

#[derive(Debug)]
pub(super) struct Ring {
    frames: VecDeque<Arc<Parcel>>,
    bytes: usize,
    /// Something before the first was sent and is gone.
    has_dropped: bool,
    /// So many of the first were sent before the last sign of life but one came.
    proven: usize,
    /// The memory of its places.
    share: Share,
}

impl Ring {
    pub(super) fn new(account: &Account) -> Self {
        Self {
            frames: VecDeque::new(),
            bytes: 0,
            has_dropped: false,
            proven: 0,
            share: account.share(0),
        }
    }

    /// Keeps a frame, or nothing at all if all rings together have more than `kept` bytes.
    pub(super) fn push(&mut self, frame: &Arc<Parcel>, bounds: &Recovery, kept: usize) {
        if self.share.of_all() > kept {
            return self.forget();
        }
        self.keep(frame, bounds);
        self.weigh();
    }

    fn forget(&mut self) {
        self.frames = VecDeque::new();
        self.bytes = 0;
        self.has_dropped = true;
        self.proven = 0;
        self.weigh();
    }

    fn weigh(&mut self) {
        self.share
            .set(self.frames.capacity() * size_of::<Arc<Parcel>>());
    }

    fn keep(&mut self, frame: &Arc<Parcel>, bounds: &Recovery) {
        self.bytes += frame.wire().len();
        self.frames.push_back(Arc::clone(frame));
        let oldest = u64::from(frame.made).saturating_sub(bounds.window.as_secs());
        while let Some(first) = self.frames.front() {
            let is_over = self.frames.len() > bounds.frames.max(1) || self.bytes > bounds.bytes;
            if !is_over && u64::from(first.made) >= oldest {
                return;
            }
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some(first) = self.frames.pop_front() {
            self.bytes -= first.wire().len();
            self.has_dropped = true;
            self.proven = self.proven.saturating_sub(1);
        }
    }

    /// The client has answered a ping, which was sent after all that was in the ring at the answer before.
    pub(super) fn prove(&mut self) {
        for _ in 1..self.proven {
            self.drop_first();
        }
        self.proven = self.frames.len();
        self.frames.shrink_to(self.frames.len() * 2);
        self.weigh();
    }

    /// What came after the frame with this offset, or all if the client has seen none. `None` if that is not kept any more.
    pub(super) fn after(&self, offset: Option<u64>) -> Option<impl Iterator<Item = &Arc<Parcel>>> {
        let from = match offset {
            None if self.has_dropped => return None,
            None => 0,
            Some(offset) => {
                1 + self
                    .frames
                    .iter()
                    .rposition(|frame| frame.offset == offset)?
            }
        };
        Some(self.frames.range(from..))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Frame;

    const BOUNDS: Recovery = Recovery {
        window: Duration::from_secs(10),
        frames: 4,
        bytes: 200,
    };

    fn frame(offset: u64, made: u32, size: usize) -> Arc<Parcel> {
        Frame::kept(
            "e",
            "1".repeat(size).as_bytes(),
            offset,
            made,
            &Account::default(),
        )
        .0
    }

    fn after(ring: &Ring, offset: Option<u64>) -> Option<Vec<u64>> {
        let frames = ring.after(offset)?;
        Some(frames.map(|frame| frame.offset).collect())
    }

    #[test]
    fn the_end_of_what_was_sent_is_kept_in_number_bytes_and_age() {
        let mut ring = Ring::new(&Account::default());
        for offset in 1..=3 {
            ring.push(&frame(offset, 0, 1), &BOUNDS, usize::MAX);
        }
        assert_eq!(after(&ring, None), Some(vec![1, 2, 3]));
        assert_eq!(after(&ring, Some(1)), Some(vec![2, 3]));
        assert_eq!(after(&ring, Some(3)), Some(vec![]));
        assert_eq!(after(&ring, Some(4)), None);
        ring.push(&frame(4, 5, 1), &BOUNDS, usize::MAX);
        ring.push(&frame(5, 5, 1), &BOUNDS, usize::MAX);
        assert_eq!(after(&ring, None), None, "the first is gone");
        assert_eq!(after(&ring, Some(2)), Some(vec![3, 4, 5]));
        ring.push(&frame(6, 12, 1), &BOUNDS, usize::MAX);
        assert_eq!(after(&ring, Some(3)), None, "too old");
        assert_eq!(after(&ring, Some(4)), Some(vec![5, 6]));
        ring.push(&frame(7, 12, 165), &BOUNDS, usize::MAX);
        assert_eq!(after(&ring, Some(5)), None, "too many bytes");
        ring.push(&frame(8, 12, 300), &BOUNDS, usize::MAX);
        assert_eq!(after(&ring, Some(7)), None, "too large to be kept at all");
    }

    #[test]
    fn what_the_client_certainly_has_is_dropped_but_for_the_last_of_it() {
        let mut ring = Ring::new(&Account::default());
        ring.push(&frame(1, 0, 1), &BOUNDS, usize::MAX);
        ring.push(&frame(2, 0, 1), &BOUNDS, usize::MAX);
        ring.prove();
        ring.push(&frame(3, 0, 1), &BOUNDS, usize::MAX);
        assert_eq!(
            after(&ring, Some(1)),
            Some(vec![2, 3]),
            "nothing is proven yet"
        );
        ring.prove();
        assert_eq!(after(&ring, Some(1)), None);
        assert_eq!(after(&ring, Some(2)), Some(vec![3]));
        ring.prove();
        ring.prove();
        assert_eq!(after(&ring, Some(3)), Some(vec![]));
    }

    #[test]
    fn all_rings_together_are_bounded_and_give_back_what_they_had() {
        let account = Account::default();
        let kept = |offset| Frame::kept("e", &[b'1'; 50], offset, 0, &account).0;
        let mut rings: Vec<_> = (0..10).map(|_| Ring::new(&account)).collect();
        for offset in 1..=30 {
            for ring in &mut rings {
                ring.push(&kept(offset), &BOUNDS, 1_000);
            }
            assert!(account.bytes() < 1_300, "{}", account.bytes());
        }
        assert!(rings.iter().any(|ring| after(ring, Some(30)).is_none()));
        drop(rings);
        assert_eq!(account.bytes(), 0);
    }
}
