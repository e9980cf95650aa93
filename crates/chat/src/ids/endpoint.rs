//! HTTP endpoints as identifiers.
//!
//! Always true: an endpoint is named by its route template, never by the path of a request, so their number is bounded.

use std::sync::Arc;

use super::{IdKind, InvalidId, KeyIdentifier};
use crate::keys::setting_enum;

setting_enum! {
    /// What stands between method and route in the counters' keys.
    pub enum EndpointSeparator for "stats.endpoint_separator" {
        /// `GET /v1/users`
        Space = " ",
        /// `GET_/v1/users`
        Underscore = "_",
    }
}

/// An HTTP method and a route template.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    spaced: Arc<str>,
    underscored: Arc<str>,
}

impl Endpoint {
    /// Takes a method and a route template, with parameters as `:id` or `{id}`. What no route matched is `*`.
    pub fn new(method: &str, route: &str) -> Result<Self, InvalidId> {
        let route = colon_form(route);
        let spaced = format!("{method} {route}");
        IdKind::Endpoint.check(&spaced)?;
        Ok(Self {
            spaced: spaced.into(),
            underscored: format!("{method}_{route}").into(),
        })
    }

    /// How the endpoint is spelled with this separator.
    pub fn with_separator(&self, separator: EndpointSeparator) -> &str {
        match separator {
            EndpointSeparator::Space => &self.spaced,
            EndpointSeparator::Underscore => &self.underscored,
        }
    }
}

impl KeyIdentifier for Endpoint {
    const KIND: IdKind = IdKind::Endpoint;

    fn as_str(&self) -> &str {
        &self.spaced
    }
}

/// `/users/{id}/files/{*rest}` as `/users/:id/files/*rest`: a brace in a key would be a hash tag.
fn colon_form(route: &str) -> String {
    let mut segments = Vec::new();
    for segment in route.split('/') {
        let parameter = segment.strip_prefix('{').and_then(|s| s.strip_suffix('}'));
        segments.push(match parameter {
            Some(name) if name.starts_with('*') => name.to_owned(),
            Some(name) => format!(":{name}"),
            None => segment.to_owned(),
        });
    }
    segments.join("/")
}
