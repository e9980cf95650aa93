//! IP addresses as limiter ids.
//!
//! Invariant: all notations of an address, and all addresses of one IPv6 /64 network, give the same limiter id.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use super::{IdKind, InvalidId};

/// Validates a limiter id and normalizes an IPv6 address to its /64 network.
pub(super) fn normalize(text: &str) -> Result<Arc<str>, InvalidId> {
    IdKind::Limiter.validate(text)?;
    // This check is cheaper than the address parser, and most limiter ids (`user:123`) are no addresses.
    let may_be_ipv6 = text.contains(':')
        && text
            .bytes()
            .all(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'));
    match text.parse::<Ipv6Addr>() {
        Ok(address) if may_be_ipv6 => Ok(client_network(IpAddr::V6(address)).to_string().into()),
        _ => Ok(Arc::from(text)),
    }
}

/// The network that counts as one client: the address itself for IPv4, the /64 network for IPv6, because one customer
/// owns all of it.
pub fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}
