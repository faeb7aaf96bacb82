//! A server of IRC that takes no more connections from this address.

use salon_bridges::config::BridgeConfig;
use salon_bridges::irc;
use salon_bridges::platform::CheckVerdict;
use salon_testkit::Scratch;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

/// As ngircd 26 says it beyond `MaxConnectionsIP`.
const REFUSAL: &[u8] = b"ERROR :Connection refused, too many connections from your IP address!\r\n";

#[tokio::test]
async fn a_limit_of_connections_is_named_with_what_to_do() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        stream.write_all(REFUSAL).await.expect("written");
        // Until the bridge has read it and gone: closing with unread bytes could take the refusal away.
        let mut rest = Vec::new();
        let _ = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut rest).await;
    });
    let folder = Scratch::new().expect("a folder");
    let section = format!("platform = 'irc'\nserver = '{address}'\nchannels = {{ '#lab' = 'room:lab' }}");
    let config = BridgeConfig::read("lab", &toml::from_str(&section).expect("TOML"), folder.path()).expect("a bridge");
    let findings = irc::open(&config).expect("a driver").check().await;
    let last = findings.last().expect("a finding");
    let CheckVerdict::Problem { detail, hint } = &last.verdict else { panic!("{findings:?}") };
    assert!(detail.contains("too many connections"), "{detail}");
    assert!(hint.contains("MaxConnectionsIP"), "{hint}");
    serving.await.expect("served");
}
