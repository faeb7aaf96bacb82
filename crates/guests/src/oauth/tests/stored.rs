//! Tokens on disk.

use std::os::unix::fs::PermissionsExt;

use salon_testkit::Scratch;

use super::*;

#[test]
fn tokens_are_stored_for_their_owner_alone() {
    let scratch = Scratch::new().unwrap();
    let store = TokenStore::new(scratch.path().join("guests"));
    let url = ResourceUrl::parse("https://mcp.example/mcp").unwrap();
    let other = ResourceUrl::parse("https://mcp.example/other").unwrap();
    assert!(store.read(&url).unwrap().is_none() && store.all().unwrap().is_empty() && !store.forget(&url).unwrap());
    let tokens = browsing().redirect("code=c1&state=state&iss=https%3A%2F%2Fid.example").ok(TOKENS).tokens.unwrap();
    let path = store.write(&url, &tokens).unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    assert_eq!(store.read(&url).unwrap().as_ref(), Some(&tokens));
    assert_eq!(store.all().unwrap(), [tokens]);
    // Under another name they are not the other server's.
    std::fs::copy(&path, store.path(&other)).unwrap();
    assert!(store.read(&other).unwrap().is_none());

    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let why = store.read(&url).unwrap_err().to_string();
    assert!(why.contains("open to other users (mode 640)"), "{why}");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&path, "{\"access_token\":\"hunter2\"").unwrap();
    let why = store.read(&url).unwrap_err().to_string();
    assert!(why.contains("delete it") && !why.contains("hunter2"), "{why}");
    assert!(store.forget(&url).unwrap() && store.read(&url).unwrap().is_none());
}

#[test]
fn all_tokens_are_forgotten_those_as_well_that_cannot_be_read() {
    let scratch = Scratch::new().unwrap();
    let store = TokenStore::new(scratch.path().join("guests"));
    assert!(matches!(store.forget_all(), (none, Ok(())) if none.is_empty()));
    let tokens = browsing().redirect("code=c1&state=state&iss=https%3A%2F%2Fid.example").ok(TOKENS).tokens.unwrap();
    store.write(&ResourceUrl::parse("https://mcp.example/mcp").unwrap(), &tokens).unwrap();
    let broken = store.path(&ResourceUrl::parse("https://mcp.example/broken").unwrap());
    std::fs::write(&broken, "{").unwrap();
    let (mut forgotten, outcome) = store.forget_all();
    forgotten.sort();
    assert_eq!(forgotten, [broken.display().to_string(), tokens.url]);
    assert!(outcome.is_ok() && store.all().unwrap().is_empty());
}

#[test]
fn the_newer_tokens_are_taken_wherever_they_are() {
    let first = browsing().redirect("code=c1&state=state&iss=https%3A%2F%2Fid.example").ok(TOKENS).tokens.unwrap();
    let answer = |body: &str| OAuthAnswer { status: StatusCode::OK, body: body.into() };
    let second = first.refreshed(&answer(&TOKENS.replace("a1", "a2")), NOW).unwrap();
    let newer = |stored: Option<&OAuthTokens>, held| {
        OAuthTokens::newer(stored.cloned(), held).map(|tokens| tokens.access_token)
    };
    assert_eq!(newer(Some(&first), Some(&second)).as_deref(), Some("a2"));
    assert_eq!(newer(Some(&second), Some(&first)).as_deref(), Some("a2"));
    assert_eq!(newer(None, Some(&first)).as_deref(), Some("a1"));
    assert_eq!(newer(Some(&first), None).as_deref(), Some("a1"));
    assert_eq!(newer(None, None), None);
    // A sign-in of later is newer than any number of refreshes, also by a process that does not know of them.
    assert!(second.generation < NOW + 60);
    let mut third = first.clone();
    third.follow(&second);
    assert!(third.generation > second.generation);
}

#[test]
fn a_lock_that_another_process_keeps_is_not_waited_for_without_end() {
    let scratch = Scratch::new().unwrap();
    let store = TokenStore::new(scratch.path().join("guests"));
    let url = ResourceUrl::parse("https://mcp.example/mcp").unwrap();
    let lock = store.lock(&url).unwrap();
    let why = store.lock_within(&url, Duration::ZERO).unwrap_err();
    assert!(why.to_string().contains("locked it for too long") && !why.is_final(), "{why}");
    drop(lock);
    store.lock_within(&url, Duration::ZERO).unwrap();
}
