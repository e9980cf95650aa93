//! Random picks of `HRANDFIELD`, `SRANDMEMBER` and `ZRANDMEMBER`.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::error::CommandError;
use crate::number::parse_int_arg;

/// Maximum number of picks with repetition. Without a limit, one short command would take all memory.
const MAX_REPEATED_PICKS: i64 = 10_000_000;

/// Parses the count argument. A negative count allows repetition. The number of items in the reply must fit into an
/// `i64`.
pub fn parse_random_count(arg: &[u8], in_pairs: bool) -> Result<i64, CommandError> {
    const OUT_OF_RANGE: CommandError = CommandError::from_static("ERR value is out of range");
    const NOT_NEGATABLE: CommandError = CommandError::from_static(
        "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
    );
    let limit = if in_pairs { i64::MAX / 2 } else { i64::MAX };
    let count = parse_int_arg(arg)?;
    if count == i64::MIN {
        return Err(NOT_NEGATABLE);
    }
    if count < -limit.min(MAX_REPEATED_PICKS) || count > limit {
        return Err(OUT_OF_RANGE);
    }
    Ok(count)
}

/// A random position below `len`.
pub fn one(seed: u64, len: usize) -> usize {
    usize::try_from(seed).unwrap_or(0) % len.max(1)
}

/// Random positions below `len`: `wanted` distinct positions, or all if there are fewer. If `wanted` is negative,
/// positions may repeat.
pub fn random_indexes(mut seed: u64, len: usize, wanted: i64) -> Vec<usize> {
    let count = usize::try_from(wanted.unsigned_abs()).unwrap_or(usize::MAX);
    let mut next = || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        seed >> 17
    };
    if wanted < 0 {
        return (0..count).map(|_| one(next(), len)).collect();
    }
    if count >= len {
        return (0..len).collect();
    }
    // A shuffle that stores only the positions it has moved, so that a few picks of a million cost a few steps.
    let mut moved: HashMap<usize, usize, RandomState> = HashMap::default();
    let mut draw = |at: usize| {
        let other = at + one(next(), len - at);
        let own = moved.get(&at).copied().unwrap_or(at);
        moved.insert(other, own).unwrap_or(other)
    };
    (0..count).map(&mut draw).collect()
}

#[cfg(test)]
mod tests {
    use super::random_indexes;
    use std::collections::HashSet;

    #[test]
    fn a_positive_count_never_repeats() {
        for seed in 0..200 {
            let picked = random_indexes(seed, 10, 7);
            assert_eq!(picked.iter().collect::<HashSet<_>>().len(), 7);
            assert!(picked.iter().all(|at| *at < 10));
        }
        assert_eq!(random_indexes(1, 3, 10).len(), 3);
        assert_eq!(random_indexes(1, 3, -10).len(), 10);
        assert!(random_indexes(1, 3, 0).is_empty());
    }
}
