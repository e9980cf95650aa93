//! Client IP address of a request: the TCP peer, or the address that trusted proxies forward.
//!
//! Invariants:
//! 1. A client cannot choose its address. `X-Forwarded-For` is read from the right, only as far as trusted proxies have
//!    written it; an entry that cannot be parsed ends the search.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use axum::http::HeaderMap;

/// Header to which each proxy appends the address of its client.
const X_FORWARDED_FOR: &str = "x-forwarded-for";

/// IP address of the TCP peer, attached to each request of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddress(pub IpAddr);

/// IP network in CIDR notation. A single address is a network with the full prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpNetwork {
    address: IpAddr,
    prefix_len: u8,
}

/// Parse error: the text is neither an IP address nor a CIDR network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an address like 10.0.0.1 or a network like 10.0.0.0/8")]
pub struct ParseIpNetworkError;

impl FromStr for IpNetwork {
    type Err = ParseIpNetworkError;

    fn from_str(text: &str) -> Result<Self, ParseIpNetworkError> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| ParseIpNetworkError)?;
        let most = address_bits(address);
        let bits = match bits {
            // `parse` would accept a leading `+`.
            Some(bits) if bits.bytes().all(|b| b.is_ascii_digit()) => {
                bits.parse().map_err(|_| ParseIpNetworkError)?
            }
            Some(_) => return Err(ParseIpNetworkError),
            None => most,
        };
        if bits > most {
            return Err(ParseIpNetworkError);
        }
        Ok(Self {
            address,
            prefix_len: bits,
        })
    }
}

impl fmt::Display for IpNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_len)
    }
}

impl IpNetwork {
    /// True if `address` is in this network.
    pub fn contains(&self, address: IpAddr) -> bool {
        let cut = |number: u128, width: u32| {
            let rest = width - u32::from(self.prefix_len);
            number.checked_shr(rest).unwrap_or_default()
        };
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                cut(own.to_bits().into(), 32) == cut(other.to_bits().into(), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                cut(own.to_bits(), 128) == cut(other.to_bits(), 128)
            }
            _ => false,
        }
    }
}

const fn address_bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// Trusted proxies. Cloning copies a pointer.
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies(Arc<[IpNetwork]>);

impl TrustedProxies {
    /// Trusts the proxies in `networks`.
    pub fn new(networks: &[IpNetwork]) -> Self {
        Self(networks.into())
    }

    /// Client address of a request that arrived from the TCP peer `peer`.
    pub fn client_address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut caller = peer.to_canonical();
        let lines = headers.get_all(X_FORWARDED_FOR).iter().rev();
        for line in lines {
            // Proxies write ASCII. A line with other bytes comes from the client.
            let Ok(line) = line.to_str() else {
                return caller;
            };
            for entry in line.rsplit(',') {
                if !self.is_trusted(caller) {
                    return caller;
                }
                match parse_forwarded_entry(entry.trim()) {
                    Some(address) => caller = address,
                    None => return caller,
                }
            }
        }
        caller
    }

    fn is_trusted(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }
}

/// Parses one entry; some proxies add the port.
fn parse_forwarded_entry(entry: &str) -> Option<IpAddr> {
    let with_port = || entry.parse().map(|it: std::net::SocketAddr| it.ip());
    let bracketed = || {
        let inside = entry.strip_prefix('[')?.strip_suffix(']')?;
        inside.parse().ok().filter(IpAddr::is_ipv6)
    };
    let address = entry.parse().or_else(|_| with_port()).ok();
    address.or_else(bracketed).map(|it| it.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(list: &[&str]) -> Vec<IpNetwork> {
        list.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn caller(trusted: &[&str], peer: &str, lines: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(X_FORWARDED_FOR, line.parse().unwrap());
        }
        let proxies = TrustedProxies::new(&networks(trusted));
        proxies
            .client_address(peer.parse().unwrap(), &headers)
            .to_string()
    }

    #[test]
    fn a_cidr_network_contains_addresses_with_its_prefix() {
        for (network, address, holds) in [
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("10.0.0.0/8", "10.255.3.4", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "2001:db8::1", true),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::1", "::1", true),
        ] {
            let found = networks(&[network])[0].contains(address.parse().unwrap());
            assert_eq!(found, holds, "{network} {address}");
        }
        for wrong in [
            "",
            "localhost",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "10.0.0.0/",
            "::/129",
            "10.0.0",
        ] {
            assert_eq!(
                wrong.parse::<IpNetwork>(),
                Err(ParseIpNetworkError),
                "{wrong}"
            );
        }
    }

    #[test]
    fn without_a_trusted_proxy_the_peer_is_the_caller() {
        assert_eq!(caller(&[], "192.0.2.7", &["203.0.113.9"]), "192.0.2.7");
        let trusted = ["10.0.0.0/8"];
        assert_eq!(caller(&trusted, "192.0.2.7", &["203.0.113.9"]), "192.0.2.7");
        assert_eq!(caller(&trusted, "10.0.0.1", &[]), "10.0.0.1");
    }

    #[test]
    fn the_rightmost_untrusted_forwarded_address_is_the_client() {
        let trusted = ["10.0.0.0/8", "2001:db8::/32"];
        for (lines, found) in [
            (&["203.0.113.9"][..], "203.0.113.9"),
            (&["1.1.1.1, 203.0.113.9"], "203.0.113.9"),
            (&["1.1.1.1, 203.0.113.9, 10.1.1.1"], "203.0.113.9"),
            (&["1.1.1.1", "203.0.113.9 ,10.1.1.1"], "203.0.113.9"),
            (&["203.0.113.9:4711, 2001:db8::7"], "203.0.113.9"),
            (&["[2001:db9::1]:80"], "2001:db9::1"),
            (&["[2001:db9::1]"], "2001:db9::1"),
            (&["::ffff:203.0.113.9"], "203.0.113.9"),
            (&["10.2.2.2, 10.3.3.3"], "10.2.2.2"),
        ] {
            assert_eq!(caller(&trusted, "10.0.0.1", lines), found, "{lines:?}");
        }
        assert_eq!(caller(&trusted, "::ffff:10.0.0.1", &["1.1.1.1"]), "1.1.1.1");
    }

    #[test]
    fn an_unparsable_forwarded_entry_stops_the_search_at_the_last_trusted_address() {
        let trusted = ["10.0.0.0/8"];
        for (lines, found) in [
            (&["unknown"][..], "10.0.0.1"),
            (&["1.1.1.1, "], "10.0.0.1"),
            (&["1.1.1.1, x, 10.7.7.7"], "10.7.7.7"),
            (&["1.1.1.1", "f\u{f6}"], "10.0.0.1"),
            (&["[1.1.1.1]"], "10.0.0.1"),
        ] {
            let lines: Vec<_> = lines.to_vec();
            let mut headers = HeaderMap::new();
            for line in &lines {
                let value = axum::http::HeaderValue::from_bytes(line.as_bytes()).unwrap();
                headers.append(X_FORWARDED_FOR, value);
            }
            let proxies = TrustedProxies::new(&networks(&trusted));
            let peer = "10.0.0.1".parse().unwrap();
            assert_eq!(
                proxies.client_address(peer, &headers).to_string(),
                found,
                "{lines:?}"
            );
        }
    }
}
