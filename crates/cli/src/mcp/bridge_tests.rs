use super::*;

/// A bridge, and everything that was said around it, told in order.
struct Scene {
    bridge: Bridge,
    told: Vec<String>,
    now: Instant,
}

impl Scene {
    fn new() -> Self {
        Self { bridge: Bridge::new("own".into()), told: Vec::new(), now: Instant::now() }
    }

    fn client(&mut self, line: &str) -> &mut Self {
        self.bridge.handle_line(ReadLine::Whole(line.as_bytes().to_vec()), self.now);
        self.tell(&format!("client: {line}"))
    }

    fn gateway(&mut self, text: &str) -> &mut Self {
        let taken = self.bridge.handle_text(text);
        self.tell(&format!("gateway: {text}"));
        if let Err(CancelRefused(why)) = taken {
            self.told.push(format!("  not taken back: {why}"));
        }
        self
    }

    fn connected(&mut self) -> &mut Self {
        self.bridge.connected(None);
        self.tell("connected")
    }

    fn lost(&mut self) -> &mut Self {
        self.bridge.lost("it fell over", self.now);
        self.tell("lost")
    }

    fn passes(&mut self, time: Duration) -> &mut Self {
        self.now += time;
        self.bridge.expire(self.now);
        self.tell(&format!("{} s later", time.as_secs()))
    }

    fn tell(&mut self, what: &str) -> &mut Self {
        self.told.push(what.to_owned());
        while let Some(text) = self.bridge.poll_gateway() {
            self.told.push(format!("  → gateway {text}"));
        }
        while let Some(line) = self.bridge.poll_client() {
            self.told.push(format!("  → client {line}"));
        }
        self
    }

    fn end(&mut self) -> String {
        let state = (self.bridge.is_in_flight(), self.bridge.needs_gateway());
        self.told.push(format!("in flight, wants a gateway: {state:?}"));
        self.told.join("\n")
    }
}

const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"big":12345678901234567890}}"#;
const WELCOME: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"capabilities":{"tools":{"listChanged":true}}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn greeted() -> Scene {
    let mut scene = Scene::new();
    scene.client(HELLO).gateway(WELCOME).client(INITIALIZED).told.clear();
    scene
}

#[test]
fn texts_pass_as_they_are_and_lines_that_are_none_are_refused() {
    let mut scene = Scene::new();
    scene.client(r#" {"id": 1, "method": "ping", "x": 1e400} "#).client("").client("  \t").client("{").client("5");
    scene.bridge.handle_line(ReadLine::Whole(vec![0xff]), scene.now);
    scene.bridge.handle_line(ReadLine::TooLong, scene.now);
    scene.tell("bytes, and too many");
    scene.gateway("{\"id\":1,\n \"result\":{\"a\\n\": 1}}\n").gateway("no JSON");
    insta::assert_snapshot!(scene.end(), @r#"
    client:  {"id": 1, "method": "ping", "x": 1e400} 
      → gateway {"id": 1, "method": "ping", "x": 1e400}
    client: 
    client:   	
    client: {
      → client {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the line is not JSON"}}
    client: 5
      → gateway 5
    bytes, and too many
      → client {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the line is not UTF-8"}}
      → client {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the message has more than 67108864 bytes"}}
    gateway: {"id":1,
     "result":{"a\n": 1}}

      → client {"id":1,"result":{"a\n":1}}
    gateway: no JSON
    in flight, wants a gateway: (false, false)
    "#);
}

#[test]
fn a_new_session_is_greeted_silently_and_told_what_the_old_one_knew() {
    let mut scene = greeted();
    scene
        .client(r#"{"id":1,"method":"logging/setLevel","params":{"level":"debug"}}"#)
        .gateway(r#"{"id":1,"result":{}}"#)
        .client(r#"{"id":2,"method":"resources/subscribe","params":{"uri":"a:1"}}"#)
        .client(r#"{"id":3,"method":"resources/subscribe","params":{"uri":"a:2"}}"#)
        .client(r#"{"id":4,"method":"resources/unsubscribe","params":{"uri":"a:1"}}"#)
        .gateway(r#"[{"id":2,"result":{}},{"id":3,"result":{}},{"id":4,"result":{}}]"#)
        .client(r#"{"id":5,"method":"tools/call"}"#)
        .client(r#"{"id":"6","method":"tools/call"}"#)
        .gateway(r#"{"id":77,"method":"sampling/createMessage"}"#)
        .told
        .clear();
    scene
        .lost()
        .client(r#"{"id":77,"result":{}}"#)
        .client(r#"{"id":7,"method":"tools/list"}"#)
        .connected()
        .client(r#"{"id":8,"method":"ping"}"#)
        .gateway(&WELCOME.replace("\"id\":0", "\"id\":\"own-1\""))
        .gateway(r#"{"id":"own-2","result":{}}"#)
        .gateway(r#"{"id":"own-3","error":{"code":1,"message":"no such resource"}}"#)
        .client(r#"{"id":77,"result":{"late":true}}"#)
        .gateway(r#"{"id":8,"result":{}}"#)
        .gateway(r#"{"id":7,"result":{}}"#);
    insta::assert_snapshot!(scene.end(), @r#"
    lost
      → client {"jsonrpc":"2.0","id":5,"error":{"code":-32000,"message":"the gateway is gone: it fell over; reconnecting"}}
      → client {"jsonrpc":"2.0","id":"6","error":{"code":-32000,"message":"the gateway is gone: it fell over; reconnecting"}}
      → client {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77,"reason":"the gateway is gone"}}
    client: {"id":77,"result":{}}
    client: {"id":7,"method":"tools/list"}
    connected
      → gateway {"jsonrpc":"2.0","id":"own-1","method":"initialize","params":{"big":12345678901234567890}}
    client: {"id":8,"method":"ping"}
    gateway: {"jsonrpc":"2.0","id":"own-1","result":{"capabilities":{"tools":{"listChanged":true}}}}
      → gateway {"jsonrpc":"2.0","method":"notifications/initialized"}
      → gateway {"id":"own-2","method":"logging/setLevel","params":{"level":"debug"}}
      → gateway {"id":"own-3","method":"resources/subscribe","params":{"uri":"a:2"}}
      → gateway {"id":7,"method":"tools/list"}
      → gateway {"id":8,"method":"ping"}
      → client {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
    gateway: {"id":"own-2","result":{}}
    gateway: {"id":"own-3","error":{"code":1,"message":"no such resource"}}
    client: {"id":77,"result":{"late":true}}
    gateway: {"id":8,"result":{}}
      → client {"id":8,"result":{}}
    gateway: {"id":7,"result":{}}
      → client {"id":7,"result":{}}
    in flight, wants a gateway: (false, true)
    "#);
}

#[test]
fn what_waits_too_long_is_told() {
    let mut scene = greeted();
    scene
        .lost()
        .client(r#"{"id":1,"method":"a"}"#)
        .passes(RECONNECT_TIMEOUT / 2)
        .client(r#"{"method":"notifications/cancelled"}"#)
        .client(r#"[{"id":2,"method":"b"},{"id":3,"method":"c"}]"#)
        .passes(RECONNECT_TIMEOUT / 2)
        .passes(RECONNECT_TIMEOUT / 2)
        .connected();
    insta::assert_snapshot!(scene.end(), @r#"
    lost
    client: {"id":1,"method":"a"}
    5 s later
    client: {"method":"notifications/cancelled"}
    client: [{"id":2,"method":"b"},{"id":3,"method":"c"}]
    5 s later
      → client {"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"the gateway is gone: it fell over; reconnecting"}}
    5 s later
      → client {"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"the gateway is gone: it fell over; reconnecting"}}
      → client {"jsonrpc":"2.0","id":3,"error":{"code":-32000,"message":"the gateway is gone: it fell over; reconnecting"}}
    connected
      → gateway {"jsonrpc":"2.0","id":"own-1","method":"initialize","params":{"big":12345678901234567890}}
    in flight, wants a gateway: (false, true)
    "#);
}

#[test]
fn an_initialize_without_an_answer_is_asked_again() {
    let mut scene = Scene::new();
    scene.client(HELLO).client(r#"{"id":1,"method":"ping"}"#).lost().connected().gateway(WELCOME).lost().connected();
    insta::assert_snapshot!(scene.end(), @r#"
    client: {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"big":12345678901234567890}}
      → gateway {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"big":12345678901234567890}}
    client: {"id":1,"method":"ping"}
      → gateway {"id":1,"method":"ping"}
    lost
      → client {"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"the gateway is gone: it fell over; reconnecting"}}
    connected
      → gateway {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"big":12345678901234567890}}
    gateway: {"jsonrpc":"2.0","id":0,"result":{"capabilities":{"tools":{"listChanged":true}}}}
      → client {"jsonrpc":"2.0","id":0,"result":{"capabilities":{"tools":{"listChanged":true}}}}
    lost
    connected
      → gateway {"jsonrpc":"2.0","id":"own-1","method":"initialize","params":{"big":12345678901234567890}}
    in flight, wants a gateway: (false, true)
    "#);

    let mut scene = Scene::new();
    scene.client(HELLO).lost().passes(RECONNECT_TIMEOUT).connected();
    insta::assert_snapshot!(scene.end(), @r#"
    client: {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"big":12345678901234567890}}
      → gateway {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"big":12345678901234567890}}
    lost
    10 s later
      → client {"jsonrpc":"2.0","id":0,"error":{"code":-32000,"message":"the gateway is gone: it fell over; reconnecting"}}
    connected
    in flight, wants a gateway: (false, false)
    "#);
}

#[test]
fn a_refused_client_has_no_session_to_come_back_to() {
    let mut scene = Scene::new();
    scene.client(HELLO).gateway(r#"{"id":0,"error":{"code":-32602,"message":"no such revision"}}"#).lost().connected();
    insta::assert_snapshot!(scene.end(), @r#"
    client: {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"big":12345678901234567890}}
      → gateway {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"big":12345678901234567890}}
    gateway: {"id":0,"error":{"code":-32602,"message":"no such revision"}}
      → client {"id":0,"error":{"code":-32602,"message":"no such revision"}}
    lost
    connected
    in flight, wants a gateway: (false, false)
    "#);

    let mut scene = greeted();
    scene.lost().connected().gateway(r#"{"id":"own-1","error":{"code":-32000,"message":"the room is full"}}"#);
    insta::assert_snapshot!(scene.end(), @r#"
    lost
    connected
      → gateway {"jsonrpc":"2.0","id":"own-1","method":"initialize","params":{"big":12345678901234567890}}
    gateway: {"id":"own-1","error":{"code":-32000,"message":"the room is full"}}
      not taken back: the room is full
    in flight, wants a gateway: (false, true)
    "#);
}

#[test]
fn what_is_too_long_is_answered_with_the_limit() {
    let mut scene = greeted();
    scene.bridge.connected(Some(60));
    scene
        .gateway(&WELCOME.replace("\"id\":0", "\"id\":\"own-1\""))
        .gateway(r#"{"id":9,"method":"roots/list"}"#)
        .told
        .clear();
    let long = "x".repeat(60);
    scene
        .client(&format!(r#"{{"method":"tools/call","params":"{long}","id":1}}"#))
        .client(&format!(r#"{{"method":"notifications/x","params":"{long}"}}"#))
        .client(&format!(r#"{{"id":9,"result":"{long}"}}"#))
        .client(r#"{"id":2,"method":"ping"}"#);
    insta::assert_snapshot!(scene.end(), @r#"
    client: {"method":"tools/call","params":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","id":1}
      → client {"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"the message has 102 bytes; this gateway takes at most 60"}}
    client: {"method":"notifications/x","params":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}
    client: {"id":9,"result":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}
      → gateway {"jsonrpc":"2.0","id":9,"error":{"code":-32600,"message":"the message has 80 bytes; this gateway takes at most 60"}}
    client: {"id":2,"method":"ping"}
      → gateway {"id":2,"method":"ping"}
    in flight, wants a gateway: (true, true)
    "#);
}

#[test]
fn what_is_cancelled_is_waited_for_no_longer() {
    let mut scene = greeted();
    scene
        .client(r#"{"id":1,"method":"tools/call"}"#)
        .client(r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#)
        .gateway(r#"{"id":9,"method":"roots/list"}"#)
        .gateway(r#"{"method":"notifications/cancelled","params":{"requestId":9}}"#)
        .client(r#"{"id":9,"result":{}}"#)
        .lost();
    insta::assert_snapshot!(scene.end(), @r#"
    client: {"id":1,"method":"tools/call"}
      → gateway {"id":1,"method":"tools/call"}
    client: {"method":"notifications/cancelled","params":{"requestId":1}}
      → gateway {"method":"notifications/cancelled","params":{"requestId":1}}
    gateway: {"id":9,"method":"roots/list"}
      → client {"id":9,"method":"roots/list"}
    gateway: {"method":"notifications/cancelled","params":{"requestId":9}}
      → client {"method":"notifications/cancelled","params":{"requestId":9}}
    client: {"id":9,"result":{}}
    lost
    in flight, wants a gateway: (false, true)
    "#);
}

#[test]
fn nothing_grows_without_bound() {
    let mut scene = Scene::new();
    for id in 0..MAX_OPEN {
        scene.bridge.handle_line(ReadLine::Whole(format!(r#"{{"id":{id},"method":"a"}}"#).into_bytes()), scene.now);
    }
    assert_eq!(scene.bridge.client_backlog(), 0);
    scene.bridge.to_gateway.clear();
    scene.client(r#"{"id":"one more","method":"a"}"#);
    insta::assert_snapshot!(scene.told.join("\n"), @r#"
    client: {"id":"one more","method":"a"}
      → client {"jsonrpc":"2.0","id":"one more","error":{"code":-32000,"message":"more than 4096 requests wait for an answer"}}
    "#);

    let mut scene = greeted();
    scene.lost().told.clear();
    for id in 0..MAX_WAITING {
        scene.bridge.handle_line(ReadLine::Whole(format!(r#"{{"id":{id},"method":"a"}}"#).into_bytes()), scene.now);
    }
    assert_eq!(scene.bridge.client_backlog(), 0);
    scene.client(r#"{"id":"one more","method":"a"}"#);
    insta::assert_snapshot!(scene.told.join("\n"), @r#"
    client: {"id":"one more","method":"a"}
      → client {"jsonrpc":"2.0","id":"one more","error":{"code":-32000,"message":"the gateway is gone: it fell over; reconnecting"}}
    "#);
    scene.bridge.give_up("it is over");
    assert_eq!(scene.bridge.client_backlog(), MAX_WAITING);
    assert!(!scene.bridge.is_in_flight());
}

#[test]
fn a_client_of_the_draft_dialect_is_taken_back_and_says_when_it_ends() {
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"mcpVersion":"2025-06-18"}}"#;
    let welcome = r#"{"jsonrpc":"2.0","id":0,"result":{"server":{"name":"salon"}}}"#;
    let mut scene = Scene::new();
    scene.client(hello).gateway(welcome).client(r#"{"jsonrpc":"2.0","method":"initialized","params":{}}"#);
    scene.told.clear();
    scene.lost().connected().gateway(r#"{"jsonrpc":"2.0","id":"own-1","result":{"server":{"name":"salon"}}}"#);
    scene.client(r#"{"jsonrpc":"2.0","id":1,"method":"shutdown"}"#);
    assert!(!scene.bridge.has_exited());
    scene.gateway(r#"{"jsonrpc":"2.0","id":1,"result":null}"#).client(r#"{"jsonrpc":"2.0","method":"exit"}"#);
    assert!(scene.bridge.has_exited());
    insta::assert_snapshot!(scene.end(), @r#"
    lost
    connected
      → gateway {"jsonrpc":"2.0","id":"own-1","method":"initialize","params":{"mcpVersion":"2025-06-18"}}
    gateway: {"jsonrpc":"2.0","id":"own-1","result":{"server":{"name":"salon"}}}
      → gateway {"jsonrpc":"2.0","method":"initialized","params":{}}
    client: {"jsonrpc":"2.0","id":1,"method":"shutdown"}
      → gateway {"jsonrpc":"2.0","id":1,"method":"shutdown"}
    gateway: {"jsonrpc":"2.0","id":1,"result":null}
      → client {"jsonrpc":"2.0","id":1,"result":null}
    client: {"jsonrpc":"2.0","method":"exit"}
      → gateway {"jsonrpc":"2.0","method":"exit"}
    in flight, wants a gateway: (false, true)
    "#);
    // To others it is no word.
    let mut other = greeted();
    other.client(r#"{"jsonrpc":"2.0","method":"exit"}"#);
    assert!(!other.bridge.has_exited());
}
