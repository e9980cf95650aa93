//! Replay buffer: the last frames that were sent to a socket, for a client that reconnects.
//!
//! Invariants:
//! 1. The buffer holds the newest frames, without a gap.
//! 2. Their number, bytes and age are limited. Frames that the client has certainly received are dropped, except the
//!    newest of them, because the client may send its offset when it reconnects.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::RecoveryOptions;
use crate::account::{MemoryBudget, MemoryCharge};
use crate::engine::EncodedFrame;

#[derive(Debug)]
pub(super) struct ReplayBuffer {
    frames: VecDeque<Arc<EncodedFrame>>,
    bytes: usize,
    /// Older frames were dropped.
    has_dropped_frames: bool,
    /// Number of frames at the front that were in the buffer at the last pong.
    len_at_last_pong: usize,
    /// Charge for the capacity of `frames`.
    capacity_charge: MemoryCharge,
}

impl ReplayBuffer {
    pub(super) fn new(account: &MemoryBudget) -> Self {
        Self {
            frames: VecDeque::new(),
            bytes: 0,
            has_dropped_frames: false,
            len_at_last_pong: 0,
            capacity_charge: account.charge(0),
        }
    }

    /// Appends a frame. Clears the buffer instead if the memory budget of all replay buffers is exceeded.
    pub(super) fn push(
        &mut self,
        frame: &Arc<EncodedFrame>,
        bounds: &RecoveryOptions,
        kept: usize,
    ) {
        if self.capacity_charge.of_all() > kept {
            return self.clear();
        }
        self.append(frame, bounds);
        self.update_charge();
    }

    fn clear(&mut self) {
        self.frames = VecDeque::new();
        self.bytes = 0;
        self.has_dropped_frames = true;
        self.len_at_last_pong = 0;
        self.update_charge();
    }

    fn update_charge(&mut self) {
        self.capacity_charge
            .resize(self.frames.capacity() * size_of::<Arc<EncodedFrame>>());
    }

    fn append(&mut self, frame: &Arc<EncodedFrame>, bounds: &RecoveryOptions) {
        self.bytes += frame.wire().len();
        self.frames.push_back(Arc::clone(frame));
        let oldest = u64::from(frame.created_at_secs).saturating_sub(bounds.window.as_secs());
        while let Some(first) = self.frames.front() {
            let is_over =
                self.frames.len() > bounds.max_frames.max(1) || self.bytes > bounds.max_bytes;
            if !is_over && u64::from(first.created_at_secs) >= oldest {
                return;
            }
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(first) = self.frames.pop_front() {
            self.bytes -= first.wire().len();
            self.has_dropped_frames = true;
            self.len_at_last_pong = self.len_at_last_pong.saturating_sub(1);
        }
    }

    /// A pong arrived. Its ping was sent after the previous pong, so the client has received every frame that was in
    /// the buffer at the previous pong. Drops those frames except the newest.
    pub(super) fn on_pong(&mut self) {
        for _ in 1..self.len_at_last_pong {
            self.drop_oldest();
        }
        self.len_at_last_pong = self.frames.len();
        self.frames.shrink_to(self.frames.len() * 2);
        self.update_charge();
    }

    /// Frames after this offset, or all if the client received none. `None` if frames that the client needs were
    /// dropped.
    pub(super) fn after(
        &self,
        offset: Option<u64>,
    ) -> Option<impl Iterator<Item = &Arc<EncodedFrame>>> {
        let from = match offset {
            None if self.has_dropped_frames => return None,
            None => 0,
            Some(offset) => {
                1 + self
                    .frames
                    .iter()
                    .rposition(|frame| frame.recovery_offset == offset)?
            }
        };
        Some(self.frames.range(from..))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::EncodedEvent;

    const BOUNDS: RecoveryOptions = RecoveryOptions {
        window: Duration::from_secs(10),
        max_frames: 4,
        max_bytes: 200,
    };

    fn frame(offset: u64, made: u32, size: usize) -> Arc<EncodedFrame> {
        EncodedEvent::recoverable(
            "e",
            "1".repeat(size).as_bytes(),
            offset,
            made,
            &MemoryBudget::default(),
        )
        .0
    }

    fn after(ring: &ReplayBuffer, offset: Option<u64>) -> Option<Vec<u64>> {
        let frames = ring.after(offset)?;
        Some(frames.map(|frame| frame.recovery_offset).collect())
    }

    #[test]
    fn the_replay_buffer_is_limited_by_count_bytes_and_age() {
        let mut ring = ReplayBuffer::new(&MemoryBudget::default());
        for offset in 1..=3 {
            ring.push(&frame(offset, 0, 1), &BOUNDS, usize::MAX);
        }
        assert_eq!(after(&ring, None), Some(vec![1, 2, 3]));
        assert_eq!(after(&ring, Some(1)), Some(vec![2, 3]));
        assert_eq!(after(&ring, Some(3)), Some(vec![]));
        assert_eq!(after(&ring, Some(4)), None);
        ring.push(&frame(4, 5, 1), &BOUNDS, usize::MAX);
        ring.push(&frame(5, 5, 1), &BOUNDS, usize::MAX);
        assert_eq!(after(&ring, None), None, "the first frame was dropped");
        assert_eq!(after(&ring, Some(2)), Some(vec![3, 4, 5]));
        ring.push(&frame(6, 12, 1), &BOUNDS, usize::MAX);
        assert_eq!(after(&ring, Some(3)), None, "older than the window");
        assert_eq!(after(&ring, Some(4)), Some(vec![5, 6]));
        ring.push(&frame(7, 12, 165), &BOUNDS, usize::MAX);
        assert_eq!(after(&ring, Some(5)), None, "too many bytes");
        ring.push(&frame(8, 12, 300), &BOUNDS, usize::MAX);
        assert_eq!(after(&ring, Some(7)), None, "larger than the buffer");
    }

    #[test]
    fn frames_confirmed_by_a_pong_are_dropped_except_the_newest() {
        let mut ring = ReplayBuffer::new(&MemoryBudget::default());
        ring.push(&frame(1, 0, 1), &BOUNDS, usize::MAX);
        ring.push(&frame(2, 0, 1), &BOUNDS, usize::MAX);
        ring.on_pong();
        ring.push(&frame(3, 0, 1), &BOUNDS, usize::MAX);
        assert_eq!(
            after(&ring, Some(1)),
            Some(vec![2, 3]),
            "one pong does not show that the frames were received"
        );
        ring.on_pong();
        assert_eq!(after(&ring, Some(1)), None);
        assert_eq!(after(&ring, Some(2)), Some(vec![3]));
        ring.on_pong();
        ring.on_pong();
        assert_eq!(after(&ring, Some(3)), Some(vec![]));
    }

    #[test]
    fn all_replay_buffers_share_one_memory_budget() {
        let account = MemoryBudget::default();
        let kept = |offset| EncodedEvent::recoverable("e", &[b'1'; 50], offset, 0, &account).0;
        let mut rings: Vec<_> = (0..10).map(|_| ReplayBuffer::new(&account)).collect();
        for offset in 1..=30 {
            for ring in &mut rings {
                ring.push(&kept(offset), &BOUNDS, 1_000);
            }
            assert!(account.used_bytes() < 1_300, "{}", account.used_bytes());
        }
        assert!(rings.iter().any(|ring| after(ring, Some(30)).is_none()));
        drop(rings);
        assert_eq!(account.used_bytes(), 0);
    }
}
