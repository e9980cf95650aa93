//! HTTP endpoints as identifiers.
//!
//! Invariant: an endpoint is named by its route template and not by the path of a request, so the number of endpoints
//! is bounded.

use std::sync::Arc;

use super::{IdKind, InvalidId, KeyIdentifier};
use crate::keys::setting_enum;

setting_enum! {
    /// Character between method and route in the keys of counters.
    pub enum EndpointSeparator for "stats.endpoint_separator" {
        /// `GET /v1/users`
        Space = " ",
        /// `GET_/v1/users`
        Underscore = "_",
    }
}

/// HTTP method and route template.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    spaced: Arc<str>,
    underscored: Arc<str>,
}

impl Endpoint {
    /// Takes a method and a route template with parameters as `:id` or `{id}`. The route of unmatched requests is `*`.
    pub fn new(method: &str, route: &str) -> Result<Self, InvalidId> {
        let route = colon_form(route);
        let spaced = format!("{method} {route}");
        IdKind::Endpoint.check(&spaced)?;
        Ok(Self {
            spaced: spaced.into(),
            underscored: format!("{method}_{route}").into(),
        })
    }

    /// The endpoint with this separator.
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

/// Converts `/users/{id}/files/{*rest}` to `/users/:id/files/*rest`, because braces in a key would be a hash tag.
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
