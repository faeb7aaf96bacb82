//! Where tokens come from.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use salon_client::{Client, Gateway, Refreshing, Token, TokenCommand, TokenError, TokenFile, TokenProvider};
use salon_testkit::{Scratch, within};

use crate::stage::gateway;

async fn ask(provider: &impl TokenProvider, refresh: bool) -> Result<String, TokenError> {
    provider.token(refresh).await.map(|token| token.expose().to_owned())
}

#[tokio::test]
async fn a_file_is_read_again_when_it_changes() {
    let scratch = Scratch::new().unwrap();
    let path = scratch.path().join("token");
    let tokens = TokenFile::new(&path);
    let missing = ask(&tokens, false).await.unwrap_err();
    assert!(matches!(missing, TokenError::File { .. }), "{missing}");

    let write = |text: &str, age: u64| {
        std::fs::write(&path, text).unwrap();
        // Set, not waited for: clocks of file systems are coarse.
        let time = SystemTime::now() - Duration::from_secs(age);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    };
    write("one\n", 100);
    assert_eq!(ask(&tokens, false).await.unwrap(), "one");
    write("two\r\n", 50);
    assert_eq!(ask(&tokens, false).await.unwrap(), "two");
    // The same time, as when a clock is coarse: only a refusal brings it to light.
    let time = std::fs::metadata(&path).unwrap().modified().unwrap();
    std::fs::write(&path, "six").unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    assert_eq!(ask(&tokens, false).await.unwrap(), "two");
    assert_eq!(ask(&tokens, true).await.unwrap(), "six");
    write("\n", 10);
    assert!(ask(&tokens, false).await.unwrap_err().to_string().ends_with("has no token: it is empty"));
}

#[tokio::test]
async fn a_program_gives_tokens_and_never_tells_them_in_errors() {
    let sh = |script: &str| TokenCommand::new("sh", ["-c", script]);
    assert_eq!(ask(&sh("echo token"), false).await.unwrap(), "token");

    let failed = ask(&sh("echo secret; echo why >&2; exit 3"), false).await.unwrap_err();
    assert_eq!(failed.to_string(), r#"the token command "sh" failed (exit status: 3): why"#);
    assert!(!format!("{failed:?}").contains("secret"));
    let chatty = ask(&sh("echo one two secret"), false).await.unwrap_err();
    assert_eq!(chatty.to_string(), r#"the token command "sh" wrote no token: it is more than one word"#);
    let endless = within("an end", ask(&sh("exec yes secret"), false)).await.unwrap().unwrap_err();
    assert_eq!(endless.to_string(), r#"the token command "sh" wrote no token: it is longer than 64 KiB"#);
    let silent = sh("exec sleep 600").timeout(Duration::from_millis(50));
    let silent = within("a time-out", ask(&silent, false)).await.unwrap().unwrap_err();
    assert!(matches!(silent, TokenError::CommandTimedOut { .. }), "{silent}");
    let absent = ask(&TokenCommand::new("no-such-program-here", [""; 0]), false).await.unwrap_err();
    assert!(matches!(absent, TokenError::Command { .. }), "{absent}");
}

#[tokio::test]
async fn a_program_is_run_again_only_when_its_token_was_refused() {
    let scratch = Scratch::new().unwrap();
    let script = format!("cd '{}' && echo >> runs && wc -l < runs", scratch.path().display());
    let tokens = TokenCommand::new("sh", ["-c", &script]);
    assert_eq!(ask(&tokens, false).await.unwrap(), "1");
    assert_eq!(ask(&tokens, false).await.unwrap(), "1");
    assert_eq!(ask(&tokens, true).await.unwrap(), "2");
    assert_eq!(ask(&tokens, false).await.unwrap(), "2");
}

#[tokio::test]
async fn one_refresh_serves_everyone_who_wants_it() {
    let runs = Arc::new(AtomicU32::new(0));
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let tokens = Arc::new(Refreshing::new({
        let (runs, gate) = (runs.clone(), gate.clone());
        move || {
            let (runs, gate) = (runs.clone(), gate.clone());
            async move {
                gate.acquire().await.map_err(TokenError::provider)?.forget();
                Ok(Token::from((runs.fetch_add(1, Ordering::SeqCst) + 1).to_string()))
            }
        }
    }));
    let wanting: Vec<_> = (0..10).map(|n| tokens.token(n % 2 == 0)).collect();
    let wanting = futures_util::future::join_all(wanting);
    tokio::pin!(wanting);
    // All of them wait before the first is served.
    assert!(wanting.as_mut().now_or_never().is_none());
    gate.add_permits(1);
    for token in within("tokens", wanting).await.unwrap() {
        assert_eq!(token.unwrap().expose(), "1");
    }
    gate.add_permits(1);
    assert_eq!(ask(&tokens, true).await.unwrap(), "2");
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_refresh_that_fails_fails_once_for_everyone_who_waited() {
    let runs = Arc::new(AtomicU32::new(0));
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let tokens = Arc::new(Refreshing::new({
        let (runs, gate) = (runs.clone(), gate.clone());
        move || {
            let (runs, gate) = (runs.clone(), gate.clone());
            async move {
                gate.acquire().await.map_err(TokenError::provider)?.forget();
                runs.fetch_add(1, Ordering::SeqCst);
                Err(TokenError::provider("nobody is at home"))
            }
        }
    }));
    let wanting = futures_util::future::join_all((0..3).map(|_| tokens.token(false)));
    tokio::pin!(wanting);
    assert!(wanting.as_mut().now_or_never().is_none());
    gate.add_permits(1);
    for token in within("an end", wanting).await.unwrap() {
        assert_eq!(token.unwrap_err().to_string(), "nobody is at home");
    }
    gate.add_permits(1);
    assert!(within("another try", ask(&tokens, false)).await.unwrap().is_err());
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_token_that_expires_soon_is_replaced_before_it_does() {
    let gateway = gateway().await;
    let token = |expires: &str| {
        let mut token = salon_testkit::TestToken::new("alice");
        token.claim("expires", expires).unwrap();
        gateway.token(&token).unwrap()
    };
    let (expired, lasting) = (token("-60"), token("3600"));
    let runs = Arc::new(AtomicU32::new(0));
    let tokens = Refreshing::new({
        let runs = runs.clone();
        move || {
            let token = if runs.fetch_add(1, Ordering::SeqCst) == 0 { expired.clone() } else { lasting.clone() };
            async move { Ok(Token::from(token)) }
        }
    });
    tokens.token(false).await.unwrap();
    let client = Client::new(Gateway::new(&format!("http://{}", gateway.address())).unwrap(), tokens);
    client.topics().await.unwrap();
    client.topics().await.unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    gateway.stop().await.unwrap();
}
