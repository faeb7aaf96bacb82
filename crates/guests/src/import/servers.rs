//! From a file's text to its servers.

use std::path::Path;

use salon_control::{InvalidPattern, NamePattern};

use super::jsonc::{self, JsonNode, JsonValue, JsoncError, TextPosition};
use super::{Import, ImportError, ImportInput, Imported, Launch, Product, Warning, tables};
use crate::ToolFilter;
use crate::upstream::UrlTransport;

/// The keys under which servers stand, and what they are in.
const KEYS: &str = "`mcpServers` or `servers`";

/// The products whose files are there for much else, and may name no servers.
const SETTINGS_OF_PRODUCTS: [Product; 6] =
    [Product::ClaudeCode, Product::ClaudeDesktop, Product::Gemini, Product::VsCode, Product::Zed, Product::Codex];

/// Reads a file. `project` is the folder whose own servers count beside those of every project (`projects` in `~/.claude.json`).
pub fn read(text: &str, product: Product, project: Option<&Path>) -> Result<Import, ImportError> {
    // Editors on some systems begin a file with a mark that is no part of it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    read_all(text, product, project).map_err(|wrong| refusal(text, wrong))
}

fn refusal(text: &str, JsoncError { at, message }: JsoncError) -> ImportError {
    ImportError { position: TextPosition::of(text, at), message }
}

fn read_all(text: &str, product: Product, project: Option<&Path>) -> Result<Import, JsoncError> {
    let root = if product == Product::Codex { tables::parse(text)? } else { jsonc::parse(text)? };
    if !matches!(root.value, JsonValue::Object(_)) {
        return Err(wrong(root.at, format!("an object with {KEYS} is expected, not {}", root.what())));
    }
    let mut import = Import::default();
    let mut found = false;
    // VS Code keeps them in a file of their own, or under `mcp` among other settings.
    let nested = root.get("mcp").filter(|mcp| mcp.get("servers").is_some());
    let of_project = project.and_then(|folder| root.get("projects")?.get(folder.to_str()?));
    for (home, key) in [
        (Some(&root), "mcpServers"),
        (of_project, "mcpServers"),
        (Some(&root), "servers"),
        (nested, "servers"),
        (Some(&root), "context_servers"),
        (Some(&root), "mcp_servers"),
    ] {
        let Some(servers) = home.and_then(|home| home.get(key)) else { continue };
        found = true;
        for (name, server) in object(servers, key)? {
            let mut reading = ServerReading { text, name, product, warnings: &mut import.warnings };
            match reading.server(server) {
                Ok(server) if import.servers.iter().any(|known| known.name == server.name) => {
                    // A project's own server stands in for the general one of that name.
                    import.servers.retain(|known| known.name != server.name);
                    import.servers.push(server);
                }
                Ok(server) => import.servers.push(server),
                Err(wrong) => import.refused.push(refusal(text, wrong)),
            }
        }
    }
    if let Some(inputs) = nested.unwrap_or(&root).get("inputs") {
        import.inputs = self::inputs(inputs)?;
    }
    // Settings of a whole program are not there for their servers alone.
    if !found && !SETTINGS_OF_PRODUCTS.contains(&product) {
        return Err(wrong(root.at, format!("there is neither {}", KEYS.replace(" or ", " nor "))));
    }
    Ok(import)
}

fn wrong(at: usize, message: impl Into<String>) -> JsoncError {
    JsoncError { at, message: message.into() }
}

fn object<'a>(node: &'a JsonNode, key: &str) -> Result<&'a [(String, JsonNode)], JsoncError> {
    match &node.value {
        JsonValue::Object(members) => Ok(members),
        _ => Err(wrong(node.at, format!("`{key}` must be an object, not {}", node.what()))),
    }
}

fn text(node: &JsonNode, key: &str) -> Result<String, JsoncError> {
    match &node.value {
        JsonValue::Text(text) => Ok(text.clone()),
        _ => Err(wrong(node.at, format!("`{key}` must be a string, not {}", node.what()))),
    }
}

fn flag(node: &JsonNode, key: &str) -> Result<bool, JsoncError> {
    match node.value {
        JsonValue::Bool(flag) => Ok(flag),
        _ => Err(wrong(node.at, format!("`{key}` must be true or false, not {}", node.what()))),
    }
}

fn texts(node: &JsonNode, key: &str) -> Result<Vec<String>, JsoncError> {
    match &node.value {
        JsonValue::List(items) => {
            items.iter().enumerate().map(|(at, item)| text(item, &format!("{key}[{at}]"))).collect()
        }
        _ => Err(wrong(node.at, format!("`{key}` must be a list, not {}", node.what()))),
    }
}

fn patterns(node: &JsonNode, key: &str) -> Result<Vec<NamePattern>, JsoncError> {
    let read = |text: String| text.parse().map_err(|why: InvalidPattern| wrong(node.at, format!("`{key}`: {why}")));
    texts(node, key)?.into_iter().map(read).collect()
}

/// A server while it is read.
struct ServerReading<'a> {
    text: &'a str,
    name: &'a str,
    product: Product,
    warnings: &'a mut Vec<Warning>,
}

/// The keys of a server that have been read.
#[derive(Default)]
struct ServerKeys {
    command: Option<String>,
    args: Option<(usize, Vec<String>)>,
    env: Option<(usize, Vec<(String, String)>)>,
    cwd: Option<(usize, String)>,
    env_file: Option<(usize, String)>,
    url: Option<(usize, String)>,
    headers: Option<(usize, Vec<(String, String)>)>,
    transport: Option<(usize, String)>,
}

impl ServerReading<'_> {
    fn warn(&mut self, at: usize, message: String) {
        self.warnings.push(Warning { position: TextPosition::of(self.text, at), message });
    }

    /// An error says which server it is about.
    fn server(&mut self, node: &JsonNode) -> Result<Imported, JsoncError> {
        let read = self.keys(node);
        read.map_err(|JsoncError { at, message }| JsoncError {
            at,
            message: format!("the server `{}`: {message}", self.name),
        })
    }

    fn keys(&mut self, node: &JsonNode) -> Result<Imported, JsoncError> {
        let JsonValue::Object(members) = &node.value else {
            return Err(wrong(node.at, format!("it must be an object, not {}", node.what())));
        };
        let mut keys = ServerKeys::default();
        let (mut timeout, mut disabled, mut tools) = (None, false, ToolFilter::default());
        for (key, value) in members {
            let at = value.at;
            match key.as_str() {
                // As Zed wrote it once: the program, its arguments and its environment in one.
                "command" if matches!(value.value, JsonValue::Object(_)) => {
                    keys.command = value.get("path").map(|path| text(path, "command.path")).transpose()?;
                    if let Some(args) = value.get("args") {
                        keys.args = Some((args.at, texts(args, "command.args")?));
                    }
                    if let Some(env) = value.get("env").filter(|env| !matches!(env.value, JsonValue::Null)) {
                        keys.env = Some((env.at, self.environment(env)?));
                    }
                }
                "command" => keys.command = Some(text(value, key)?),
                "source" if self.product == Product::Zed => {}
                // Codex: names of variables, where others write values.
                "env_vars" => {
                    let named = texts(value, key)?.into_iter().map(|name| (name.clone(), format!("${{{name}}}")));
                    keys.env.get_or_insert((at, Vec::new())).1.extend(named);
                }
                "bearer_token_env_var" => {
                    let token = ("Authorization".to_owned(), format!("Bearer ${{{}}}", text(value, key)?));
                    keys.headers.get_or_insert((at, Vec::new())).1.push(token);
                }
                "env_http_headers" => {
                    for (name, variable) in object(value, key)? {
                        let header = (name.clone(), format!("${{{}}}", text(variable, key)?));
                        keys.headers.get_or_insert((at, Vec::new())).1.push(header);
                    }
                }
                "args" => keys.args = Some((at, texts(value, key)?)),
                "env" => {
                    let given = self.environment(value)?;
                    keys.env.get_or_insert((at, Vec::new())).1.extend(given);
                }
                "cwd" => keys.cwd = Some((at, text(value, key)?)),
                "envFile" => keys.env_file = Some((at, text(value, key)?)),
                "url" | "serverUrl" | "httpUrl" => {
                    if keys.url.is_some() {
                        return Err(wrong(at, "it has more than one URL"));
                    }
                    keys.url = Some((at, text(value, key)?));
                    if key == "httpUrl" && keys.transport.is_none() {
                        keys.transport = Some((at, "http".into()));
                    }
                }
                "headers" | "http_headers" => {
                    let header = |(name, value): &(String, JsonNode)| {
                        Ok((name.clone(), text(value, &format!("headers.{name}"))?))
                    };
                    let given: Vec<_> = object(value, key)?.iter().map(header).collect::<Result<_, JsoncError>>()?;
                    keys.headers.get_or_insert((at, Vec::new())).1.extend(given);
                }
                "type" | "transport" | "transportType" => keys.transport = Some((at, text(value, key)?)),
                "timeout" | "tool_timeout_sec" => timeout = Some(self.timeout(value)?),
                // As Gemini, Codex and Copilot write it; our own words last.
                "includeTools" | "enabledTools" | "enabled_tools" | "allowTools" | "allow_tools" => {
                    tools.allow.get_or_insert_default().extend(patterns(value, key)?);
                }
                "tools" if matches!(value.value, JsonValue::List(_)) => {
                    tools.allow.get_or_insert_default().extend(patterns(value, key)?);
                }
                "excludeTools" | "disabledTools" | "disabled_tools" | "denyTools" | "deny_tools" => {
                    tools.deny.extend(patterns(value, key)?);
                }
                "disabled" => disabled = flag(value, key)?,
                // Cline writes both; they are each other's opposite.
                "enabled" => disabled = !flag(value, key)?,
                _ => self.warn(at, format!("`{key}` of the server `{}` is not understood and left out", self.name)),
            }
        }
        let launch = self.launch(keys, node.at)?;
        Ok(Imported {
            name: self.name.to_owned(),
            position: TextPosition::of(self.text, node.at),
            launch,
            timeout,
            tools,
            disabled,
        })
    }

    fn environment(&mut self, node: &JsonNode) -> Result<Vec<(String, String)>, JsoncError> {
        let mut variables = Vec::new();
        for (name, value) in object(node, "env")? {
            let text = match &value.value {
                JsonValue::Text(text) => text.clone(),
                // Numbers and switches without quotes are a common slip, and can mean only one thing.
                JsonValue::Number(number) => number.to_string(),
                JsonValue::Bool(flag) => flag.to_string(),
                // VS Code takes a variable away so; we only ever add.
                JsonValue::Null => continue,
                _ => return Err(wrong(value.at, format!("`env.{name}` must be a string, not {}", value.what()))),
            };
            if let Some(variable) = text.strip_prefix('$')
                && !variable.is_empty()
                && variable.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
            {
                self.warn(
                    value.at,
                    format!(
                        "`env.{name}` of the server `{}` is taken as it stands; write `${{{variable}}}` if the variable is meant",
                        self.name
                    ),
                );
            }
            variables.push((name.clone(), text));
        }
        Ok(variables)
    }

    fn timeout(&self, node: &JsonNode) -> Result<std::time::Duration, JsoncError> {
        let time = match node.value {
            JsonValue::Number(number) => self.product.timeout(number),
            _ => None,
        };
        time.ok_or_else(|| wrong(node.at, "`timeout` must be a number above 0"))
    }

    fn launch(&mut self, keys: ServerKeys, at: usize) -> Result<Launch, JsoncError> {
        let ServerKeys { command, args, env, cwd, env_file, url, headers, transport } = keys;
        let word = transport.as_ref().map(|(_, word)| word.to_ascii_lowercase().replace(['-', '_'], ""));
        match word.as_deref() {
            None | Some("stdio" | "http" | "sse" | "streamablehttp" | "streamable") => {}
            Some(_) => {
                let (at, given) = transport.expect("a word comes from it");
                let message = format!("the transport `{given}` is not supported; stdio, http and sse are");
                return Err(wrong(at, message));
            }
        }
        let mut astray = |key: &str, at: Option<usize>, with: &str| {
            if let Some(at) = at {
                self.warn(at, format!("`{key}` of the server `{}` goes with {with} and is left out", self.name));
            }
        };
        match (command, url) {
            (Some(_), Some((at, _))) => Err(wrong(at, "it has both a command and a URL")),
            (None, None) => Err(wrong(at, "it has neither a command nor a URL")),
            (Some(command), None) => {
                astray("headers", headers.map(|(at, _)| at), "a URL");
                if let Some((at, given)) = transport.filter(|_| word.as_deref() != Some("stdio")) {
                    return Err(wrong(at, format!("a command is spoken to by stdio, not by `{given}`")));
                }
                if command.is_empty() {
                    return Err(wrong(at, "`command` is empty"));
                }
                let value = |pair: Option<(usize, String)>| pair.map(|(_, value)| value);
                Ok(Launch::Command {
                    command,
                    args: args.map(|(_, args)| args).unwrap_or_default(),
                    env: env.map(|(_, env)| env).unwrap_or_default(),
                    cwd: value(cwd),
                    env_file: value(env_file),
                })
            }
            (None, Some((_, url))) => {
                astray("args", args.map(|(at, _)| at), "a command");
                astray("env", env.map(|(at, _)| at), "a command");
                astray("cwd", cwd.map(|(at, _)| at), "a command");
                astray("envFile", env_file.map(|(at, _)| at), "a command");
                let transport = match word.as_deref() {
                    Some("stdio") => return Err(wrong(at, "a URL is not spoken to by stdio")),
                    Some("sse") => UrlTransport::Sse,
                    // VS Code's `http` means either of the two.
                    Some(_) if self.product != Product::VsCode => UrlTransport::Streamable,
                    _ => UrlTransport::Auto,
                };
                let headers = headers.map(|(_, headers)| headers).unwrap_or_default();
                Ok(Launch::Url { url, headers, transport })
            }
        }
    }
}

fn inputs(node: &JsonNode) -> Result<Vec<ImportInput>, JsoncError> {
    let JsonValue::List(items) = &node.value else {
        return Err(wrong(node.at, format!("`inputs` must be a list, not {}", node.what())));
    };
    let optional = |item: &JsonNode, key: &str| item.get(key).map(|node| text(node, key)).transpose();
    let input = |item: &JsonNode| {
        let id = item.get("id").ok_or_else(|| wrong(item.at, "an input needs an `id`"))?;
        Ok(ImportInput {
            id: text(id, "id")?,
            description: optional(item, "description")?,
            password: item.get("password").map_or(Ok(false), |node| flag(node, "password"))?,
            default: optional(item, "default")?,
            options: item.get("options").map_or(Ok(Vec::new()), options)?,
        })
    };
    items.iter().map(input).collect()
}

/// A choice is a text, or an object with a `value` and what people see of it.
fn options(node: &JsonNode) -> Result<Vec<String>, JsoncError> {
    let JsonValue::List(items) = &node.value else {
        return Err(wrong(node.at, format!("`options` must be a list, not {}", node.what())));
    };
    items.iter().map(|item| text(item.get("value").unwrap_or(item), "options")).collect()
}
