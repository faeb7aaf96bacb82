//! `salon serve --health`: the health check of an image that has no other program in it.
//!
//! The address comes from the settings that the gateway itself reads. Deliberately absent: readiness. A gateway whose NATS servers
//! are away must not be restarted for that.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::anyhow;
use reqwest::Client;
use salon_gateway::config::Config;

use crate::hand_over;
use crate::trouble::Trouble;

const HEALTH_TIMEOUT: Duration = Duration::from_secs(4);

pub(crate) async fn run(config: &Config) -> Result<(), Trouble> {
    let scheme = if config.tls().is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}/health", reachable(config.listen));
    let client = Client::builder()
        .no_proxy()
        .timeout(HEALTH_TIMEOUT)
        // The certificate has the name that clients use, not this address. No secret is sent and only a status is read.
        .tls_danger_accept_invalid_certs(true)
        .build()
        .map_err(Trouble::failed)?;
    let answer = client.get(&url).send().await;
    match answer.and_then(reqwest::Response::error_for_status) {
        Ok(_) => hand_over(format_args!("{url} is healthy")),
        Err(error) => {
            let cause = anyhow!(error.without_url());
            Err(Trouble::failed(cause.context(format!("`{url}` is not healthy"))))
        }
    }
}

/// An address to connect to, for one to listen on.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let address = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(address, listen.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_are_reached_by_loopback() {
        let reached = |listen: &str| reachable(listen.parse().expect("an address")).to_string();
        assert_eq!(reached("0.0.0.0:8787"), "127.0.0.1:8787");
        assert_eq!(reached("[::]:8787"), "[::1]:8787");
        assert_eq!(reached("10.0.0.7:80"), "10.0.0.7:80");
    }
}
