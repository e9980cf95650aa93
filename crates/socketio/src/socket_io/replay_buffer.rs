//! Replay buffer: the last frames that were sent to a socket, for a client that reconnects.
//!
//! Invariants:
//! 1. The buffer holds the newest frames, without a gap.
//! 2. Their number, bytes and age are limited. Frames that the client has certainly received are dropped, except the
//!    newest of them, because the client may send its offset when it reconnects.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::RecoveryOptions;
use crate::engine_io::EncodedFrame;
use crate::memory_budget::{MemoryBudget, MemoryCharge};

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
    pub(super) fn new(budget: &MemoryBudget) -> Self {
        Self {
            frames: VecDeque::new(),
            bytes: 0,
            has_dropped_frames: false,
            len_at_last_pong: 0,
            capacity_charge: budget.charge(0),
        }
    }

    /// Appends a frame. Clears the buffer instead if the memory budget of all replay buffers is exceeded.
    pub(super) fn push(&mut self, frame: &Arc<EncodedFrame>, limits: &RecoveryOptions) {
        if self.capacity_charge.is_budget_exceeded() {
            return self.clear();
        }
        self.append(frame, limits);
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

    fn append(&mut self, frame: &Arc<EncodedFrame>, limits: &RecoveryOptions) {
        self.bytes += frame.bytes().len();
        self.frames.push_back(Arc::clone(frame));
        let min_created_at =
            u64::from(frame.created_at_secs).saturating_sub(limits.window.as_secs());
        while let Some(first) = self.frames.front() {
            let exceeds_limit =
                self.frames.len() > limits.max_frames.max(1) || self.bytes > limits.max_bytes;
            if !exceeds_limit && u64::from(first.created_at_secs) >= min_created_at {
                return;
            }
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(first) = self.frames.pop_front() {
            self.bytes -= first.bytes().len();
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
    pub(super) fn frames_after(&self, offset: Option<u64>) -> Option<Vec<Arc<EncodedFrame>>> {
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
        Some(self.frames.range(from..).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::EncodedEvent;

    const LIMITS: RecoveryOptions = RecoveryOptions {
        window: Duration::from_secs(10),
        max_frames: 4,
        max_bytes: 200,
        max_total_bytes: usize::MAX,
    };

    fn unlimited() -> MemoryBudget {
        MemoryBudget::new(usize::MAX)
    }

    fn frame(offset: u64, created_at_secs: u32, size: usize) -> Arc<EncodedFrame> {
        EncodedEvent::recoverable(
            "e",
            "1".repeat(size).as_bytes(),
            offset,
            created_at_secs,
            &unlimited(),
        )
        .0
    }

    fn offsets_after(buffer: &ReplayBuffer, offset: Option<u64>) -> Option<Vec<u64>> {
        let frames = buffer.frames_after(offset)?;
        Some(frames.iter().map(|frame| frame.recovery_offset).collect())
    }

    #[test]
    fn the_replay_buffer_is_limited_by_count_bytes_and_age() {
        let mut buffer = ReplayBuffer::new(&unlimited());
        for offset in 1..=3 {
            buffer.push(&frame(offset, 0, 1), &LIMITS);
        }
        assert_eq!(offsets_after(&buffer, None), Some(vec![1, 2, 3]));
        assert_eq!(offsets_after(&buffer, Some(1)), Some(vec![2, 3]));
        assert_eq!(offsets_after(&buffer, Some(3)), Some(vec![]));
        assert_eq!(offsets_after(&buffer, Some(4)), None);
        buffer.push(&frame(4, 5, 1), &LIMITS);
        buffer.push(&frame(5, 5, 1), &LIMITS);
        assert_eq!(
            offsets_after(&buffer, None),
            None,
            "the first frame was dropped"
        );
        assert_eq!(offsets_after(&buffer, Some(2)), Some(vec![3, 4, 5]));
        buffer.push(&frame(6, 12, 1), &LIMITS);
        assert_eq!(
            offsets_after(&buffer, Some(3)),
            None,
            "older than the window"
        );
        assert_eq!(offsets_after(&buffer, Some(4)), Some(vec![5, 6]));
        buffer.push(&frame(7, 12, 165), &LIMITS);
        assert_eq!(offsets_after(&buffer, Some(5)), None, "too many bytes");
        buffer.push(&frame(8, 12, 300), &LIMITS);
        assert_eq!(
            offsets_after(&buffer, Some(7)),
            None,
            "larger than the buffer"
        );
    }

    #[test]
    fn frames_confirmed_by_a_pong_are_dropped_except_the_newest() {
        let mut buffer = ReplayBuffer::new(&unlimited());
        buffer.push(&frame(1, 0, 1), &LIMITS);
        buffer.push(&frame(2, 0, 1), &LIMITS);
        buffer.on_pong();
        buffer.push(&frame(3, 0, 1), &LIMITS);
        assert_eq!(
            offsets_after(&buffer, Some(1)),
            Some(vec![2, 3]),
            "one pong does not show that the frames were received"
        );
        buffer.on_pong();
        assert_eq!(offsets_after(&buffer, Some(1)), None);
        assert_eq!(offsets_after(&buffer, Some(2)), Some(vec![3]));
        buffer.on_pong();
        buffer.on_pong();
        assert_eq!(offsets_after(&buffer, Some(3)), Some(vec![]));
    }

    #[test]
    fn all_replay_buffers_share_one_memory_budget() {
        let budget = MemoryBudget::new(1_000);
        let event = |offset| EncodedEvent::recoverable("e", &[b'1'; 50], offset, 0, &budget).0;
        let mut buffers: Vec<_> = (0..10).map(|_| ReplayBuffer::new(&budget)).collect();
        for offset in 1..=30 {
            for buffer in &mut buffers {
                buffer.push(&event(offset), &LIMITS);
            }
            assert!(budget.used_bytes() < 1_300, "{}", budget.used_bytes());
        }
        assert!(
            buffers
                .iter()
                .any(|buffer| offsets_after(buffer, Some(30)).is_none())
        );
        drop(buffers);
        assert_eq!(budget.used_bytes(), 0);
    }
}
