//! Shards divide users among a fixed number of keys or channels.
//!
//! Invariant: every node and every version maps a user to the same shard.

use super::{IdKind, KeyIdentifier, UserId};

/// FNV-1a with a final mix. The function must never change: during an upgrade, nodes would look for users in the wrong
/// shard.
fn stable_hash(text: &str) -> u32 {
    let mut hash: u32 = 0x811c_9dc5;
    for byte in text.bytes() {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x7feb_352d);
    hash ^ (hash >> 15)
}

/// A number together with its decimal text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct DecimalU8 {
    value: u8,
    text: [u8; 3],
    len: u8,
}

impl DecimalU8 {
    const fn new(value: u8) -> Self {
        let digits = [
            b'0' + value / 100,
            b'0' + value / 10 % 10,
            b'0' + value % 10,
        ];
        let (text, len) = match value {
            0..=9 => ([digits[2], 0, 0], 1),
            10..=99 => ([digits[1], digits[2], 0], 2),
            100..=255 => (digits, 3),
        };
        Self { value, text, len }
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text[..usize::from(self.len)]).expect("decimal digits are UTF-8")
    }
}

macro_rules! shard {
    ($(#[$meta:meta])* $name:ident, $count:literal) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(DecimalU8);

        impl $name {
            /// Number of shards.
            pub const COUNT: u16 = $count;

            /// The shard of a user.
            pub fn for_user(user: &UserId) -> Self {
                let value = stable_hash(user.as_str()) % u32::from(Self::COUNT);
                Self(DecimalU8::new(u8::try_from(value).expect("there are at most 256 shards")))
            }

            /// All shards.
            pub fn all() -> impl Iterator<Item = Self> {
                (0..=u8::MAX)
                    .take(usize::from(Self::COUNT))
                    .map(|value| Self(DecimalU8::new(value)))
            }

            /// Number of the shard.
            pub const fn number(self) -> u8 {
                self.0.value
            }
        }

        impl KeyIdentifier for $name {
            const KIND: IdKind = IdKind::$name;

            fn as_str(&self) -> &str {
                self.0.as_str()
            }
        }
    };
}

shard!(
    /// Shard of the index of presence deadlines.
    DeadlineShard,
    64
);
shard!(
    /// Shard of the channels of presence changes.
    WatchShard,
    256
);
