//! Recognises keys and channels.
//!
//! Invariant: a name that [`Keyspace`] builds is recognised as exactly the declaration and identifiers that it was built from.
//! This holds because no identifier is a reserved word, and only the last identifier of a key can contain `:`.

use super::keyspace::Keyspace;
use super::pattern::PatternPart;
use super::spec::{KeyGroup, KeySpec};
use crate::ids::IdKind;
use crate::keys::registry;

/// A recognised name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyMatch<'a> {
    /// Group of the declaration.
    pub group: &'static KeyGroup,
    /// Declaration of the key or channel.
    pub spec: &'static KeySpec,
    /// Identifiers in the name, in order.
    pub ids: Vec<(IdKind, &'a str)>,
}

impl Keyspace {
    /// The declaration of a stored key; `None` if no declaration of the configured layouts fits.
    pub fn match_key<'a>(&self, name: &'a [u8]) -> Option<KeyMatch<'a>> {
        self.matching_specs(name)
            .find(|found| !found.spec.kind.is_channel())
    }

    /// All declarations of the configured layouts that fit the name. Tests check that there is at most one.
    pub fn matching_specs<'a>(&self, name: &'a [u8]) -> impl Iterator<Item = KeyMatch<'a>> {
        let text = std::str::from_utf8(name).ok();
        registry::active_specs(&self.settings().layouts).filter_map(move |(group, spec)| {
            let ids = self.parse_name(spec, text?)?;
            Some(KeyMatch { group, spec, ids })
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
                    rest = rest.strip_prefix(text)?;
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
        kind.validate(id).is_ok()
            && (kind != IdKind::Endpoint || id[method..].starts_with(separator))
    }
}

/// Length of an identifier in bytes. No identifier contains a brace, and only the last one of a key may contain `:`.
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
