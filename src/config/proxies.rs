//! `TRUST_PROXY`: which socket peers may name the client's address (ENV-20, ENV-21).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The networks whose `X-Forwarded-For` is believed. Empty: the socket peer is the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<Network>);

/// An address and how many of its leading bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    prefix: u32,
}

const LOOPBACK: &[Network] = &[v4([127, 0, 0, 0], 8), v6(1, 128)];
const LINK_LOCAL: &[Network] = &[v4([169, 254, 0, 0], 16), v6(0xfe80 << 112, 10)];
const UNIQUE_LOCAL: &[Network] =
    &[v4([10, 0, 0, 0], 8), v4([172, 16, 0, 0], 12), v4([192, 168, 0, 0], 16), v6(0xfc00 << 112, 7)];

const fn v4([first, second, third, fourth]: [u8; 4], prefix: u32) -> Network {
    Network { address: IpAddr::V4(Ipv4Addr::new(first, second, third, fourth)), prefix }
}

const fn v6(bits: u128, prefix: u32) -> Network {
    Network { address: IpAddr::V6(Ipv6Addr::from_bits(bits)), prefix }
}

impl TrustedProxies {
    /// Reads entries of `TRUST_PROXY`; `Err` holds the position of the first that ENV-20 does not allow.
    pub(super) fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, usize> {
        let mut networks = Vec::new();
        for (position, entry) in entries.into_iter().enumerate() {
            match entry {
                "loopback" => networks.extend_from_slice(LOOPBACK),
                "linklocal" => networks.extend_from_slice(LINK_LOCAL),
                "uniquelocal" => networks.extend_from_slice(UNIQUE_LOCAL),
                other => networks.push(Network::parse(other).ok_or(position)?),
            }
        }
        Ok(Self(networks))
    }

    /// Whether a peer at `address` is one of the proxies. An IPv4 address inside IPv6 counts as the IPv4 address.
    #[must_use]
    pub fn trusts(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(address))
    }

    /// Whether half of all addresses or more are believed, so that practically everybody is.
    pub(super) fn trusts_everybody(&self) -> bool {
        self.0.iter().any(|network| network.prefix <= 1)
    }
}

impl Network {
    fn parse(entry: &str) -> Option<Self> {
        let (address, prefix) = match entry.split_once('/') {
            Some((address, prefix)) => (address.parse::<IpAddr>().ok()?, Some(decimal(prefix)?)),
            None => (entry.parse::<IpAddr>().ok()?, None),
        };
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(longest);
        (prefix <= longest).then_some(Self { address, prefix })
    }

    fn contains(self, other: IpAddr) -> bool {
        let differing = match (self.address, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => (own.to_bits() ^ other.to_bits()).leading_zeros(),
            (IpAddr::V6(own), IpAddr::V6(other)) => (own.to_bits() ^ other.to_bits()).leading_zeros(),
            _ => return false,
        };
        differing >= self.prefix
    }
}

/// Digits only: no sign, not empty, no second slash.
fn decimal(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusts(entry: &str, address: &str) -> bool {
        TrustedProxies::parse([entry]).unwrap().trusts(address.parse().unwrap())
    }

    /// ENV-20
    #[test]
    fn entries_are_presets_addresses_or_networks() {
        for good in
            ["loopback", "10.0.0.1", "::1", "10.0.0.0/8", "0.0.0.0/0", "fd00::/8", "1.2.3.4/32", "::/128"]
        {
            assert!(TrustedProxies::parse([good]).is_ok(), "{good}");
        }
        let bad = [
            "10.0.0.0/33",
            "::/129",
            "proxy.internal",
            "10.0.0.0/8/8",
            "10.0.0.0/+8",
            "10.0.0.0/-1",
            "10.0.0.0/",
            "10.0.0",
            "Loopback",
            "fe80::1%eth0",
            "/8",
            "10.0.0.0/8 ",
            "10.0.0.0/99999999999",
        ];
        for entry in bad {
            assert_eq!(TrustedProxies::parse(["loopback", entry]), Err(1), "{entry}");
        }
    }

    /// ENV-21
    #[test]
    fn presets_mean_their_networks() {
        for (preset, inside, outside) in [
            ("loopback", ["127.9.9.9", "::1"], ["128.0.0.1", "::2"]),
            ("linklocal", ["169.254.1.1", "febf::1"], ["169.253.1.1", "fec0::1"]),
            ("uniquelocal", ["172.31.255.255", "fdff::1"], ["172.32.0.0", "fe00::1"]),
            ("uniquelocal", ["10.255.0.1", "192.168.7.7"], ["11.0.0.0", "192.169.0.0"]),
        ] {
            for address in inside {
                assert!(trusts(preset, address), "{preset} {address}");
            }
            for address in outside {
                assert!(!trusts(preset, address), "{preset} {address}");
            }
        }
    }

    /// ENV-20: the empty list trusts nobody; an address alone means itself.
    #[test]
    fn an_address_alone_means_itself_and_nothing_means_nobody() {
        assert!(!TrustedProxies::default().trusts("127.0.0.1".parse().unwrap()));
        assert!(trusts("10.0.0.1", "10.0.0.1"));
        assert!(trusts("10.0.0.1", "::ffff:10.0.0.1"));
        assert!(!trusts("10.0.0.1", "10.0.0.2"));
        assert!(trusts("0.0.0.0/0", "9.9.9.9"));
        assert!(!trusts("0.0.0.0/0", "2001:db8::1"));
    }
}
