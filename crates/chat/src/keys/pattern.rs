//! Patterns, taken apart when the program is compiled.
//!
//! Always true: a pattern that names an unknown identifier, or one that may hold a `:` anywhere but at the end, does not compile.

use crate::ids::IdKind;

/// Most parts of a pattern.
const MAX_PARTS: usize = 5;

/// Words in braces that are no identifier but a hash tag shared by keys that one step touches.
const FIXED_TAGS: &[&str] = &["stats"];

/// A piece of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Text that stands as it is.
    Literal(&'static str),
    /// An identifier.
    Id(IdKind),
    /// A fixed hash tag.
    Tag(&'static str),
}

/// A pattern such as `unread:{user}:{conv}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    text: &'static str,
    parts: [Part; MAX_PARTS],
    count: usize,
    /// The part that is the hash tag in cluster mode: the first one in braces.
    tag: Option<usize>,
    fixed_len: usize,
}

impl Pattern {
    /// Takes a pattern apart.
    pub(crate) const fn parse(text: &'static str) -> Self {
        let mut pattern = Self {
            text,
            parts: [Part::Literal(""); MAX_PARTS],
            count: 0,
            tag: None,
            fixed_len: 0,
        };
        let mut rest = text;
        while !rest.is_empty() {
            assert!(pattern.count < MAX_PARTS, "a pattern with too many parts");
            let part;
            (part, rest) = if rest.as_bytes()[0] == b'{' {
                let (word, after) = rest.split_at(find(rest, b'}'));
                let part = placeholder(word.split_at(1).1);
                if pattern.tag.is_none() {
                    pattern.tag = Some(pattern.count);
                }
                (part, after.split_at(1).1)
            } else {
                let (literal, after) = rest.split_at(find(rest, b'{'));
                (Part::Literal(literal), after)
            };
            pattern.fixed_len += match part {
                Part::Literal(text) | Part::Tag(text) => text.len(),
                Part::Id(kind) => {
                    assert!(
                        rest.is_empty() || !kind.runs_to_the_end(),
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

    /// The pattern as it is written in the documents.
    pub const fn text(&self) -> &'static str {
        self.text
    }

    /// Its pieces in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts[..self.count]
    }

    /// The identifiers in order.
    pub fn ids(&self) -> impl Iterator<Item = IdKind> {
        self.parts().iter().filter_map(|part| match part {
            Part::Id(kind) => Some(*kind),
            Part::Literal(_) | Part::Tag(_) => None,
        })
    }

    /// What the hash tag is in cluster mode: an identifier's placeholder or a fixed word.
    pub fn tag(&self) -> Option<&'static str> {
        match self.parts[self.tag?] {
            Part::Id(kind) => Some(kind.placeholder()),
            Part::Tag(text) | Part::Literal(text) => Some(text),
        }
    }

    /// Index of the part that is the hash tag.
    pub(crate) const fn tag_index(&self) -> Option<usize> {
        self.tag
    }

    /// Bytes of everything but identifiers and braces.
    pub(crate) const fn fixed_len(&self) -> usize {
        self.fixed_len
    }

    /// The pattern as it is shown: `unread:{user}:{conv}`, in cluster mode `unread:{<user>}:<conv>`, where the braces are literal.
    pub fn shown(&self, cluster: bool) -> String {
        let mut out = String::with_capacity(self.text.len() + 8);
        for (index, part) in self.parts().iter().enumerate() {
            let tag = cluster && self.tag == Some(index);
            let (open, close) = match (part, cluster, tag) {
                (Part::Id(_), false, _) => ("{", "}"),
                (Part::Id(_), true, true) => ("{<", ">}"),
                (Part::Id(_), true, false) => ("<", ">"),
                (Part::Tag(_), _, true) => ("{", "}"),
                (Part::Tag(_) | Part::Literal(_), _, _) => ("", ""),
            };
            out.push_str(open);
            out.push_str(match part {
                Part::Literal(text) | Part::Tag(text) => text,
                Part::Id(kind) => kind.placeholder(),
            });
            out.push_str(close);
        }
        out
    }
}

const fn placeholder(word: &'static str) -> Part {
    let mut i = 0;
    while i < IdKind::ALL.len() {
        if same(IdKind::ALL[i].placeholder(), word) {
            return Part::Id(IdKind::ALL[i]);
        }
        i += 1;
    }
    let mut known = false;
    i = 0;
    while i < FIXED_TAGS.len() {
        known = known || same(FIXED_TAGS[i], word);
        i += 1;
    }
    assert!(known, "a pattern names an identifier that is not known");
    Part::Tag(word)
}

/// Where `byte` is, or the end.
const fn find(text: &str, byte: u8) -> usize {
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() && bytes[i] != byte {
        i += 1;
    }
    i
}

const fn same(a: &str, b: &str) -> bool {
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
