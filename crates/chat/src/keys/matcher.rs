//! Recognising keys and channels.
//!
//! Always true: a name that [`Keyspace`] can spell is recognised as what it was spelled from, and as nothing else.
//! Reserved words and the refusal of `:` in identifiers see to it.

use super::keyspace::Keyspace;
use super::pattern::PatternPart;
use super::spec::{KeyGroup, KeySpec};
use crate::ids::IdKind;
use crate::registry;

/// What a name was recognised as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyMatch<'a> {
    /// Who owns it.
    pub capability: &'static KeyGroup,
    /// Its declaration.
    pub spec: &'static KeySpec,
    /// The identifiers in it, in order.
    pub ids: Vec<(IdKind, &'a str)>,
}

impl Keyspace {
    /// The declaration a stored key belongs to; absent when no active layout declares it.
    pub fn match_key<'a>(&self, name: &'a [u8]) -> Option<KeyMatch<'a>> {
        self.matching_specs(name)
            .find(|found| !found.spec.kind.is_channel())
    }

    /// The declaration a channel belongs to.
    pub fn match_channel<'a>(&self, name: &'a [u8]) -> Option<KeyMatch<'a>> {
        self.matching_specs(name)
            .find(|found| found.spec.kind.is_channel())
    }

    /// Every declaration of the active layouts that fits the name. There is one at most; tests hold it to that.
    pub fn matching_specs<'a>(&self, name: &'a [u8]) -> impl Iterator<Item = KeyMatch<'a>> {
        let text = std::str::from_utf8(name).ok();
        let layouts = &self.settings().layouts;
        registry::all()
            .filter(|(_, spec)| spec.layout.is_active(layouts))
            .filter_map(move |(capability, spec)| {
                let ids = self.parse_name(spec, text?)?;
                Some(KeyMatch {
                    capability,
                    spec,
                    ids,
                })
            })
    }

    fn parse_name<'a>(&self, spec: &KeySpec, name: &'a str) -> Option<Vec<(IdKind, &'a str)>> {
        if let Some(other) = self.channel_override(spec) {
            return (name == other).then(Vec::new);
        }
        let mut rest = name.strip_prefix(self.settings().prefix.as_str())?;
        let mut ids = Vec::new();
        for (index, part) in spec.pattern.parts().iter().enumerate() {
            let tagged = self.cluster() && spec.pattern.tag_index() == Some(index);
            if tagged {
                rest = rest.strip_prefix('{')?;
            }
            match part {
                PatternPart::Literal(text) | PatternPart::FixedHashTag(text) => {
                    rest = rest.strip_prefix(text)?
                }
                PatternPart::Id(kind) => {
                    let (id, after) = rest.split_at(id_len(*kind, tagged, rest));
                    self.is_valid_id(*kind, id).then_some(())?;
                    ids.push((*kind, id));
                    rest = after;
                }
            }
            if tagged {
                rest = rest.strip_prefix('}')?;
            }
        }
        rest.is_empty().then_some(ids)
    }

    fn is_valid_id(&self, kind: IdKind, id: &str) -> bool {
        let separator = self.settings().endpoint_separator.name();
        let method = id.bytes().take_while(u8::is_ascii_uppercase).count();
        kind.check(id).is_ok() && (kind != IdKind::Endpoint || id[method..].starts_with(separator))
    }
}

/// How far an identifier goes: no identifier holds a brace, and only the last one may hold a `:`.
fn id_len(kind: IdKind, tagged: bool, rest: &str) -> usize {
    let end = if tagged {
        rest.find('}')
    } else if kind.may_contain_colon() {
        None
    } else {
        rest.find(':')
    };
    end.unwrap_or(rest.len())
}
