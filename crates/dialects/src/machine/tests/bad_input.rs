//! What is no message, or not one of this client's.

use super::*;

/// What is said to a frame, as its refusal and the id it names.
fn told(text: &str) -> String {
    let mut play =
        Play::seated_with(|options| options.limits = Limits { message: 2000, answer: 2000, depth: 8, recipients: 3 });
    play.frame(None, text);
    let Some(said) = play.told.lines().next() else { return "taken".into() };
    let Some((_, message)) = said.split_once("← [") else {
        return format!("taken: {}", said.chars().take(120).collect::<String>());
    };
    let (_, message) = message.split_once("] ").unwrap();
    let message: serde_json::Value = serde_json::from_str(message).unwrap();
    let (error, about) = (&message["error"], message["header"]["requestId"].as_str().unwrap_or("-"));
    format!("{}: {} [{about}]", error["code"].as_str().unwrap(), error["message"].as_str().unwrap())
}

/// A notification in whose header one field is another, or missing.
fn header(key: &str, value: &str) -> String {
    let fields = [
        ("version", r#""1.0""#),
        ("messageId", r#""m1""#),
        ("timestamp", r#""2025-03-21T10:00:00Z""#),
        ("messageType", r#""notification""#),
        ("source", r#""alice""#),
        ("destination", r#""bob""#),
    ];
    let kept = fields.iter().filter(|(name, _)| *name != key).map(|(name, value)| format!(r#""{name}":{value}"#));
    let added = (!value.is_empty()).then(|| format!(r#""{key}":{value}"#));
    format!(r#"{{"header":{{{}}},"payload":{{}}}}"#, kept.chain(added).collect::<Vec<_>>().join(","))
}

#[test]
fn headers_are_what_they_must_be() {
    let mut all = String::new();
    for (key, value) in [
        ("version", ""),
        ("version", "1.0"),
        ("version", r#""2.0""#),
        ("version", r#""0.9""#),
        ("version", r#""1""#),
        ("version", r#""1.""#),
        ("version", r#""10.0""#),
        ("version", r#""1.x""#),
        ("version", r#""1.7""#),
        ("version", r#""1.0.0""#),
        ("messageId", ""),
        ("messageId", "7"),
        ("messageId", r#""""#),
        ("messageId", r#""a\nb""#),
        ("messageId", &format!(r#""{}""#, "x".repeat(129))),
        ("messageId", "null"),
        ("timestamp", ""),
        ("timestamp", r#""yesterday""#),
        ("timestamp", r#""2025-03-21T10:00:00""#),
        ("timestamp", "1742551200"),
        ("messageType", ""),
        ("messageType", r#""shout""#),
        ("messageType", r#""Request""#),
        ("messageType", r#""x-""#),
        ("messageType", r#""x-a b""#),
        ("messageType", &format!(r#""x-{}""#, "y".repeat(63))),
        ("messageType", r#""x-any""#),
        ("source", ""),
        ("source", r#""bob""#),
        ("source", r#""system:gateway""#),
        ("source", "1"),
        ("destination", ""),
        ("destination", r#""b/ob""#),
        ("destination", r#"["bob"]"#),
        ("destination", r#""*""#),
        ("requestId", "1"),
        ("requestId", r#""""#),
        ("more", "1"),
    ] {
        let value_told: String = value.chars().take(24).collect();
        all.push_str(&format!("{key} {value_told}  {}\n", told(&header(key, value))));
    }
    assert_snapshot!(all, @r#"
    version   invalid_envelope: `header.version` is missing [m1]
    version 1.0  invalid_envelope: `header.version` must be a string [m1]
    version "2.0"  unsupported_protocol: `header.version` must be 1.x; 1.0 is spoken here [m1]
    version "0.9"  unsupported_protocol: `header.version` must be 1.x; 1.0 is spoken here [m1]
    version "1"  unsupported_protocol: `header.version` must be 1.x; 1.0 is spoken here [m1]
    version "1."  unsupported_protocol: `header.version` must be 1.x; 1.0 is spoken here [m1]
    version "10.0"  unsupported_protocol: `header.version` must be 1.x; 1.0 is spoken here [m1]
    version "1.x"  unsupported_protocol: `header.version` must be 1.x; 1.0 is spoken here [m1]
    version "1.7"  taken: ⇒ bob m1 {"method":"notifications/context","params":{"messageType":"notification","payload":{}}}
    version "1.0.0"  taken: ⇒ bob m1 {"method":"notifications/context","params":{"messageType":"notification","payload":{}}}
    messageId   invalid_envelope: `header.messageId` is missing [-]
    messageId 7  invalid_envelope: `header.messageId` must be a string [-]
    messageId ""  invalid_envelope: `header.messageId` is not acceptable: it is empty [-]
    messageId "a\nb"  invalid_envelope: `header.messageId` is not acceptable: it has a control character [-]
    messageId "xxxxxxxxxxxxxxxxxxxxxxx  invalid_envelope: `header.messageId` is not acceptable: it has more than 128 characters [-]
    messageId null  invalid_envelope: `header.messageId` is missing [-]
    timestamp   invalid_envelope: `header.timestamp` is missing [m1]
    timestamp "yesterday"  invalid_envelope: `header.timestamp` must be an ISO 8601 date and time with its zone, such as 2025-08-17T14:00:00Z [m1]
    timestamp "2025-03-21T10:00:00"  invalid_envelope: `header.timestamp` must be an ISO 8601 date and time with its zone, such as 2025-08-17T14:00:00Z [m1]
    timestamp 1742551200  invalid_envelope: `header.timestamp` must be a string [m1]
    messageType   invalid_envelope: `header.messageType` is missing [m1]
    messageType "shout"  invalid_envelope: `header.messageType` must be request, response, notification or error, or begin with `x-` [m1]
    messageType "Request"  invalid_envelope: `header.messageType` must be request, response, notification or error, or begin with `x-` [m1]
    messageType "x-"  invalid_envelope: `header.messageType` must be request, response, notification or error, or begin with `x-` [m1]
    messageType "x-a b"  invalid_envelope: `header.messageType` must be request, response, notification or error, or begin with `x-` [m1]
    messageType "x-yyyyyyyyyyyyyyyyyyyyy  invalid_envelope: `header.messageType` must be request, response, notification or error, or begin with `x-` [m1]
    messageType "x-any"  taken: ⇒ bob m1 {"method":"notifications/context","params":{"messageType":"x-any","payload":{}}}
    source   taken: ⇒ bob m1 {"method":"notifications/context","params":{"messageType":"notification","payload":{}}}
    source "bob"  from_mismatch: `header.source` must be "alice", whom this connection belongs to [m1]
    source "system:gateway"  from_mismatch: `header.source` must be "alice", whom this connection belongs to [m1]
    source 1  invalid_envelope: `header.source` must be a string [m1]
    destination   recipient_required: a notification needs one participant, or `*` for all, as its `header.destination` [m1]
    destination "b/ob"  invalid_envelope: `header.destination` names nobody: '/' is not allowed: a name has letters and digits of ASCII, spaces between them, and ! # $ & ' ( ) + , - . : ; = @ [ ] ^ _ { | } ~ [m1]
    destination ["bob"]  invalid_envelope: `header.destination` must be a string [m1]
    destination "*"  taken: ⇒ * m1 {"method":"notifications/context","params":{"messageType":"notification","payload":{}}}
    requestId 1  invalid_envelope: `header.requestId` must be a string [m1]
    requestId ""  invalid_envelope: `header.requestId` is not acceptable: it is empty [m1]
    more 1  taken: ⇒ bob m1 {"method":"notifications/context","params":{"messageType":"notification","payload":{}}}
    "#);
}

#[test]
fn messages_are_what_they_must_be() {
    let whole = header("x", "");
    let with = |kind: &str, rest: &str| message(kind, rest);
    let mut all = String::new();
    for text in [
        String::new(),
        "nonsense".into(),
        "[]".into(),
        "7".into(),
        "{}".into(),
        r#"{"header":[]}"#.into(),
        whole[..whole.len() - 1].to_owned(),
        format!("{whole}{whole}"),
        whole.replace(r#""payload":{}"#, r#""payload":[]"#),
        whole.replace(r#""payload":{}"#, r#""payload":{"a":1,"a":2}"#),
        whole.replace(r#""payload":{}"#, r#""payload":{"a":"\ud800"}"#),
        whole.replace(r#""payload":{}"#, &format!(r#""payload":{{"a":{}1{}}}"#, "[".repeat(9), "]".repeat(9))),
        whole.replace(r#""payload":{}"#, &format!(r#""payload":{{"a":"{}"}}"#, "x".repeat(2000))),
        whole.replace(r#""payload":{}"#, &format!(r#""payload":{{"a":"{}"}}"#, "x".repeat(1800 - whole.len()))),
        whole.replace(r#""payload":{}"#, r#""payload":{},"metadata":7"#),
        whole.replace(r#""payload":{}"#, r#""payload":{},"error":7"#),
        whole.replace(r#","payload":{}"#, ""),
        with("request", "m1 bob {}"),
        with("request", r#"m1 bob {"tool":7}"#),
        with("request", r#"m1 bob {"tool":{}}"#),
        with("request", r#"m1 bob {"tool":{"id":7}}"#),
        with("request", r#"m1 bob {"tool":{"id":"t","capability":7}}"#),
        with("request", r#"m1 bob {"tool":{"id":"t","parameters":[1]}}"#),
        with("request", r#"m1 - {"tool":{"id":"t"}}"#),
        with("request", r#"m1 * {"tool":{"id":"t"}}"#),
        with("request", r#"m1 dave {"tool":{"id":"t"}}"#),
        with("response", r#"m1 bob {"result":1}"#),
        with("response", r#"m1@q1 bob {"result":1}"#),
        with("error", r#"m1 bob {"code":"x"}"#),
        r#"{"header":{"messageType":"error","timestamp":"2025-03-21T10:00:00Z"},"error":{}}"#.into(),
        r#"{"header":{"messageType":"error","requestId":"q1"},"error":{}}"#.into(),
        with("notification", r#"m1@q1 bob {"stream":{"sequence":1}}"#),
    ] {
        let shown: String = text.chars().skip(text.find("payload").unwrap_or(0)).take(60).collect();
        all.push_str(&format!("{shown}  {}\n", told(&text)));
    }
    assert_snapshot!(all, @r#"
      invalid_json: the message is not valid JSON: unexpected end at byte 0 [-]
    nonsense  invalid_json: the message is not valid JSON: not a JSON value at byte 0 [-]
    []  invalid_envelope: a message must be a JSON object [-]
    7  invalid_envelope: a message must be a JSON object [-]
    {}  invalid_envelope: `header` is missing [-]
    {"header":[]}  invalid_envelope: `header` must be an object [-]
    payload":{}  invalid_json: the message is not valid JSON: unexpected end at byte 158 [-]
    payload":{}}{"header":{"version":"1.0","messageId":"m1","tim  invalid_json: the message is not valid JSON: unexpected text after the value at byte 159 [-]
    payload":[]}  invalid_envelope: `payload` must be an object [m1]
    payload":{"a":1,"a":2}}  invalid_json: the message is not valid JSON: the key "a" stands twice in one object [m1]
    payload":{"a":"\ud800"}}  invalid_json: the message is not valid JSON: lone surrogate at byte 162 [m1]
    payload":{"a":[[[[[[[[[1]]]]]]]]]}}  too_deep: the message was refused: it is nested deeper than 8 levels [m1]
    payload":{"a":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx  too_large: the message has 2165 bytes; the limit is 2000 (`limits.message`) [m1]
    payload":{"a":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx  taken: ⇒ bob m1 {"method":"notifications/context","params":{"messageType":"notification","payload":{"a":"xxxxxxxxxxxxxxxxxxxxxx
    payload":{},"metadata":7}  invalid_envelope: `metadata` must be an object [m1]
    payload":{},"error":7}  invalid_envelope: `error` must be an object [m1]
    {"header":{"version":"1.0","messageId":"m1","timestamp":"202  taken: ⇒ bob m1 {"method":"notifications/context","params":{"messageType":"notification","payload":{}}}
    payload":{}}  invalid_parameters: a request needs `payload.tool` [m1]
    payload":{"tool":7}}  invalid_parameters: `payload.tool` must be an object with the string `id`, maybe the string `capability`, and maybe `parameters` [m1]
    payload":{"tool":{}}}  invalid_parameters: `payload.tool` must be an object with the string `id`, maybe the string `capability`, and maybe `parameters` [m1]
    payload":{"tool":{"id":7}}}  invalid_parameters: `payload.tool` must be an object with the string `id`, maybe the string `capability`, and maybe `parameters` [m1]
    payload":{"tool":{"id":"t","capability":7}}}  invalid_parameters: `payload.tool` must be an object with the string `id`, maybe the string `capability`, and maybe `parameters` [m1]
    payload":{"tool":{"id":"t","parameters":[1]}}}  invalid_parameters: `payload.tool.parameters` must be an object [m1]
    payload":{"tool":{"id":"t"}}}  recipient_required: a request needs one participant as its `header.destination` [m1]
    payload":{"tool":{"id":"t"}}}  recipient_required: a request needs one participant as its `header.destination` [m1]
    payload":{"tool":{"id":"t"}}}  recipient_not_found: `dave` is not in this room [m1]
    payload":{"result":1}}  correlation_required: `header.requestId` must name the request that is answered [m1]
    payload":{"result":1}}  correlation_mismatch: `q1` is no request that waits for your answer [m1]
    {"header":{"destination":"bob","messageId":"m1","messageType  correlation_required: `header.requestId` must name the request that is answered [m1]
    {"header":{"messageType":"error","timestamp":"2025-03-21T10:  correlation_required: `header.requestId` must name the request that is answered [-]
    {"header":{"messageType":"error","requestId":"q1"},"error":{  invalid_envelope: `header.timestamp` is missing [-]
    payload":{"stream":{"sequence":1}}}  correlation_mismatch: `q1` is no request that waits for your answer [m1]
    "#);
}

#[test]
fn binary_frames_are_no_messages() {
    let mut play = Play::seated();
    play.door.handle_frame(StreamId::ONLY, Frame::Binary([1, 2, 3].into()), play.now);
    play.collect();
    assert_snapshot!(play.told, @r#"← [invalid_envelope] {"header":{"id":"s-2","type":"error","source":"system:gateway","destination":"alice"},"error":{"code":"invalid_envelope","message":"a message is text, not binary"}}"#);
}

#[test]
fn too_many_requests_at_once_are_told() {
    let mut play = Play::seated();
    for at in 0..256 {
        play.run(&format!(r#"request m{at} bob {{"tool":{{"id":"t"}}}}"#));
    }
    play.told.clear();
    assert_snapshot!(play.act(r#"request late bob {"tool":{"id":"t"}}"#), @r#"← [rate_limited] {"header":{"id":"s-2","type":"error","requestId":"late","source":"system:gateway","destination":"alice"},"error":{"code":"rate_limited","message":"256 requests of yours are open already; wait for an answer"}}"#);
    let mut play = Play::seated().after(REGISTER);
    for at in 0..1024 {
        play.run(&format!(r#"p{}? q{at} tools/call {{"name":"echo.say"}}"#, at / 64));
    }
    play.told.clear();
    assert_snapshot!(play.act(r#"bob? late tools/call {"name":"echo.say"}"#), @r#"↩ bob s-4 re late {"id":5,"error":{"code":-32603,"message":"1024 requests wait for answers already","data":{"code":"rate_limited"}}}"#);
}
