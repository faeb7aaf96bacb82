//! The same question to several participants, and getting to know them.

use std::time::Duration;

use salon_client::protocol::Message;
use salon_client::{CallError, Discovery, Gather, Room, ToolCall, Toolbox};
use salon_testkit::{TestGateway, within};
use serde_json::json;

use crate::peers::{count, echo, stuck, until_sent};
use crate::stage::{entering, gateway, history, id};

/// A participant that votes the same each time.
async fn voter(gateway: &TestGateway, name: &str, vote: &'static str) -> Room {
    let toolbox = Toolbox::new(name)
        .tool("wait", "Votes", json!({"type": "object"}), move |_: ToolCall| async move { Ok(vote.into()) });
    entering(gateway, name).offer(toolbox).join().await.unwrap()
}

#[tokio::test]
async fn the_first_answer_cancels_the_others() {
    let gateway = gateway().await;
    let (toolbox, mut told) = stuck();
    let _slow = entering(&gateway, "slow").offer(toolbox).join().await.unwrap();
    let _quick = voter(&gateway, "quick", "yes").await;
    let alice = entering(&gateway, "alice").join().await.unwrap();
    // Known beforehand, so that its call is under way when the quick one answers.
    alice.peer(&id("slow")).server().await.unwrap();
    let asked = [id("slow"), id("quick"), id("absent"), id("quick")];
    let gathered = alice.gather(asked, "wait", &json!({})).strategy(Gather::First);
    let gathered = within("the first", gathered.into_future()).await.unwrap();
    assert_eq!(gathered.agreed.unwrap().text(), "yes");
    assert_eq!(gathered.answers.len(), 1);
    let missing: Vec<_> = gathered.missing.iter().map(|(who, why)| (who.as_str(), why)).collect();
    assert_eq!(missing.len(), 2, "{missing:?}");
    assert!(missing.iter().any(|(who, why)| *who == "slow" && matches!(why, CallError::Cancelled)), "{missing:?}");
    assert_eq!(within("the tool", told.recv()).await.unwrap(), Some("begun"));
    assert_eq!(within("the tool", told.recv()).await.unwrap(), Some("dropped"));
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn a_majority_decides_and_a_deadline_ends() {
    let gateway = gateway().await;
    let (toolbox, _told) = stuck();
    let _here = (
        voter(&gateway, "a", "tea").await,
        voter(&gateway, "b", "coffee").await,
        voter(&gateway, "c", "tea").await,
        entering(&gateway, "slow").offer(toolbox).join().await.unwrap(),
    );
    let alice = entering(&gateway, "alice").join().await.unwrap();
    let three = || ["a", "b", "c"].map(id);

    // A deadline beyond the end of time is as good as none.
    let everybody = alice.gather(three(), "wait", &()).deadline(Duration::MAX);
    let gathered = within("all", everybody.into_future()).await.unwrap();
    assert_eq!((gathered.answers.len(), gathered.missing.len()), (3, 0));
    assert!(gathered.agreed.is_none());

    let vote = alice.gather(three(), "wait", &()).strategy(Gather::Majority);
    assert_eq!(within("a majority", vote.into_future()).await.unwrap().agreed.unwrap().text(), "tea");

    // Two of four are no majority, and the fourth never says.
    let four = ["a", "b", "c", "slow"].map(id);
    let vote = alice.gather(four, "wait", &()).strategy(Gather::Majority).deadline(Duration::from_millis(300));
    let gathered = within("the deadline", vote.into_future()).await.unwrap();
    assert!(gathered.agreed.is_none());
    let why: Vec<_> = gathered.missing.iter().map(|(who, why)| (who.as_str(), why.to_string())).collect();
    assert!(why.contains(&("slow", "no answer in time".into())), "{why:?}");
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn tools_are_found_when_they_are_asked_for() {
    let gateway = gateway().await;
    let _bob = entering(&gateway, "bob").offer(echo()).join().await.unwrap();
    let _carol = entering(&gateway, "carol").offer(echo()).join().await.unwrap();
    let _dave = voter(&gateway, "dave", "yes").await;
    let odd = Toolbox::new("odd").method("tools/list", |_| async { Err(salon_client::RpcError::internal("broken")) });
    let _eve = entering(&gateway, "eve").offer(odd).join().await.unwrap();
    let alice = entering(&gateway, "alice").offer(echo()).join().await.unwrap();
    assert_eq!(count(&alice, "alice", "initialize").await, 0);

    let offers = within("every tool", alice.tools()).await.unwrap();
    let found: Vec<_> = offers.tools.iter().map(|(who, tool)| (who.as_str(), tool.name.as_str())).collect();
    assert_eq!(found, [("bob", "say"), ("carol", "say"), ("dave", "wait")]);
    let silent: Vec<_> = offers.silent.iter().map(|(who, why)| (who.as_str(), why.to_string())).collect();
    assert_eq!(silent, [("eve", "broken (-32603)".into())]);
    let whose: Vec<_> = alice.find_tool("say").await.into_iter().map(|(who, _)| who).collect();
    assert_eq!(whose, ["bob", "carol"].map(id));
    // Asked once, except for the one that failed.
    assert_eq!(count(&alice, "alice", "initialize").await, 4);
    assert_eq!(count(&alice, "alice", "tools/list").await, 5);

    let shy = entering(&gateway, "shy").discovery(Discovery::OnDemand).join().await.unwrap();
    assert!(shy.tools().await.tools.is_empty());
    shy.peer(&id("bob")).server().await.unwrap();
    assert_eq!(shy.tools().await.tools.len(), 1);
    assert_eq!(count(&alice, "shy", "initialize").await, 1);
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn eager_discovery_greets_participants_and_newcomers() {
    let gateway = gateway().await;
    let _bob = entering(&gateway, "bob").offer(echo()).join().await.unwrap();
    let eager = entering(&gateway, "alice").discovery(Discovery::Eager);
    let (alice, mut events) = eager.join_listening().await.unwrap();
    until_sent(&mut events, "alice", "tools/list").await;
    let _carol = entering(&gateway, "carol").offer(echo()).join().await.unwrap();
    until_sent(&mut events, "alice", "tools/list").await;
    assert_eq!(within("every tool", alice.tools()).await.unwrap().tools.len(), 2);
    assert_eq!(count(&alice, "alice", "initialize").await, 2);
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn strangers_are_greeted_a_few_at_a_time() {
    let gateway = gateway().await;
    let mut silent = Vec::new();
    for n in 0..6 {
        silent.push(entering(&gateway, &format!("silent-{n}")).answer_by_hand().join().await.unwrap());
    }
    let (alice, mut events) = entering(&gateway, "alice").greetings(2).join_listening().await.unwrap();
    let looking = tokio::spawn({
        let alice = alice.clone();
        async move { alice.tools().await }
    });
    for _ in 0..2 {
        until_sent(&mut events, "alice", "initialize").await;
    }
    // More would have been sent before this, by the same connection.
    alice.say("marker").await.unwrap();
    assert_eq!(count(&alice, "alice", "initialize").await, 2);
    // When one of them goes, the next is greeted.
    let greeted = history(alice.client()).await.into_iter().find_map(|envelope| match envelope.message() {
        Some(Message::Request { .. }) => Some(envelope.to()[0].clone()),
        _ => None,
    });
    let at = silent.iter().position(|room| Some(room.id()) == greeted.as_ref()).unwrap();
    silent.remove(at).leave().await;
    until_sent(&mut events, "alice", "initialize").await;
    looking.abort();
    gateway.stop().await.unwrap();
}
