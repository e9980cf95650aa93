//! Random picks of `HRANDFIELD`, `SRANDMEMBER` and `ZRANDMEMBER`.

use crate::error::CommandError;
use crate::numbers::parse_int_arg;

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

/// A random position below `len`, or 0 if `len` is 0. Not suitable for secrets.
pub fn random_index(len: usize) -> usize {
    rand::random_range(0..len.max(1))
}

/// Random positions below `len`: `wanted` distinct positions, or all if there are fewer. If `wanted` is negative,
/// positions may repeat.
pub fn random_indexes(len: usize, wanted: i64) -> Vec<usize> {
    let count = usize::try_from(wanted.unsigned_abs()).unwrap_or(usize::MAX);
    if wanted < 0 {
        return (0..count).map(|_| random_index(len)).collect();
    }
    if count >= len {
        return (0..len).collect();
    }
    rand::seq::index::sample(&mut rand::rng(), len, count).into_vec()
}

#[cfg(test)]
mod tests {
    use super::random_indexes;
    use std::collections::HashSet;

    #[test]
    fn a_positive_count_never_repeats() {
        for _ in 0..200 {
            let picked = random_indexes(10, 7);
            assert_eq!(picked.iter().collect::<HashSet<_>>().len(), 7);
            assert!(picked.iter().all(|at| *at < 10));
        }
        assert_eq!(random_indexes(3, 10).len(), 3);
        assert_eq!(random_indexes(3, -10).len(), 10);
        assert!(random_indexes(3, 0).is_empty());
    }
}
