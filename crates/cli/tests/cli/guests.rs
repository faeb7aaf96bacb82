use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;

use salon_testkit::{run, within};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use crate::salon::{BINARY, Home, Running, Signal, finish};

/// An MCP server on stdio with the tools `echo`, `env` and `count`. Given a port it holds a connection there for as long as it lives,
/// and says something at every call: this is how a test sees its end. With `stubborn` it ends neither with its input nor when asked.
const SERVER: &str = r#"
import json, os, signal, socket, sys
words = sys.argv[1:]
witness = None
for word in words:
    if word.isdigit():
        witness = socket.create_connection(("127.0.0.1", int(word)))
if "stubborn" in words:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
schema = {"type": "object"}
count = 0
def answer(method, params):
    global count
    if method == "initialize":
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "tiny", "version": "1"}}
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": schema} for name in ["echo", "env", "count"]]}
    if method == "tools/call":
        count += 1
        if witness:
            witness.send(b"called")
        given = params.get("arguments", {})
        texts = {"echo": given.get("text"), "env": str(os.environ.get(given.get("name", ""))), "count": str(count)}
        return {"content": [{"type": "text", "text": texts[params["name"]]}]}
print("tiny is up", file=sys.stderr, flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        result = answer(message["method"], message.get("params", {}))
        body = {"error": {"code": -32601, "message": "not here"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}), flush=True)
while "stubborn" in words:
    signal.pause()
"#;

fn home() -> Home {
    let home = Home::new();
    home.write("tiny.py", SERVER);
    home
}

/// What `salon call` prints of a call to a guest in `room:lab`.
async fn call(home: &Home, gateway: SocketAddr, words: &str) -> String {
    let mut command = home.command(BINARY);
    // Where the gateway's key is, so that nobody has to look into a configuration that may be broken just now.
    command.env("SALON_DATA", home.path().join(".local/share/salon"));
    command.args(["call", "room:lab", "--gateway", &format!("http://{gateway}"), "--as", "tester"]);
    command.args(words.split_whitespace());
    let ran = finish(command).await;
    assert_eq!(ran.code, Some(0), "{words}: {}", ran.stderr);
    ran.stdout.trim_end().to_owned()
}

/// Where servers hold their connections.
struct Witness(TcpListener);

impl Witness {
    async fn new() -> Self {
        Self(TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port"))
    }

    fn port(&self) -> u16 {
        self.0.local_addr().expect("it listens").port()
    }

    /// The connection of the server that was called; others were started to find out what it speaks, and have ended.
    async fn called(&self) -> TcpStream {
        let called = async {
            loop {
                let (mut server, _) = self.0.accept().await.expect("a connection");
                if server.read(&mut [0; 6]).await.is_ok_and(|count| count > 0) {
                    return server;
                }
            }
        };
        within("a server that was called", called).await.expect("in time")
    }
}

/// Waits until nobody holds the other end of a connection any more.
async fn is_gone(mut server: TcpStream) {
    let mut rest = Vec::new();
    let _ = within("a server to end", server.read_to_end(&mut rest)).await.expect("in time");
}

/// Starts a gateway and waits until its errors have all of some texts in them.
async fn serve(home: &Home, arguments: &str, texts: &[&str]) -> Running {
    let mut gateway = home.serve(arguments).await;
    gateway.complained_of(texts).await;
    gateway
}

#[test]
fn a_command_joins_a_room_and_is_called_there() {
    let home = home();
    run(async {
        let gateway = home.serve("").await;
        let witness = Witness::new().await;
        let mut join = home.command(BINARY);
        join.args(["join", "room:lab", "--as", "files", "--kind", "robot", "--name", "The Files"])
            .args(["--gateway", &format!("http://{}", gateway.address)])
            .args(["--env", "PASSED_ON", "--env", "GIVEN=too"])
            .args(["--", "python3", "tiny.py", &witness.port().to_string()])
            .env("SALON_TOKEN", home.token("room:lab", "files").await)
            .env("SALON_STORE", "nats://user:secret@nats.example")
            .env("API_KEY", "secret")
            .env("LC_MESSAGES", "C")
            .env("PASSED_ON", "yes");
        let mut join = Running::spawn(join);
        assert_eq!(
            join.line().await.as_deref(),
            Some("`files` (tiny 1) is in room:lab and offers 3 tools to everyone there")
        );
        assert_eq!(call(&home, gateway.address, "files echo text=hello").await, "hello");
        // The child has what it needs of our environment and what is named, and nothing else.
        let here = home.path().display().to_string();
        for (name, value) in [
            ("HOME", &*here),
            ("LC_MESSAGES", "C"),
            ("PASSED_ON", "yes"),
            ("GIVEN", "too"),
            ("SALON_TOKEN", "None"),
            ("SALON_STORE", "None"),
            ("API_KEY", "None"),
        ] {
            assert_eq!(call(&home, gateway.address, &format!("files env name={name}")).await, value, "{name}");
        }
        let who = home.salon(&format!("who room:lab --gateway http://{} --as tester", gateway.address)).await;
        assert!(
            who.stdout.contains("files") && who.stdout.contains("The Files") && who.stdout.contains("robot"),
            "{}",
            who.stdout
        );

        let server = witness.called().await;
        join.signal(Signal::INT);
        let ran = join.end().await;
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stderr.starts_with("starting `files`…\n"), "{}", ran.stderr);
        assert!(ran.stderr.contains("files | tiny is up\n"), "{}", ran.stderr);
        is_gone(server).await;
    });
}

#[test]
fn mistakes_in_joining_are_told() {
    let home = home();
    run(async {
        let gateway = home.serve("").await;
        let at = format!("--gateway http://{}", gateway.address);
        let token = home.token("room:lab", "files").await;
        let told = async |words: &str| {
            let told = home.told(&format!("join {words}")).await;
            told.replace(&gateway.address.to_string(), "GATEWAY").replace(&token, "TOKEN")
        };
        insta::assert_snapshot!(told(&format!("room:lab {at} -- python3 tiny.py")).await, @"
        error: who is it to be?

        hint: name the guest with `--as ID`
        exit: 2
        ");
        insta::assert_snapshot!(told(&format!("room:lab --as other --token {token} {at} -- python3 tiny.py")).await, @"
        error: the token is for `files`, not for `other`

        hint: `salon token TOPIC --as other` makes one, to be given with `--token`; without `--as` you are `files`
        exit: 2
        ");
        insta::assert_snapshot!(told(&format!("room:other --as files --token {token} {at} -- python3 tiny.py")).await, @"
        error: topic `room:other` is not open to this token

        hint: run `salon token room:other --as files`
        exit: 2
        ");
        insta::assert_snapshot!(told(&format!("room:lab --as files {at}")).await, @"
        error: the following required arguments were not provided:
          <COMMAND>...

        Usage: salon join --as <ID> --gateway <URL> <TOPIC> -- <COMMAND>...

        hint: `--help` lists what there is
        exit: 2
        ");
        insta::assert_snapshot!(told(&format!("room:lab --as files {at} --url http://x -- python3")).await, @"
        error: the argument '--url <URL>' cannot be used with '[COMMAND]...'

        Usage: salon join --as <ID> --gateway <URL> --url <URL> <TOPIC> [-- <COMMAND>...]

        hint: `--help` lists what there is
        exit: 2
        ");
        insta::assert_snapshot!(told(&format!("room:lab --as files {at} -- no-such-program")).await, @"
        error: cannot start `no-such-program`: there is no such program
        exit: 2
        ");
        insta::assert_snapshot!(told(&format!("room:lab --as files {at} --url notaurl")).await, @"
        error: not a usable URL: relative URL without a base
        exit: 2
        ");
        insta::assert_snapshot!(told(&format!("room:lab --as files {at} --header a:b -- python3")).await, @"
        error: `--header` goes with `--url`, not with a command
        exit: 2
        ");
        insta::assert_snapshot!(told(&format!("room:lab --as files {at} --expose rooms -- python3")).await, @"
        error: invalid value 'rooms' for '--expose <LIST>': `rooms` is not one of tools, resources, prompts

        hint: `--help` lists what there is
        exit: 2
        ");
    });
}

#[test]
fn a_gateway_hosts_the_guests_of_its_file_and_one_that_fails_harms_nobody() {
    let home = home();
    let file = |guests: &str| {
        let good = "[topics.\"room:lab\".guests.good]\ncommand = \"python3\"\nargs = [\"tiny.py\"]\nenv = { A = \"${HOME}!\" }\n";
        home.write("salon.toml", &format!("{good}{guests}"));
    };
    file(
        "[topics.\"room:lab\".guests.unset]\ncommand = \"python3\"\nargs = [\"${NOT_SET}\"]\n\
         [topics.\"room:lab\".guests.absent]\ncommand = \"no-such-program\"\n\
         [topics.\"room:lab\".guests.off]\ncommand = \"python3\"\ndisabled = true\n",
    );
    run(async {
        let texts = [
            "serve: settings read",
            "`good` (tiny 1) is in room:lab and offers 3 tools",
            "guest: ended, not restarted before SIGHUP: `absent` cannot be brought in: cannot start `no-such-program`: there is no such program",
            "the variable `NOT_SET` is not set",
        ];
        let mut gateway = serve(&home, "", &texts).await;
        let here = gateway.address;
        assert_eq!(call(&home, here, "good count").await, "1");
        assert_eq!(call(&home, here, "good env name=A").await, format!("{}!", home.path().display()));

        // A file that is broken changes nothing.
        file("[topics.\"room:lab\".guests.new]\ncomand = \"python3\"\n");
        gateway.signal(Signal::HUP);
        gateway
            .complained(
                "guests: configuration not used, keeping the guests as they are: salon.toml:6: unknown key `comand`",
            )
            .await;
        assert_eq!(call(&home, here, "good count").await, "3");

        // Nor does one that others can write.
        let settings = home.path().join("salon.toml");
        file("[topics.\"room:lab\".guests.planted]\ncommand = \"python3\"\nargs = [\"tiny.py\"]\n");
        std::fs::set_permissions(&settings, std::fs::Permissions::from_mode(0o666)).expect("changed");
        gateway.signal(Signal::HUP);
        gateway
            .complained(
                "guests: configuration not used, keeping the guests as they are: others can write `salon.toml` in this directory",
            )
            .await;
        assert_eq!(call(&home, here, "good count").await, "4");
        std::fs::set_permissions(&settings, std::fs::Permissions::from_mode(0o644)).expect("changed");

        // What is new comes, what is gone leaves, and what stayed the same is not touched.
        file("[topics.\"room:lab\".guests.new]\ncommand = \"python3\"\nargs = [\"tiny.py\"]\n");
        gateway.signal(Signal::HUP);
        gateway.complained("`new` (tiny 1) is in room:lab").await;
        assert_eq!(call(&home, here, "new count").await, "1");
        assert_eq!(call(&home, here, "good count").await, "5");

        // A changed guest restarts.
        file(
            "[topics.\"room:lab\".guests.new]\ncommand = \"python3\"\nargs = [\"tiny.py\"]\nexpose = [\"tools\"]\nname = \"Renewed\"\n",
        );
        gateway.signal(Signal::HUP);
        gateway.complained("`new` (tiny 1) is in room:lab").await;
        assert_eq!(call(&home, here, "new count").await, "1");
        assert_eq!(call(&home, here, "good count").await, "6");

        gateway.signal(Signal::TERM);
        let ran = gateway.end().await;
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let (left, stopping) = (ran.stderr.find("guest: left"), ran.stderr.find("stopping"));
        assert!(left.is_some() && left < stopping, "guests end before the gateway drains: {}", ran.stderr);
    });
}

#[test]
fn no_child_outlives_a_gateway_that_is_killed() {
    let home = home();
    run(async {
        let witness = Witness::new().await;
        let guest = |name: &str| {
            let port = witness.port();
            format!(
                "[topics.\"room:lab\".guests.{name}]\ncommand = \"python3\"\nargs = [\"tiny.py\", \"{port}\", \"stubborn\"]\n"
            )
        };
        home.write("salon.toml", &guest("stubborn"));
        let gateway = serve(&home, "", &["`stubborn` (tiny 1) is in room:lab"]).await;
        assert_eq!(call(&home, gateway.address, "stubborn count").await, "1");
        let server = witness.called().await;
        gateway.signal(Signal::KILL);
        is_gone(server).await;
    });
}

#[test]
fn files_of_other_programs_are_brought_in_for_a_run() {
    let home = home();
    home.write(
        "servers.json",
        r#"{
  // as VS Code has them
  "inputs": [{ "type": "promptString", "id": "key", "password": true }],
  "servers": {
    "my tools": { "command": "python3", "args": ["tiny.py"], "env": { "B": "${NOT_SET:-default}" } },
    "asking": { "command": "python3", "args": ["tiny.py"], "env": { "KEY": "${input:key}" } },
    "wrong": { "args": [] },
  },
}"#,
    );
    run(async {
        let mut command = home.command(BINARY);
        command.args(["serve", "--listen", "127.0.0.1:0", "--import", "servers.json", "--import-topic", "room:lab"]);
        let mut gateway = Running::start(command).await;
        let texts = [
            "servers.json:7:14: the server `wrong`: it has neither a command nor a URL; it is left out",
            "`my tools` takes part as `my-tools`",
            "`env.KEY` of `asking` cannot be used: there is no answer for the input `key`: it is asked for at the start, at a terminal",
            "`my-tools` (tiny 1) is in room:lab",
        ];
        gateway.complained_of(&texts).await;
        assert_eq!(call(&home, gateway.address, "my-tools env name=B").await, "default");

        home.write("broken.json", "{\n  \"mcpServers\": {\n");
        let mut broken = home.command(BINARY);
        broken.args(["serve", "--listen", "127.0.0.1:0", "--data", "other", "--import", "broken.json"]);
        let ran = finish(broken).await;
        insta::assert_snapshot!(format!("{}exit: {:?}", ran.stderr, ran.code), @"
        error: broken.json:2:17: an object is opened here and never closed
        exit: Some(2)
        ");
    });
}

/// Plays the person at a terminal: waits for a text, then types, and at the end closes the window. Tells everything it saw, and how the
/// program ended.
const PERSON: &str = r#"
import os, pty, sys
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
seen = b""
for text, keys in [(b"(eu, us) [eu]: ", b"mars\r"), (b"mars\r\nRegion (eu, us) [eu]: ", b"us\r"), (b"The key: ", b"s3crex\x7ft\r")]:
    while text not in seen:
        seen += os.read(terminal, 4096)
    os.write(terminal, keys)
while b"is in room:lobby" not in seen:
    seen += os.read(terminal, 4096)
os.close(terminal)
ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(seen.decode().replace("\r", ""))
print("ended with", ended)
"#;

#[test]
fn inputs_are_asked_for_at_a_terminal_and_secrets_are_not_shown() {
    let home = home();
    home.write("person.py", PERSON);
    home.write(
        "servers.json",
        r#"{
  "inputs": [
    { "type": "promptString", "id": "key", "description": "The key", "password": true },
    { "type": "pickString", "id": "region", "description": "Region", "options": ["eu", "us"], "default": "eu" }
  ],
  "servers": { "tiny": {
    "command": "sh", "args": ["-c", "echo \"$KEY in ${input:region}\" > given; exec python3 tiny.py"], "env": { "KEY": "${input:key}" }
  } }
}"#,
    );
    run(async {
        let mut person = home.command("python3");
        person.args(["person.py", BINARY, "serve", "--listen", "127.0.0.1:0", "--import", "servers.json"]);
        let ran = finish(person).await;
        assert!(ran.stdout.ends_with("ended with 0\n"), "{}{}", ran.stdout, ran.stderr);
        assert!(!ran.stdout.contains("s3cre"), "{}", ran.stdout);
        let given = std::fs::read_to_string(home.path().join("given")).expect("the server was started");
        assert_eq!(given, "s3cret in us\n");
    });
}

/// Presses Ctrl-C where a secret is asked for, and tells how the program ended.
const IMPATIENT: &str = r#"
import os, pty, sys
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
seen = b""
while b"The key: " not in seen:
    seen += os.read(terminal, 4096)
os.write(terminal, b"s3c\x03")
print("ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#;

#[test]
fn ctrl_c_at_a_secret_ends_the_command() {
    let home = home();
    home.write("impatient.py", IMPATIENT);
    home.write(
        "servers.json",
        r#"{
  "inputs": [{ "type": "promptString", "id": "key", "description": "The key", "password": true }],
  "servers": { "tiny": { "command": "python3", "args": ["tiny.py"], "env": { "KEY": "${input:key}" } } }
}"#,
    );
    run(async {
        let mut person = home.command("python3");
        person.args(["impatient.py", BINARY, "serve", "--listen", "127.0.0.1:0", "--import", "servers.json"]);
        let ran = finish(person).await;
        assert_eq!(ran.stdout, "ended with 130\n", "{}", ran.stderr);
    });
}

#[test]
fn what_cannot_work_is_given_up_and_a_taken_id_is_refused() {
    let home = home();
    run(async {
        let gateway = home.serve("").await;
        let url = format!("http://{}", gateway.address);
        let join = |words: &[&str]| {
            let mut command = home.command(BINARY);
            command.args(["join", "room:lab", "--gateway", &url]).args(words);
            command
        };
        let ran = finish(join(&["--as", "npm", "--", "sh", "-c", "echo no such package >&2; exit 1"])).await;
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains("npm | no such package"), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("error: `npm` cannot be brought in: it did not answer: it ended"),
            "{}",
            ran.stderr
        );
        // There is a server, and it has no MCP there.
        let ran = finish(join(&["--as", "web", "--url", &format!("{url}/nothing/here")])).await;
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains("error: `web` cannot be brought in"), "{}", ran.stderr);

        let mut first = Running::spawn(join(&["--as", "tiny", "--", "python3", "tiny.py"]));
        first.until("is in room:lab").await;
        let ran = finish(join(&["--as", "tiny", "--", "python3", "tiny.py"])).await;
        assert_eq!(ran.code, Some(5), "{}", ran.stderr);
        assert!(ran.stderr.contains("error: `tiny` is in room:lab already"), "{}", ran.stderr);
        let mut second = Running::spawn(join(&["--as", "tiny", "--replace", "--", "python3", "tiny.py"]));
        second.until("is in room:lab").await;
        let ended = first.end().await;
        assert!(ended.stderr.contains("a newer connection of this participant took its seat"), "{}", ended.stderr);
        // A call of a guest costs what every call does.
        call(&home, gateway.address, "tiny echo text=first").await;
        let stored = async || {
            let history = format!("history room:lab --json -n 1000 --gateway {url} --as tester");
            home.salon(&history).await.stdout.lines().count()
        };
        let before = stored().await;
        call(&home, gateway.address, "tiny echo text=second").await;
        assert_eq!(stored().await, before + 4);
        second.signal(Signal::TERM);
        second.end().await;

        // A flag overrides a variable, and the command says so.
        let mut who = home.command(BINARY);
        who.args(["who", "room:lab", "--gateway", &url, "--as", "bob"])
            .env("SALON_TOKEN", home.token("room:lab", "claude").await);
        let ran = finish(who).await;
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stderr.contains("the token from `SALON_TOKEN` is for `claude` and is not used"), "{}", ran.stderr);
    });
}
