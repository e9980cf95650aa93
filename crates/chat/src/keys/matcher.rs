//! Recognising keys and channels.
//!
//! Always true: a name that [`Keyspace`] can spell is recognised as what it was spelled from, and as nothing else.
//! Reserved words and the refusal of `:` in identifiers see to it.

use super::keyspace::Keyspace;
use super::pattern::Part;
use super::spec::{Capability, KeySpec};
use crate::ids::IdKind;
use crate::registry;

/// What a name was recognised as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match<'a> {
    /// Who owns it.
    pub capability: &'static Capability,
    /// Its declaration.
    pub spec: &'static KeySpec,
    /// The identifiers in it, in order.
    pub ids: Vec<(IdKind, &'a str)>,
}

impl Keyspace {
    /// The declaration a stored key belongs to; absent when no active layout declares it.
    pub fn match_key<'a>(&self, name: &'a [u8]) -> Option<Match<'a>> {
        self.matches(name)
            .find(|found| !found.spec.kind.is_channel())
    }

    /// The declaration a channel belongs to.
    pub fn match_channel<'a>(&self, name: &'a [u8]) -> Option<Match<'a>> {
        self.matches(name)
            .find(|found| found.spec.kind.is_channel())
    }

    /// Every declaration of the active layouts that fits the name. There is one at most; tests hold it to that.
    pub fn matches<'a>(&self, name: &'a [u8]) -> impl Iterator<Item = Match<'a>> {
        let text = std::str::from_utf8(name).ok();
        let layouts = &self.settings().layouts;
        registry::all()
            .filter(|(_, spec)| spec.layout.is_active(layouts))
            .filter_map(move |(capability, spec)| {
                let ids = self.fit(spec, text?)?;
                Some(Match {
                    capability,
                    spec,
                    ids,
                })
            })
    }

    fn fit<'a>(&self, spec: &KeySpec, name: &'a str) -> Option<Vec<(IdKind, &'a str)>> {
        if let Some(other) = self.renamed(spec) {
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
                Part::Literal(text) | Part::Tag(text) => rest = rest.strip_prefix(text)?,
                Part::Id(kind) => {
                    let (id, after) = rest.split_at(id_len(*kind, tagged, rest));
                    self.fits(*kind, id).then_some(())?;
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

    fn fits(&self, kind: IdKind, id: &str) -> bool {
        let separator = self.settings().endpoint_separator.name();
        let method = id.bytes().take_while(u8::is_ascii_uppercase).count();
        kind.check(id).is_ok() && (kind != IdKind::Endpoint || id[method..].starts_with(separator))
    }
}

/// How far an identifier goes: no identifier holds a brace, and only the last one may hold a `:`.
fn id_len(kind: IdKind, tagged: bool, rest: &str) -> usize {
    let end = if tagged {
        rest.find('}')
    } else if kind.runs_to_the_end() {
        None
    } else {
        rest.find(':')
    };
    end.unwrap_or(rest.len())
}
