//! Who a request comes from (RATE-5): the socket's peer, or whoever a trusted proxy names.

use std::net::{IpAddr, SocketAddr};

use actix_web::http::header::{HeaderMap, HeaderName};

use crate::config::TrustedProxies;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The client's address: walking `X-Forwarded-For` from the right, the first address that is no trusted proxy. When
/// all of them are, the leftmost. An entry that is no address ends the walk: what stands left of it is anybody's word.
pub(super) fn client_address(peer: IpAddr, headers: &HeaderMap, proxies: &TrustedProxies) -> IpAddr {
    let mut client = peer.to_canonical();
    if !proxies.trusts(client) {
        return client;
    }
    let lines: Vec<&str> = headers.get_all(FORWARDED_FOR).filter_map(|line| line.to_str().ok()).collect();
    for entry in lines.iter().rev().flat_map(|line| line.rsplit(',')) {
        let Some(address) = address(entry.trim()) else { break };
        client = address;
        if !proxies.trusts(client) {
            break;
        }
    }
    client
}

/// An address, with or without a port, as proxies write them.
fn address(entry: &str) -> Option<IpAddr> {
    let bare = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(entry);
    let found = bare.parse::<IpAddr>().ok().or_else(|| Some(entry.parse::<SocketAddr>().ok()?.ip()))?;
    Some(found.to_canonical())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use actix_web::http::header::HeaderValue;

    use super::*;
    use crate::config::Settings;

    fn proxies(entries: &str) -> TrustedProxies {
        let variables: BTreeMap<String, String> = [
            ("TRUST_PROXY", entries),
            ("AGENT_MODEL", "mock:demo"),
            ("PUBLIC_BASE_URL", "https://agent.example"),
            ("MANYCHAT_SHARED_SECRET", "sixteen-characters-and-more"),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
        Settings::from_vars(&variables).unwrap().0.trusted_proxies()
    }

    fn client(trusted: &str, peer: &str, lines: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FORWARDED_FOR, HeaderValue::from_str(line).unwrap());
        }
        client_address(peer.parse().unwrap(), &headers, &proxies(trusted)).to_string()
    }

    /// RATE-5, RATE-6, AC-CH-4: without a listed peer the header is anybody's word.
    #[test]
    fn the_peer_is_the_client_unless_it_is_a_proxy() {
        assert_eq!(client("", "203.0.113.9", &["198.51.100.1"]), "203.0.113.9");
        assert_eq!(client("10.0.0.0/8", "203.0.113.9", &["198.51.100.1"]), "203.0.113.9");
        assert_eq!(client("loopback", "127.0.0.1", &[]), "127.0.0.1");
        assert_eq!(client("", "::ffff:203.0.113.9", &[]), "203.0.113.9");
    }

    /// RATE-5: from the right, past the listed proxies, over several header lines.
    #[test]
    fn the_first_unlisted_address_from_the_right_is_the_client() {
        let trusted = "loopback, 10.0.0.0/8";
        assert_eq!(client(trusted, "127.0.0.1", &["198.51.100.1"]), "198.51.100.1");
        assert_eq!(client(trusted, "127.0.0.1", &["192.0.2.66, 198.51.100.1, 10.1.1.1"]), "198.51.100.1");
        assert_eq!(
            client(trusted, "127.0.0.1", &["192.0.2.66, 198.51.100.1", "10.1.1.1,10.2.2.2"]),
            "198.51.100.1"
        );
        assert_eq!(client(trusted, "127.0.0.1", &["10.9.9.9, 10.1.1.1"]), "10.9.9.9", "all of them listed");
        assert_eq!(client(trusted, "::ffff:127.0.0.1", &["::ffff:198.51.100.1"]), "198.51.100.1");
    }

    /// RATE-5: ports are no part of an address; what is no address is not believed, nor what stands left of it.
    #[test]
    fn odd_entries_are_read_or_end_the_walk() {
        for (line, expected) in [
            ("198.51.100.1:4711", "198.51.100.1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
            ("198.51.100.1, unknown", "127.0.0.1"),
            ("198.51.100.1, ", "127.0.0.1"),
            ("198.51.100.1, not an address, 127.0.0.2", "127.0.0.2"),
            ("", "127.0.0.1"),
        ] {
            assert_eq!(client("loopback", "127.0.0.1", &[line]), expected, "{line:?}");
        }
    }
}
