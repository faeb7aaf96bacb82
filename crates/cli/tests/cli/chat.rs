//! The terminal room in a real terminal: tmux runs it, types and looks at its screen.

mod tmux;

use std::sync::Arc;

use insta::assert_snapshot;
use salon_client::mcp::{Elicitation, ElicitationAction};
use salon_client::{Client, Gateway as Place, Room, StaticToken, ToolCall, ToolError, Toolbox};
use salon_protocol::{ParticipantId, ParticipantKind, TopicName};
use salon_testkit::{TestEngine, TestGateway, TestOptions, TestToken, run, within};
use serde_json::json;
use tokio::sync::Notify;

use self::tmux::Pane;
use crate::salon::Home;

const TOPIC: &str = "room:alpha";

async fn gateway() -> TestGateway {
    TestGateway::start(TestOptions::new(TestEngine::Sqlite)).await.expect("a gateway")
}

fn token(gateway: &TestGateway, id: &str) -> String {
    gateway.token(&TestToken::new(id)).expect("a token")
}

fn client(gateway: &TestGateway, id: &str) -> Client {
    let place = Place::new(&format!("http://{}", gateway.address())).expect("an address");
    Client::new(place, StaticToken::new(token(gateway, id)))
}

async fn enter(gateway: &TestGateway, id: &str, kind: ParticipantKind, tools: Toolbox) -> Room {
    let topic = TopicName::new(TOPIC).expect("a topic");
    client(gateway, id).room(topic).kind(kind).offer(tools).join().await.expect("it enters")
}

/// A robot whose `move` gets half-way and then waits to be let go.
fn rover(go: Arc<Notify>) -> Toolbox {
    let schema = json!({
        "type": "object",
        "properties": {"x": {"type": "number", "description": "Metres east"}, "y": {"type": "number", "description": "Metres north"}},
        "required": ["x", "y"],
    });
    let none = json!({"type": "object", "properties": {}});
    Toolbox::new("rover")
        .tool("move", "Drives to a place", schema, move |call: ToolCall| {
            let go = go.clone();
            async move {
                call.progress(5.0, Some(10.0), Some("half-way")).await;
                go.notified().await;
                Ok(format!("arrived at ({}, {})", call.argument::<f64>("x")?, call.argument::<f64>("y")?).into())
            }
        })
        .tool("fail", "Does not work", none.clone(), |_| async { Err(ToolError::failed("the wheel is stuck")) })
        .tool("ask", "Asks where to", none, |call: ToolCall| async move {
            let schema = json!({"type": "object", "properties": {"place": {"type": "string"}, "metres": {"type": "integer"}},
                "required": ["place", "metres"]});
            let answer = call.elicit(&Elicitation::new("Where to?", &schema)).await?;
            let content = answer.content.map(|content| content.get().to_owned()).unwrap_or_default();
            let understood = answer.action == ElicitationAction::Accept && content == r#"{"place":"the shed","metres":3}"#;
            Ok(if understood { "off I go".into() } else { content.into() })
        })
}

/// A terminal with alice in the room.
async fn alice<'a>(home: &'a Home, gateway: &TestGateway, variables: &str) -> Pane<'a> {
    let command = format!("chat {TOPIC} --gateway http://{}", gateway.address());
    let variables = format!("{variables} SALON_TOKEN={}", token(gateway, "alice"));
    Pane::open(home, &command, &variables).await
}

#[test]
fn a_room_in_a_terminal() {
    let home = Home::new();
    run(async {
        let gateway = gateway().await;
        let go = Arc::new(Notify::new());
        let robot = enter(&gateway, "rover", ParticipantKind::Robot, rover(go.clone())).await;
        robot.say("ready").await.expect("it is said");
        let mut pane = alice(&home, &gateway, "").await;
        pane.until("alice joined").await;

        pane.types("Morning, @ro").await;
        pane.key("Tab").await;
        pane.until("› Morning, @rover").await;
        pane.types("日本語").await;
        pane.key("Enter").await;
        pane.until("alice Morning, @rover 日本語").await;

        pane.types("/call rover ").await;
        pane.key("Tab").await;
        assert_snapshot!("suggestions", pane.until("Drives to a place").await);
        pane.types("mo").await;
        pane.key("Tab").await;
        pane.types("x=far").await;
        pane.key("Enter").await;
        assert_snapshot!("a_wrong_argument", pane.until("it is: move").await);
        pane.key("C-u").await;
        pane.types("/call rover move x=1 y=2.5").await;
        pane.key("Enter").await;
        assert_snapshot!("a_call_runs", pane.until("50 % half-way").await);
        go.notify_one();
        assert_snapshot!("a_call_is_answered", pane.until("✓ arrived at (1, 2.5)").await);

        pane.types("/call rover move x=0 y=0").await;
        pane.key("Enter").await;
        pane.until("50 % half-way").await;
        pane.types("/cancel").await;
        pane.key("Enter").await;
        pane.until("⊘ cancelled").await;
        pane.types("/call rover fail").await;
        pane.key("Enter").await;
        pane.until("✗ the wheel is stuck").await;
        pane.key("F2").await;
        pane.until("initialize").await;
        pane.key("F2").await;
        pane.until("handshakes and lists are folded").await;

        pane.types("/quit").await;
        pane.key("Enter").await;
        assert_snapshot!("the_terminal_is_as_it_was", pane.until("restored").await);
        assert_eq!(pane.modes().await, "0 0 0", "no other screen, no mouse, the cursor shown");
        gateway.stop().await.expect("it stops");
    });
}

#[test]
fn questions_to_the_person() {
    let home = Home::new();
    run(async {
        let gateway = gateway().await;
        let robot = enter(&gateway, "rover", ParticipantKind::Robot, rover(Arc::default())).await;
        let mut pane = alice(&home, &gateway, "").await;
        pane.until("alice joined").await;

        let person = robot.peer(&ParticipantId::new("alice").expect("an id"));
        let asked = person.call_tool("ask_human", &json!({"question": "Shall I open the gate?"}));
        let asked = tokio::spawn(asked.into_future());
        assert_snapshot!("a_question", pane.until("/answer TEXT").await);
        pane.types("/answer yes, do").await;
        pane.key("Enter").await;
        let answer = within("the answer", asked).await.expect("in time").expect("no panic").expect("an answer");
        assert_eq!(answer.text(), "yes, do");

        pane.types("/call rover ask").await;
        pane.key("Enter").await;
        pane.until("/answer metres=integer place=string").await;
        pane.types("/answer place='the shed' metres=3").await;
        pane.key("Enter").await;
        assert_snapshot!("a_form_is_filled_in", pane.until("✓ off I go").await);

        // Taken back before it is answered.
        let asked =
            person.call_tool("ask_human", &json!({"question": "Are you there?"})).start().await.expect("it is asked");
        pane.until("1 question").await;
        asked.cancel("never mind").await;
        pane.until("⊘ cancelled").await;
        pane.types("/answer yes").await;
        pane.key("Enter").await;
        pane.until("nobody asks you anything").await;
        gateway.stop().await.expect("it stops");
    });
}

#[test]
fn the_past_is_loaded_when_it_is_looked_at() {
    let home = Home::new();
    run(async {
        let gateway = gateway().await;
        let bob = enter(&gateway, "bob", ParticipantKind::Human, Toolbox::new("bob")).await;
        for n in 1..=250 {
            bob.say(&format!("line {n}")).await.expect("it is said");
        }
        let mut pane = alice(&home, &gateway, "").await;
        pane.until("line 250").await;
        pane.key("PageUp").await;
        pane.until("End: to the present").await;
        bob.say("and one more").await.expect("it is said");
        pane.until("1 new").await;
        // The wheel, as a terminal reports it.
        pane.types("\u{1b}[<64;10;10M").await;
        // What stood at the top stays there while older lines come in above it.
        for top in ["bob line 152", "bob line 52"] {
            pane.key("Home").await;
            pane.until_that(top, |screen| screen.lines().next().is_some_and(|line| line.contains(top))).await;
        }
        pane.key("Home").await;
        let screen = pane.until("beginning of history").await;
        assert!(screen.contains("bob line 1 "), "{screen}");
        pane.key("End").await;
        assert_snapshot!("back_in_the_present", pane.until("bob and one more").await);
        gateway.stop().await.expect("it stops");
    });
}

#[test]
fn a_gateway_that_restarts_is_come_back_to() {
    let home = Home::new();
    run(async {
        let mut gateway = gateway().await;
        let bob = enter(&gateway, "bob", ParticipantKind::Human, Toolbox::new("bob")).await;
        let mut pane = alice(&home, &gateway, "").await;
        pane.until("alice joined").await;
        bob.say("before").await.expect("it is said");
        pane.until("bob before").await;
        gateway.restart().await.expect("it restarts");
        pane.until("connected again after").await;
        within("bob to be back", bob.say("after")).await.expect("in time").expect("it is said");
        let screen = pane.until("bob after").await;
        assert_eq!((screen.matches("before").count(), screen.matches("connection lost").count()), (1, 1), "{screen}");
        pane.types("still here").await;
        pane.key("Enter").await;
        pane.until("alice still here").await;
        pane.key("C-d").await;
        pane.until("restored").await;
        gateway.stop().await.expect("it stops");
    });
}

#[test]
fn a_signal_gives_the_terminal_back() {
    for signal in ["TERM", "HUP", "INT"] {
        let home = Home::new();
        run(async {
            let gateway = gateway().await;
            let bob = enter(&gateway, "bob", ParticipantKind::Human, Toolbox::new("bob")).await;
            let mut pane = alice(&home, &gateway, "").await;
            pane.until("alice joined").await;
            pane.signal(signal).await;
            let screen = pane.until("restored").await;
            assert!(screen.contains("exit: 0"), "{signal}: {screen}");
            assert_eq!(pane.modes().await, "0 0 0", "{signal}");
            let mut gone = bob.events();
            let left = async {
                while bob.is_present(&ParticipantId::new("alice").expect("an id")) {
                    gone.next().await;
                }
            };
            within("alice to leave", left).await.expect("in time");
            gateway.stop().await.expect("it stops");
        });
    }
}

#[test]
fn the_screen_may_change_its_size() {
    let home = Home::new();
    run(async {
        let gateway = gateway().await;
        let mut pane = alice(&home, &gateway, "NO_COLOR=1").await;
        pane.until("alice joined").await;
        pane.resize(18, 4).await;
        pane.until("too small").await;
        pane.resize(40, 10).await;
        assert_snapshot!("a_small_screen", pane.until("alice joined").await);
        // The ordinary colours are all there is.
        let escapes = pane.escapes().await.replace("\u{1b}[39m", "").replace("\u{1b}[49m", "");
        assert!(!["\u{1b}[3", "\u{1b}[4", ";5;"].iter().any(|colour| escapes.contains(colour)), "{escapes:?}");
        gateway.stop().await.expect("it stops");
    });
}

#[test]
fn help_of_chat() {
    assert_snapshot!(run(Home::new().told("chat --help")));
}

#[test]
fn a_refused_entry_is_reported_in_the_ordinary_way() {
    let home = Home::new();
    let told = run(home.told("chat room:alpha --token x"));
    assert_snapshot!(told, @r"
    error: `salon chat` needs a terminal

    hint: `salon tail` and `salon say` do without one
    exit: 2
    ");
    run(async {
        let gateway = gateway().await;
        let mut token = TestToken::new("alice");
        token.claim("topics", "room:beta").expect("a claim");
        let token = gateway.token(&token).expect("a token");
        let command = format!("chat {TOPIC} --gateway http://{}", gateway.address());
        let mut pane = Pane::open(&home, &command, &format!("SALON_TOKEN={token}")).await;
        let screen = pane.until("restored").await;
        assert!(screen.contains("error: ") && screen.contains("room:alpha") && screen.contains("exit: 5"), "{screen}");
        gateway.stop().await.expect("it stops");
    });
}
