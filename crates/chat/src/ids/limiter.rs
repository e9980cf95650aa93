//! Addresses as limiter ids.
//!
//! Always true: two spellings of one address are one limiter id, and so are two addresses of one IPv6 /64.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use super::{IdKind, InvalidId};

/// Checks a limiter id and brings an IPv6 address into its one form.
pub(super) fn prepare(text: &str) -> Result<Arc<str>, InvalidId> {
    IdKind::Limiter.check(text)?;
    // A short look keeps the address parser away from the usual `user:123`.
    let may_be_ipv6 = text.contains(':')
        && text
            .bytes()
            .all(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'));
    match text.parse::<Ipv6Addr>() {
        Ok(address) if may_be_ipv6 => Ok(client_network(IpAddr::V6(address)).into()),
        _ => Ok(Arc::from(text)),
    }
}

/// The network that counts as one client: the address itself in IPv4, the /64 in IPv6.
pub(super) fn client_network(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).to_string(),
    }
}
