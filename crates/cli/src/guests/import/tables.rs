//! Servers as tables of `salon.toml`.

use std::fmt::Write;
use std::path::Path;

use salon_control::NamePattern;
use salon_guests::import::{ImportInput, Launch, VariableReference};
use salon_guests::upstream::UrlTransport;
use salon_protocol::TopicName;

use super::{Chosen, ImportedFile, shown};
use crate::access::credentials::quoted;

/// What can be written elsewhere than in its own file: the folder becomes a path, and an input a variable. Also what to say of that.
pub(super) fn settle(
    launch: &Launch,
    inputs: &[ImportInput],
    folder: &Path,
    is_project: bool,
) -> (Launch, Vec<String>) {
    let mut remarks: Vec<String> = Vec::new();
    let asked = std::cell::RefCell::new(&mut remarks);
    let mut settled = launch.rewritten(&|reference| match reference {
        VariableReference::Folder => Some(folder.display().to_string()),
        VariableReference::FolderName => Some(folder.file_name()?.to_string_lossy().into_owned()),
        VariableReference::Input(id) => {
            let variable = variable(id);
            let remark = format!("asks for `{id}` there; here it is the variable `{variable}`");
            let mut remarks = asked.borrow_mut();
            if !remarks.contains(&remark) {
                remarks.push(remark);
            }
            let input = inputs.iter().find(|input| input.id == id);
            let default = input.and_then(|input| input.default.as_ref());
            let default = default.filter(|default| !default.is_empty() && !default.contains(['}', '$']));
            Some(default.map_or(format!("${{{variable}}}"), |default| format!("${{{variable}:-{default}}}")))
        }
        _ => None,
    });
    if let Launch::Command { cwd, env_file, .. } = &mut settled {
        // Relative paths began at another folder than they would from now on.
        let begins_there = |path: &String| !path.starts_with('/') && !path.starts_with("${");
        for path in [&mut *cwd, env_file].into_iter().flatten().filter(|path| begins_there(path)) {
            *path = folder.join(&*path).display().to_string();
        }
        if is_project && cwd.is_none() {
            *cwd = Some(folder.display().to_string());
        }
    }
    (settled, remarks)
}

/// A variable's name for an input.
fn variable(id: &str) -> String {
    let name: String =
        id.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { format!("INPUT_{name}") }
}

/// The keys under which something stands openly that looks like a secret.
pub(super) fn open_secrets(launch: &Launch) -> Vec<String> {
    match launch {
        Launch::Command { args, env, .. } => {
            named(env, "env").filter(|(name, _)| is_secret(name)).map(|(_, key)| key).chain(secret_args(args)).collect()
        }
        Launch::Url { url, headers, .. } => {
            let headers = named(headers, "headers").filter(|(name, _)| is_secret(name)).map(|(_, key)| key);
            let query = url.split_once('?').map_or("", |(_, query)| query);
            let in_query = query
                .split('&')
                .filter_map(|pair| pair.split_once('='))
                .any(|(name, value)| is_secret(name) && is_literal(value));
            headers.chain((in_query || has_password(url)).then(|| "`url`".to_owned())).collect()
        }
    }
}

/// The keys under which values stand as they are: all of `env` and `headers`, and what looks like a secret elsewhere.
pub(super) fn literals(launch: &Launch) -> Vec<String> {
    let (Launch::Command { env: pairs, .. } | Launch::Url { headers: pairs, .. }) = launch;
    let under = if matches!(launch, Launch::Command { .. }) { "env" } else { "headers" };
    let mut keys: Vec<String> = named(pairs, under).map(|(_, key)| key).collect();
    let more: Vec<_> = open_secrets(launch).into_iter().filter(|key| !keys.contains(key)).collect();
    keys.extend(more);
    // A query is there to be kept to oneself, whatever its parameters are called.
    if let Launch::Url { url, .. } = launch
        && url.split_once('?').is_some_and(|(_, query)| is_literal(query))
        && !keys.iter().any(|key| key == "`url`")
    {
        keys.push("`url`".into());
    }
    keys
}

/// The values that are not references, each by its name and its key.
fn named<'a>(pairs: &'a [(String, String)], under: &'a str) -> impl Iterator<Item = (&'a str, String)> {
    pairs
        .iter()
        .filter(|(_, value)| is_literal(value))
        .map(move |(name, _)| (name.as_str(), format!("`{under}.{name}`")))
}

/// `--api-key VALUE`, `--api-key=VALUE`, `API_KEY=VALUE`, `Authorization: VALUE`, or an address with a password.
fn secret_args(args: &[String]) -> Vec<String> {
    let mut flag: Option<&str> = None;
    let mut found = Vec::new();
    for arg in args {
        let before = flag.take();
        if has_password(arg) {
            found.push("an address in `args`".to_owned());
        } else if let Some((name, value)) = arg.split_once(['=', ':']) {
            if is_name(name) && is_secret(name) && is_literal(value.trim()) {
                found.push(format!("`{name}` in `args`"));
            }
        } else if arg.starts_with('-') {
            flag = Some(arg.as_str()).filter(|flag| is_secret(flag));
        } else if let Some(flag) = before.filter(|_| is_literal(arg)) {
            found.push(format!("`{flag}` in `args`"));
        }
    }
    found
}

fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["TOKEN", "KEY", "SECRET", "PASSWORD", "AUTHORIZATION"].iter().any(|word| name.contains(word))
}

fn is_literal(value: &str) -> bool {
    !value.is_empty() && !value.contains("${")
}

/// `scheme://user:password@host`, the password not being a reference.
fn has_password(address: &str) -> bool {
    let Some((_, rest)) = address.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let password = authority.rsplit_once('@').and_then(|(user, _)| user.split_once(':'));
    password.is_some_and(|(_, password)| is_literal(password))
}

/// What would be started, for a person to judge. Neither environment nor headers nor a query are in it.
pub(super) fn summary(launch: &Launch) -> String {
    match launch {
        Launch::Command { command, args, .. } => {
            let word = |word: &String| {
                let plain = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || "'\"".contains(c));
                if plain { word.clone() } else { format!("{word:?}") }
            };
            [command].into_iter().chain(args).map(word).collect::<Vec<_>>().join(" ")
        }
        Launch::Url { url, .. } => url.split('?').next().unwrap_or_default().to_owned(),
    }
}

/// The text to add to a file.
pub(super) fn write(topic: &TopicName, found: &[ImportedFile]) -> String {
    let mut text = String::new();
    for ImportedFile { file, chosen, .. } in found.iter().filter(|found| !found.chosen.is_empty()) {
        let _ = write!(text, "\n# From {}\n", shown(file).replace(char::is_control, "?"));
        for (at, chosen) in chosen.iter().enumerate() {
            if at > 0 {
                text.push('\n');
            }
            table(&mut text, topic, chosen);
        }
    }
    text
}

fn table(text: &mut String, topic: &TopicName, Chosen { id, server, launch, .. }: &Chosen) {
    let plain = id.as_str().chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    let key = if plain { id.to_string() } else { quoted(id.as_str()) };
    let _ = writeln!(text, "[topics.{}.guests.{key}]", quoted(topic.as_str()));
    let mut line = |key: &str, value: String| {
        let _ = writeln!(text, "{key} = {value}");
    };
    let list = |items: &[String]| format!("[{}]", items.iter().map(|item| quoted(item)).collect::<Vec<_>>().join(", "));
    let pairs = |pairs: &[(String, String)]| {
        let pair = |(name, value): &(String, String)| format!("{} = {}", quoted(name), quoted(value));
        format!("{{ {} }}", pairs.iter().map(pair).collect::<Vec<_>>().join(", "))
    };
    match launch {
        Launch::Command { command, args, env, cwd, env_file } => {
            line("command", quoted(command));
            if !args.is_empty() {
                line("args", list(args));
            }
            if !env.is_empty() {
                line("env", pairs(env));
            }
            if let Some(cwd) = cwd {
                line("cwd", quoted(cwd));
            }
            if let Some(env_file) = env_file {
                line("env_file", quoted(env_file));
            }
        }
        Launch::Url { url, headers, transport } => {
            line("url", quoted(url));
            if !headers.is_empty() {
                line("headers", pairs(headers));
            }
            match transport {
                UrlTransport::Auto => {}
                UrlTransport::Streamable => line("transport", quoted("http")),
                UrlTransport::Sse => line("transport", quoted("sse")),
            }
        }
    }
    let name: String = server.name.chars().filter(|c| !c.is_control()).take(256).collect();
    if name != id.as_str() && !name.is_empty() {
        line("name", quoted(&name));
    }
    let patterns = |patterns: &[NamePattern]| list(&patterns.iter().map(ToString::to_string).collect::<Vec<_>>());
    if let Some(allow) = &server.tools.allow {
        line("allow_tools", patterns(allow));
    }
    if !server.tools.deny.is_empty() {
        line("deny_tools", patterns(&server.tools.deny));
    }
    if let Some(timeout) = server.timeout {
        line("timeout", quoted(&format!("{}ms", timeout.as_millis().max(1))));
    }
    if server.disabled {
        line("disabled", "true".into());
    }
}

#[cfg(test)]
mod tests {
    use salon_gateway::config::{Overrides, TopicKey};
    use salon_guests::import::{Product, TakenNames, read};

    use super::super::super::plan::launch;
    use super::super::choose;
    use super::*;

    const VS_CODE: &str = r#"{
        "inputs": [{ "id": "api-key", "type": "promptString", "password": true }, { "id": "region", "default": "eu" }],
        "servers": {
            "my server": {
                "command": "npx", "args": ["-y", "a \"b\"", "${workspaceFolder}", "--region=${input:region}"],
                "env": { "API_KEY": "${input:api-key}", "OTHER": "${env:OTHER}", "TOKEN": "open" },
                "envFile": ".env"
            },
            "web": { "type": "sse", "url": "https://x.example/sse?key=1", "headers": { "X": "${Y}" }, "timeout": 1500, "disabled": true, "includeTools": ["find", "read_*"], "excludeTools": ["read_all"] }
        }
    }"#;

    #[test]
    fn secrets_are_seen_wherever_they_stand() {
        let args = |args: &[&str]| secret_args(&args.iter().map(ToString::to_string).collect::<Vec<_>>()).join(", ");
        assert_eq!(
            args(&["-y", "pkg", "--api-key", "sk-1", "--token=t"]),
            "`--api-key` in `args`, `--token` in `args`"
        );
        assert_eq!(args(&["run", "-e", "API_KEY=abc", "image:tag"]), "`API_KEY` in `args`");
        assert_eq!(args(&["mcp-remote", "--header", "Authorization: Bearer x"]), "`Authorization` in `args`");
        assert_eq!(args(&["postgresql://me:pass@db/x"]), "an address in `args`");
        let harmless = [
            "--api-key",
            "${KEY}",
            "--token=${T}",
            "https://x.example/",
            "postgresql://me:${P}@db",
            "--key",
            "-v",
            "x",
        ];
        assert_eq!(args(&harmless), "");

        let told = |url: &str| {
            let launch = Launch::Url { url: url.into(), headers: Vec::new(), transport: UrlTransport::Auto };
            (open_secrets(&launch).len(), literals(&launch).len())
        };
        assert_eq!(told("https://x.example/mcp?apiKey=1"), (1, 1));
        assert_eq!(told("https://me:pass@x.example/mcp"), (1, 1));
        assert_eq!(told("https://x.example/mcp?page=1"), (0, 1));
        assert_eq!(told("https://x.example/mcp?apiKey=${KEY}"), (0, 0));
    }

    #[test]
    fn what_is_written_reads_back_as_it_was() {
        let import = read(VS_CODE, Product::VsCode, None).expect("a file");
        let file = "/srv/lab/.vscode/mcp.json".into();
        let found = choose(file, &import, Path::new("/srv/lab"), &mut TakenNames::default(), &mut Vec::new());
        let topic: TopicName = "room:lab".parse().expect("a topic");
        let written = write(&topic, std::slice::from_ref(&found));
        insta::assert_snapshot!(written, @r#"
        # From /srv/lab/.vscode/mcp.json
        [topics."room:lab".guests.my-server]
        command = "npx"
        args = ["-y", "a \"b\"", "/srv/lab", "--region=${REGION:-eu}"]
        env = { "API_KEY" = "${API_KEY}", "OTHER" = "${env:OTHER}", "TOKEN" = "open" }
        cwd = "/srv/lab"
        env_file = "/srv/lab/.env"
        name = "my server"

        [topics."room:lab".guests.web]
        url = "https://x.example/sse?key=1"
        headers = { "X" = "${Y}" }
        transport = "sse"
        allow_tools = ["find", "read_*"]
        deny_tools = ["read_all"]
        timeout = "1500ms"
        disabled = true
        "#);
        let read: Overrides = toml::from_str(&written).expect("what `salon serve` reads");
        let guests = &read.topics[&TopicKey(topic)].guests;
        let back: Vec<_> = guests.values().map(|guest| launch(&guest.server)).collect();
        let mut wanted: Vec<_> = found.chosen.iter().map(|chosen| chosen.launch.clone()).collect();
        for launch in &mut wanted {
            if let Launch::Command { env, .. } = launch {
                env.sort();
            }
        }
        assert!(back == wanted, "{back:?}");
        let remarks: Vec<_> = found.chosen.iter().flat_map(|chosen| &chosen.remarks).cloned().collect();
        insta::assert_snapshot!(remarks.join("\n"), @"
        `my server` there
        asks for `region` there; here it is the variable `REGION`
        asks for `api-key` there; here it is the variable `API_KEY`
        looks like a secret and is copied as it stands: `env.TOKEN`
        switched off there, and so here
        looks like a secret and is copied as it stands: `url`
        ");
        insta::assert_snapshot!(found.chosen.iter().map(|chosen| summary(&chosen.launch)).collect::<Vec<_>>().join("\n"), @r#"
        npx -y "a \"b\"" /srv/lab --region=${REGION:-eu}
        https://x.example/sse
        "#);
    }
}
