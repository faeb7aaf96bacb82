use std::net::IpAddr;

/// Whether a host, as it stands in a URL, is this machine.
pub fn is_loopback(host: &str) -> bool {
    let name = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_several_names() {
        for host in ["localhost", "LOCALHOST", "127.0.0.1", "127.8.7.6", "[::1]", "::1"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["", "localhost.example", "127.0.0.1.example", "10.0.0.1", "[::2]", "[::1].example"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
