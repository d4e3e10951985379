//! Free ports on the loopback address.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::Context as _;

/// `N` different ports that were free a moment ago.
///
/// Another process may take one before it is used: whoever starts a server on it tries again with others.
///
/// # Errors
///
/// If the system has no free port left.
pub(crate) fn free<const N: usize>() -> anyhow::Result<[u16; N]> {
    let mut ports = [0; N];
    // All are held until the last is known, or one could be handed out twice.
    let mut held = Vec::with_capacity(N);
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on 127.0.0.1")?;
        *port = listener.local_addr().context("a listener without an address")?.port();
        held.push(listener);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    #[test]
    fn ports_differ_and_are_free() {
        let ports: [u16; 8] = super::free().expect("ports");
        let distinct: std::collections::BTreeSet<_> = ports.iter().collect();
        assert_eq!(distinct.len(), ports.len());
        for port in ports {
            std::net::TcpListener::bind(("127.0.0.1", port)).expect("free");
        }
    }
}
