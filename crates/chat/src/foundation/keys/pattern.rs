//! Key patterns, parsed at compile time.
//!
//! Invariant: a pattern does not compile if it names an unknown identifier, or if an identifier that may contain `:` is
//! not its last part.

use crate::ids::IdKind;

/// Maximum number of parts of a pattern.
const MAX_PARTS: usize = 5;

/// Words in braces that are not identifiers but fixed hash tags, shared by the keys of one script.
const FIXED_TAGS: &[&str] = &["stats"];

/// Part of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatternPart {
    /// Literal text.
    Literal(&'static str),
    /// Identifier.
    Id(IdKind),
    /// Fixed hash tag.
    FixedHashTag(&'static str),
}

/// Pattern of a key, for example `unread:{user}:{conv}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPattern {
    text: &'static str,
    parts: [PatternPart; MAX_PARTS],
    count: usize,
    /// Index of the part that is the hash tag in cluster mode: the first one in braces.
    tag: Option<usize>,
    fixed_len: usize,
}

impl KeyPattern {
    /// Parses a pattern.
    pub(crate) const fn parse(text: &'static str) -> Self {
        let mut pattern = Self {
            text,
            parts: [PatternPart::Literal(""); MAX_PARTS],
            count: 0,
            tag: None,
            fixed_len: 0,
        };
        let mut rest = text;
        while !rest.is_empty() {
            assert!(pattern.count < MAX_PARTS, "the pattern has too many parts");
            let part;
            (part, rest) = if rest.as_bytes()[0] == b'{' {
                let (word, after) = rest.split_at(index_of(rest, b'}'));
                let part = parse_placeholder(word.split_at(1).1);
                if pattern.tag.is_none() {
                    pattern.tag = Some(pattern.count);
                }
                (part, after.split_at(1).1)
            } else {
                let (literal, after) = rest.split_at(index_of(rest, b'{'));
                (PatternPart::Literal(literal), after)
            };
            pattern.fixed_len += match part {
                PatternPart::Literal(text) | PatternPart::FixedHashTag(text) => text.len(),
                PatternPart::Id(kind) => {
                    assert!(
                        rest.is_empty() || !kind.may_contain_colon(),
                        "this identifier must be the last part"
                    );
                    0
                }
            };
            pattern.parts[pattern.count] = part;
            pattern.count += 1;
        }
        pattern
    }

    /// The pattern as it is declared.
    pub const fn text(&self) -> &'static str {
        self.text
    }

    /// The parts in order.
    pub fn parts(&self) -> &[PatternPart] {
        &self.parts[..self.count]
    }

    /// The kinds of the identifiers in order.
    pub fn ids(&self) -> impl Iterator<Item = IdKind> {
        self.parts().iter().filter_map(|part| match part {
            PatternPart::Id(kind) => Some(*kind),
            PatternPart::Literal(_) | PatternPart::FixedHashTag(_) => None,
        })
    }

    /// The hash tag in cluster mode: the placeholder of an identifier or a fixed word.
    pub fn tag(&self) -> Option<&'static str> {
        match self.parts[self.tag?] {
            PatternPart::Id(kind) => Some(kind.name()),
            PatternPart::FixedHashTag(text) | PatternPart::Literal(text) => Some(text),
        }
    }

    /// Index of the part that is the hash tag.
    pub(crate) const fn tag_index(&self) -> Option<usize> {
        self.tag
    }

    /// Length of the literal parts in bytes, without braces.
    pub(crate) const fn literal_len(&self) -> usize {
        self.fixed_len
    }

    /// The pattern as text for people: `unread:{user}:{conv}`, in cluster mode `unread:{<user>}:<conv>` with literal
    /// braces.
    pub fn shown(&self, cluster: bool) -> String {
        let mut out = String::with_capacity(self.text.len() + 8);
        for (index, part) in self.parts().iter().enumerate() {
            let tag = cluster && self.tag == Some(index);
            let (open, close) = match (part, cluster, tag) {
                (PatternPart::Id(_), false, _) => ("{", "}"),
                (PatternPart::Id(_), true, true) => ("{<", ">}"),
                (PatternPart::Id(_), true, false) => ("<", ">"),
                (PatternPart::FixedHashTag(_), _, true) => ("{", "}"),
                (PatternPart::FixedHashTag(_) | PatternPart::Literal(_), _, _) => ("", ""),
            };
            out.push_str(open);
            out.push_str(match part {
                PatternPart::Literal(text) | PatternPart::FixedHashTag(text) => text,
                PatternPart::Id(kind) => kind.name(),
            });
            out.push_str(close);
        }
        out
    }
}

const fn parse_placeholder(word: &'static str) -> PatternPart {
    let mut i = 0;
    while i < IdKind::ALL.len() {
        if str_eq(IdKind::ALL[i].name(), word) {
            return PatternPart::Id(IdKind::ALL[i]);
        }
        i += 1;
    }
    let mut known = false;
    i = 0;
    while i < FIXED_TAGS.len() {
        known = known || str_eq(FIXED_TAGS[i], word);
        i += 1;
    }
    assert!(known, "the pattern names an unknown identifier");
    PatternPart::FixedHashTag(word)
}

/// Index of the first `byte`, or the length of the text.
const fn index_of(text: &str, byte: u8) -> usize {
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() && bytes[i] != byte {
        i += 1;
    }
    i
}

const fn str_eq(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}
