//! Client IP address of a request: the TCP peer, or the address that trusted proxies forward.
//!
//! Invariants:
//! 1. A client cannot choose its address. `X-Forwarded-For` is read from the right, only as far as trusted proxies have
//!    written it; an entry that cannot be parsed ends the search.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::HeaderMap;
use ipnet::IpNet;

/// Header to which each proxy appends the address of its client.
const X_FORWARDED_FOR: &str = "x-forwarded-for";

/// IP address of the TCP peer, attached to each request of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddress(pub IpAddr);

/// Parses an IP network in CIDR notation. A single address is a network with the full prefix length.
pub fn parse_network(text: &str) -> Option<IpNet> {
    let address = || text.parse().ok().map(|address: IpAddr| address.into());
    text.parse().ok().or_else(address)
}

/// True if the host name or address of a URL is the loopback interface of this machine.
pub fn is_loopback_host(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse();
    host == "localhost" || address.is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Trusted proxies. Cloning copies a pointer.
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies(Arc<[IpNet]>);

impl TrustedProxies {
    /// Trusts the proxies in `networks`.
    pub fn new(networks: &[IpNet]) -> Self {
        Self(networks.into())
    }

    /// Client address of a request that arrived from the TCP peer `peer`.
    pub fn client_address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        let lines = headers.get_all(X_FORWARDED_FOR).iter().rev();
        for line in lines {
            // Proxies write ASCII. A line with other bytes comes from the client.
            let Ok(line) = line.to_str() else {
                return client;
            };
            for entry in line.rsplit(',') {
                if !self.is_trusted(client) {
                    return client;
                }
                match parse_forwarded_entry(entry.trim()) {
                    Some(address) => client = address,
                    None => return client,
                }
            }
        }
        client
    }

    fn is_trusted(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
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

    fn networks(list: &[&str]) -> Vec<IpNet> {
        list.iter()
            .map(|text| parse_network(text).unwrap())
            .collect()
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
            let address: IpAddr = address.parse().unwrap();
            let found = networks(&[network])[0].contains(&address);
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
            assert_eq!(parse_network(wrong), None, "{wrong}");
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
