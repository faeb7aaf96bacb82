//! IRC over TLS, with an account.

use std::sync::Arc;

use salon_bridges::config::BridgeConfig;
use salon_bridges::irc;
use salon_bridges::platform::{CheckFinding, CheckVerdict};
use salon_testkit::Scratch;
use salon_testkit::irc::FakeIrc;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

/// `bot` and `secret`, as SASL PLAIN has them in base64.
const CREDENTIALS: &str = "AGJvdABzZWNyZXQ=";

struct Stage {
    irc: Arc<FakeIrc>,
    port: u16,
    folder: Scratch,
    _serving: JoinSet<()>,
}

impl Stage {
    async fn set() -> Self {
        let folder = Scratch::new().expect("a folder");
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        std::fs::write(folder.path().join("ca.pem"), made.cert.pem()).expect("written");
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .expect("a certificate and its key");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let irc = Arc::new(FakeIrc::with_account(CREDENTIALS));
        let (mut serving, server) = (JoinSet::new(), irc.clone());
        serving.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if let Ok(encrypted) = acceptor.accept(stream).await {
                    server.serve(encrypted).await;
                }
            }
        });
        Self { irc, port, folder, _serving: serving }
    }

    async fn check(&self, password: &str, further: &str) -> Vec<CheckFinding> {
        let file = self.folder.path().join("password");
        std::fs::write(&file, password).expect("written");
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("private");
        let section = format!(
            "platform = 'irc'\nserver = 'localhost:{}'\ntls = true\naccount = 'bot'\naccount_password_file = 'password'\n\
             channels = {{ '#lab' = 'room:lab' }}\n{further}",
            self.port
        );
        let config = BridgeConfig::read("lab", &toml::from_str(&section).expect("TOML"), self.folder.path());
        irc::open(&config.expect("a bridge")).expect("a driver").check().await
    }
}

fn problems(findings: &[CheckFinding]) -> Vec<String> {
    let problem = |finding: &CheckFinding| match &finding.verdict {
        CheckVerdict::Problem { detail, .. } => Some(format!("{}: {detail}", finding.subject)),
        CheckVerdict::Fine { .. } => None,
    };
    findings.iter().filter_map(problem).collect()
}

#[tokio::test]
async fn a_server_with_a_certificate_and_an_account() {
    let stage = Stage::set().await;
    let findings = stage.check("secret", "ca_file = 'ca.pem'").await;
    assert_eq!(problems(&findings), Vec::<String>::new());
    assert_eq!(stage.irc.members().1, 1, "the bridge was in the channel");

    let wrong = problems(&stage.check("guessed", "ca_file = 'ca.pem'").await);
    assert_eq!(wrong, ["login: the account is not accepted: Wrong password"]);

    // A certificate that nobody vouches for.
    let unknown = problems(&stage.check("secret", "").await);
    assert!(unknown.len() == 1 && unknown[0].contains("cannot be reached: invalid peer certificate"), "{unknown:?}");
}
