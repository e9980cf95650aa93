//! Shards divide users among a fixed number of keys or channels.
//!
//! Invariant: every node and every version maps a user to the same shard.

use std::sync::LazyLock;

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

/// The decimal texts of the numbers of shards.
static DECIMALS: LazyLock<Vec<String>> =
    LazyLock::new(|| (0..=u8::MAX).map(|number| number.to_string()).collect());

macro_rules! shard {
    ($(#[$meta:meta])* $name:ident, $count:literal) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(u8);

        impl $name {
            /// Number of shards.
            pub const COUNT: u16 = $count;

            /// The shard of a user.
            pub fn for_user(user: &UserId) -> Self {
                let value = stable_hash(user.as_str()) % u32::from(Self::COUNT);
                Self(u8::try_from(value).expect("there are at most 256 shards"))
            }

            /// All shards.
            pub fn all() -> impl Iterator<Item = Self> {
                (0..=u8::MAX)
                    .take(usize::from(Self::COUNT))
                    .map(Self)
            }

            /// Number of the shard.
            pub const fn number(self) -> u8 {
                self.0
            }
        }

        impl KeyIdentifier for $name {
            const KIND: IdKind = IdKind::$name;

            fn as_str(&self) -> &str {
                &DECIMALS[usize::from(self.0)]
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
