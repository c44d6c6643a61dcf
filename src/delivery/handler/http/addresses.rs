//! Which addresses a handler outside the cluster may have.
//!
//! A URL is written by whoever may create a ConsumerGroup, but the request is sent from inside the
//! cluster. So that nobody can reach through it what only the cluster can reach, names are
//! resolved here, what is not allowed is left out, and the connection is made to what remains: a
//! name that answers differently a moment later has no effect.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::TargetError;

/// Which addresses are allowed. Never allowed are loopback, link-local (where clouds serve
/// metadata and credentials), unspecified, multicast and reserved ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressRules {
    /// Whether private ranges (RFC 1918, RFC 6598, RFC 4193) are allowed.
    pub allow_private: bool,
}

impl AddressRules {
    /// Whether a connection to `address` is allowed. An IPv6 address that stands for an IPv4 one
    /// is judged by that.
    #[must_use]
    pub fn allows(self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.allows_v4(address),
            IpAddr::V6(address) => match embedded_v4(address) {
                Some(embedded) => self.allows_v4(embedded),
                None => self.allows_v6(address),
            },
        }
    }

    /// Refuses a URL that names no host or an address that is not allowed: no resolver is asked
    /// about an address.
    ///
    /// # Errors
    /// [`TargetError::NotHttp`] or [`TargetError::Address`].
    pub fn check_url(self, url: &Url) -> Result<(), TargetError> {
        let host = url.host_str().ok_or(TargetError::NotHttp)?;
        match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            Ok(address) if !self.allows(address) => Err(TargetError::Address(address)),
            _ => Ok(()),
        }
    }

    fn allows_v4(self, address: Ipv4Addr) -> bool {
        let [a, b, c, _] = address.octets();
        let never = address.is_loopback()
            || address.is_link_local()
            || address.is_multicast()
            || a == 0
            || a >= 240
            // Of IETF protocols, documentation and benchmarks; Oracle's and Alibaba's metadata.
            || matches!((a, b, c), (192, 0, 0 | 2) | (198, 18 | 19, _) | (198, 51, 100) | (203, 0, 113))
            || address == Ipv4Addr::new(100, 100, 100, 200)
            // Azure's host, which answers as metadata and DNS server.
            || address == Ipv4Addr::new(168, 63, 129, 16);
        let private = address.is_private() || (a == 100 && (64..128).contains(&b));
        !never && (self.allow_private || !private)
    }

    fn allows_v6(self, address: Ipv6Addr) -> bool {
        let first = address.segments()[0];
        let never = address.is_loopback()
            || address.is_unspecified()
            || address.is_multicast()
            || address.is_unicast_link_local()
            || first & 0xffc0 == 0xfec0
            || (first == 0x2001 && address.segments()[1] == 0xdb8)
            // AWS serves metadata here.
            || address == Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
        !never && (self.allow_private || !address.is_unique_local())
    }
}

/// The IPv4 address inside a mapped, compatible, translated (RFC 6052), 6to4 or Teredo address.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match segments {
        [0, 0, 0, 0, 0, 0xffff, high, low] => Some(v4(high, low)),
        [0, 0, 0, 0, 0xffff, 0, high, low] => Some(v4(high, low)),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(v4(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(v4(high, low)),
        [0x64, 0xff9b, 1, _, _, _, high, low] => Some(v4(high, low)),
        [0x2002, high, low, ..] => Some(v4(high, low)),
        [0x2001, 0, .., high, low] => Some(v4(!high, !low)),
        _ => None,
    }
}

/// Resolves names and leaves out what is not allowed.
#[derive(Clone, Copy, Debug)]
pub(super) struct FilteringResolver(AddressRules);

impl FilteringResolver {
    pub(super) fn new(rules: AddressRules) -> Self {
        Self(rules)
    }
}

/// The name resolves to nothing that may be connected to.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoAllowedAddress;

impl fmt::Display for NoAllowedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("all addresses of the host are loopback, link-local, private or reserved, where a URL may not lead")
    }
}

impl std::error::Error for NoAllowedAddress {}

/// The name does not resolve.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unresolved;

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of the host cannot be resolved")
    }
}

impl std::error::Error for Unresolved {}

impl Resolve for FilteringResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let rules = self.0;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0))
                .await
                .map_err(|_| Unresolved)?;
            let allowed: Vec<SocketAddr> = found.filter(|address| rules.allows(address.ip())).collect();
            if allowed.is_empty() {
                return Err(NoAllowedAddress.into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}
