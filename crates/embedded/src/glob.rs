//! Redis's glob patterns on bytes: `*`, `?`, `[a-c]`, `[^x]`, and `\` to escape.

/// Whether `text` matches `pattern`.
///
/// Takes O(pattern × text) at worst: after a mismatch only the last `*` is retried, so no pattern takes exponential
/// time.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            retry = Some((p + 1, t));
            p += 1;
        } else if let Some(next) = match_element(pattern, p, text[t]) {
            p = next;
            t += 1;
        } else if let Some((star, from)) = retry {
            retry = Some((star, from + 1));
            p = star;
            t = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

/// Position after the pattern element at `p`, if that element matches `byte`.
fn match_element(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    match *pattern.get(p)? {
        b'?' => Some(p + 1),
        b'[' => match_class(pattern, p + 1, byte),
        b'\\' if p + 1 < pattern.len() => (pattern[p + 1] == byte).then_some(p + 2),
        literal => (literal == byte).then_some(p + 1),
    }
}

fn match_class(pattern: &[u8], mut p: usize, byte: u8) -> Option<usize> {
    let negated = pattern.get(p) == Some(&b'^');
    if negated {
        p += 1;
    }
    let mut found = false;
    loop {
        match pattern.get(p) {
            // A class that is never closed ends with the pattern.
            None => break,
            Some(b']') => {
                p += 1;
                break;
            }
            Some(b'\\') if p + 1 < pattern.len() => {
                found |= pattern[p + 1] == byte;
                p += 2;
            }
            Some(&low) if p + 2 < pattern.len() && pattern[p + 1] == b'-' => {
                let high = pattern[p + 2];
                found |= (low.min(high)..=low.max(high)).contains(&byte);
                p += 3;
            }
            Some(&one) => {
                found |= one == byte;
                p += 1;
            }
        }
    }
    (found != negated).then_some(p)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hbllo", true),
            (r"h\*llo", "h*llo", true),
            (r"h\*llo", "hello", false),
            ("typing:c1:*", "typing:c1:u2", true),
            ("typing:c1:*", "typing:c10:u2", false),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxbxx", false),
            ("[abc", "b", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn a_hostile_pattern_is_not_exponential() {
        let pattern = "*a".repeat(50);
        let text = "a".repeat(5_000) + "b";
        assert!(!matches(pattern.as_bytes(), text.as_bytes()));
    }
}
