//! Random picks, as `HRANDFIELD`, `SRANDMEMBER` and `ZRANDMEMBER` share them.

use crate::error::Error;
use crate::number::int;

/// So many repetitions may be asked for: without a bound one short command would take all memory.
const MOST_REPEATED: i64 = 10_000_000;

/// The count argument. A negative one allows repetition; what the reply would hold must stay countable.
pub fn wanted(arg: &[u8], in_pairs: bool) -> Result<i64, Error> {
    const OUT_OF_RANGE: Error = Error::fixed("ERR value is out of range");
    const NOT_NEGATABLE: Error = Error::fixed(
        "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
    );
    let limit = if in_pairs { i64::MAX / 2 } else { i64::MAX };
    let count = int(arg)?;
    if count == i64::MIN {
        return Err(NOT_NEGATABLE);
    }
    if count < -limit.min(MOST_REPEATED) || count > limit {
        return Err(OUT_OF_RANGE);
    }
    Ok(count)
}

/// A position below `len`.
pub fn one(seed: u64, len: usize) -> usize {
    usize::try_from(seed).unwrap_or(0) % len.max(1)
}

/// Positions below `len`: `wanted` different ones, or as many as there are; with repetition for a negative number.
pub fn several(mut seed: u64, len: usize, wanted: i64) -> Vec<usize> {
    let count = usize::try_from(wanted.unsigned_abs()).unwrap_or(usize::MAX);
    let mut next = || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        seed >> 17
    };
    if wanted < 0 {
        // The length of the reply is the caller's choice, as in Redis.
        return (0..count).map(|_| one(next(), len)).collect();
    }
    let mut positions: Vec<usize> = (0..len).collect();
    if count >= len {
        return positions;
    }
    for at in 0..count {
        let other = at + one(next(), len - at);
        positions.swap(at, other);
    }
    positions.truncate(count);
    positions
}

#[cfg(test)]
mod tests {
    use super::several;
    use std::collections::HashSet;

    #[test]
    fn a_positive_count_never_repeats() {
        for seed in 0..200 {
            let picked = several(seed, 10, 7);
            assert_eq!(picked.iter().collect::<HashSet<_>>().len(), 7);
            assert!(picked.iter().all(|at| *at < 10));
        }
        assert_eq!(several(1, 3, 10).len(), 3);
        assert_eq!(several(1, 3, -10).len(), 10);
        assert!(several(1, 3, 0).is_empty());
    }
}
