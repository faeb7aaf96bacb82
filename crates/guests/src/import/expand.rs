//! References in texts, `${VAR}` and its like: what they stand for is looked up when a server is started, never before, so that no
//! secret comes to stand in a file.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::{EnvFileError, Launch, env_file};
use crate::upstream::GuestTarget;

/// What references stand for here.
pub struct Surroundings<'a> {
    /// A variable of the environment, where it is set.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The answer to `${input:ID}`, or why there is none.
    pub input: &'a dyn Fn(&str) -> Result<String, String>,
    /// `${workspaceFolder}`, where relative paths begin, and where a command runs unless it says otherwise.
    pub folder: &'a Path,
    /// `${userHome}`.
    pub home: Option<&'a Path>,
    /// Reads the file that `env_file` names.
    pub read: &'a dyn Fn(&Path) -> io::Result<String>,
}

/// Why a server cannot be started as it is written. No value is in it.
#[derive(Debug, thiserror::Error)]
#[error("`{key}` of `{server}` cannot be used: {why}")]
pub struct ExpandError {
    pub server: String,
    /// The key the text stands under.
    pub key: String,
    pub why: Why,
}

/// What is wrong with a text.
#[derive(Debug, thiserror::Error)]
pub enum Why {
    /// A variable that is not there.
    #[error("the variable `{0}` is not set")]
    Unset(String),
    /// An input nobody gave.
    #[error("there is no answer for the input `{id}`: {why}")]
    Input { id: String, why: String },
    /// A reference to something we do not have.
    #[error("`${{{0}}}` is not understood")]
    Unknown(String),
    /// A reference without its end.
    #[error("`${{` is opened and never closed (`$${{` stands for the characters themselves)")]
    Unclosed,
    /// There is no home directory to name.
    #[error("there is no home directory")]
    NoHome,
    /// The file cannot be read.
    #[error("`{}` could not be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The file is not as it must be.
    #[error("`{}`, {source}", path.display())]
    EnvFile { path: PathBuf, source: EnvFileError },
}

/// What a `${…}` refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableReference<'a> {
    /// `${NAME}`, `${env:NAME}` or `${NAME:-default}`. The default serves where the variable is unset or empty.
    Variable {
        name: &'a str,
        /// What to take without it.
        default: Option<&'a str>,
    },
    /// `${input:ID}`.
    Input(&'a str),
    /// `${workspaceFolder}`.
    Folder,
    /// `${workspaceFolderBasename}`.
    FolderName,
    /// `${userHome}`.
    Home,
    /// `${pathSeparator}` or `${/}`.
    Separator,
    /// Anything else.
    Unknown,
}

impl<'a> VariableReference<'a> {
    fn read(inner: &'a str) -> Self {
        match inner {
            "workspaceFolder" => return Self::Folder,
            "workspaceFolderBasename" => return Self::FolderName,
            "userHome" => return Self::Home,
            "pathSeparator" | "/" => return Self::Separator,
            _ => {}
        }
        if let Some(id) = inner.strip_prefix("input:") {
            return Self::Input(id);
        }
        let variable = inner.strip_prefix("env:").unwrap_or(inner);
        let (name, default) = match variable.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (variable, None),
        };
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if is_name { Self::Variable { name, default } } else { Self::Unknown }
    }
}

/// Replaces every reference in a text. `meaning` is given the reference and its text, and whatever stands around is kept.
pub(super) fn replace<E: From<Why>>(
    text: &str,
    mut meaning: impl FnMut(VariableReference<'_>, &str) -> Result<String, E>,
    escaped: &str,
) -> Result<String, E> {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            replaced.push_str(&rest[..at - 1]);
            replaced.push_str(escaped);
            rest = &rest[at + 2..];
            continue;
        }
        replaced.push_str(&rest[..at]);
        let (inner, after) = rest[at + 2..].split_once('}').ok_or(Why::Unclosed)?;
        replaced.push_str(&meaning(VariableReference::read(inner), inner)?);
        rest = after;
    }
    replaced.push_str(rest);
    Ok(replaced)
}

impl Surroundings<'_> {
    fn text(&self, text: &str) -> Result<String, Why> {
        replace(text, |reference, inner| self.meaning(reference, inner), "${")
    }

    fn meaning(&self, reference: VariableReference<'_>, inner: &str) -> Result<String, Why> {
        match reference {
            VariableReference::Variable { name, default } => {
                let value = (self.variable)(name);
                let value = match default {
                    Some(default) => value.filter(|value| !value.is_empty()).or_else(|| Some(default.to_owned())),
                    None => value,
                };
                value.ok_or_else(|| Why::Unset(name.to_owned()))
            }
            VariableReference::Input(id) => (self.input)(id).map_err(|why| Why::Input { id: id.to_owned(), why }),
            VariableReference::Folder => Ok(self.folder.display().to_string()),
            VariableReference::FolderName => {
                Ok(self.folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default())
            }
            VariableReference::Home => self.home.map(|home| home.display().to_string()).ok_or(Why::NoHome),
            VariableReference::Separator => Ok(std::path::MAIN_SEPARATOR_STR.to_owned()),
            VariableReference::Unknown => Err(Why::Unknown(inner.to_owned())),
        }
    }

    fn variables_of(&self, path: &Path) -> Result<Vec<(String, String)>, Why> {
        let text = (self.read)(path).map_err(|source| Why::Unreadable { path: path.to_owned(), source })?;
        env_file::parse(&text).map_err(|source| Why::EnvFile { path: path.to_owned(), source })
    }
}

impl Launch {
    /// What to start, with every reference replaced. `server` is who errors are about.
    pub fn expand(&self, server: &str, around: &Surroundings<'_>) -> Result<GuestTarget, ExpandError> {
        let failed = |key: &str, why| ExpandError { server: server.to_owned(), key: key.to_owned(), why };
        let text = |key: &str, text: &str| around.text(text).map_err(|why| failed(key, why));
        let pairs = |under: &str, list: &[(String, String)]| {
            let pair = |(name, value): &(String, String)| Ok((name.clone(), text(&format!("{under}.{name}"), value)?));
            list.iter().map(pair).collect::<Result<Vec<_>, ExpandError>>()
        };
        match self {
            Self::Command { command, args, env, cwd, env_file } => {
                let program = text("command", command)?.into();
                let arg = |(at, arg): (usize, &String)| text(&format!("args[{at}]"), arg).map(OsString::from);
                let args = args.iter().enumerate().map(arg).collect::<Result<_, _>>()?;
                let mut variables = match env_file {
                    Some(path) => {
                        let path = around.folder.join(text("env_file", path)?);
                        around.variables_of(&path).map_err(|why| failed("env_file", why))?
                    }
                    None => Vec::new(),
                };
                variables.extend(pairs("env", env)?);
                let env = variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
                let cwd = match cwd {
                    Some(cwd) => around.folder.join(text("cwd", cwd)?),
                    None => around.folder.to_owned(),
                };
                Ok(GuestTarget::Command { program, args, env, cwd: Some(cwd) })
            }
            Self::Url { url, headers, transport } => Ok(GuestTarget::Url {
                url: text("url", url)?,
                headers: pairs("headers", headers)?,
                transport: *transport,
            }),
        }
    }

    /// The same with references replaced by other texts, for those for which `other` has one. For a text that is written elsewhere.
    pub fn rewritten(&self, other: &dyn Fn(VariableReference<'_>) -> Option<String>) -> Self {
        let text = |text: &String| {
            let kept = |reference: VariableReference<'_>, inner: &str| {
                Ok::<_, Why>(other(reference).unwrap_or_else(|| format!("${{{inner}}}")))
            };
            // An unreadable value stays as it is, and is reported when the guest is started.
            replace(text, kept, "$${").unwrap_or_else(|_| text.clone())
        };
        let pairs = |list: &[(String, String)]| list.iter().map(|(name, value)| (name.clone(), text(value))).collect();
        match self {
            Self::Command { command, args, env, cwd, env_file } => Self::Command {
                command: text(command),
                args: args.iter().map(text).collect(),
                env: pairs(env),
                cwd: cwd.as_ref().map(text),
                env_file: env_file.as_ref().map(text),
            },
            Self::Url { url, headers, transport } => {
                Self::Url { url: text(url), headers: pairs(headers), transport: *transport }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::UrlTransport;

    fn around<T>(run: impl FnOnce(&Surroundings<'_>) -> T) -> T {
        let variable = |name: &str| match name {
            "TOKEN" => Some("t0ken".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let input = |id: &str| if id == "key" { Ok("k3y".to_owned()) } else { Err("nobody is here to ask".to_owned()) };
        let read = |path: &Path| match path.to_str() {
            Some("/srv/lab/.env") => Ok("A=file\nB=file\n".to_owned()),
            Some("/srv/lab/bad.env") => Ok("A=1\nsecret\n".to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        run(&Surroundings {
            variable: &variable,
            input: &input,
            folder: Path::new("/srv/lab"),
            home: Some(Path::new("/somewhere")),
            read: &read,
        })
    }

    #[test]
    fn references_stand_for_what_is_around() {
        let told = |text: &str| match around(|around| around.text(text)) {
            Ok(came) => format!("{text} → {came}"),
            Err(why) => format!("{text} → error: {why}"),
        };
        let texts = [
            "plain $5 {x} $X",
            "${TOKEN}",
            "Bearer ${env:TOKEN}!",
            "a${EMPTY}b",
            "${EMPTY:-default} ${NONE:-http://x:1/y} ${env:NONE:-} ${TOKEN:-no}",
            "${workspaceFolder}${/}x ${workspaceFolderBasename} ${userHome}${pathSeparator}",
            "${input:key}",
            "$${TOKEN} ${TOKEN}",
            "${NONE}",
            "${env:NONE}",
            "${input:other}",
            "${command:pick}",
            "${}",
            "${TOKEN",
        ];
        insta::assert_snapshot!(texts.map(told).join("\n"), @"
        plain $5 {x} $X → plain $5 {x} $X
        ${TOKEN} → t0ken
        Bearer ${env:TOKEN}! → Bearer t0ken!
        a${EMPTY}b → ab
        ${EMPTY:-default} ${NONE:-http://x:1/y} ${env:NONE:-} ${TOKEN:-no} → default http://x:1/y  t0ken
        ${workspaceFolder}${/}x ${workspaceFolderBasename} ${userHome}${pathSeparator} → /srv/lab/x lab /somewhere/
        ${input:key} → k3y
        $${TOKEN} ${TOKEN} → ${TOKEN} t0ken
        ${NONE} → error: the variable `NONE` is not set
        ${env:NONE} → error: the variable `NONE` is not set
        ${input:other} → error: there is no answer for the input `other`: nobody is here to ask
        ${command:pick} → error: `${command:pick}` is not understood
        ${} → error: `${}` is not understood
        ${TOKEN → error: `${` is opened and never closed (`$${` stands for the characters themselves)
        ");
    }

    fn command() -> Launch {
        Launch::Command {
            command: "npx".into(),
            args: vec!["--root".into(), "${workspaceFolder}".into()],
            env: vec![("B".into(), "${TOKEN}".into())],
            cwd: Some("sub".into()),
            env_file: Some("${workspaceFolder}/.env".into()),
        }
    }

    #[test]
    fn a_command_is_expanded_throughout() {
        let target = around(|around| command().expand("files", around)).expect("a target");
        let strings = |list: &[&str]| list.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(
            target,
            GuestTarget::Command {
                program: "npx".into(),
                args: strings(&["--root", "/srv/lab"]),
                // What stands in `env` comes last, and so overrides the file.
                env: [("A", "file"), ("B", "file"), ("B", "t0ken")].map(|(a, b)| (a.into(), b.into())).to_vec(),
                cwd: Some("/srv/lab/sub".into()),
            }
        );
    }

    #[test]
    fn an_error_names_the_variable_the_server_and_the_key() {
        let url = |url: &str, header: &str| Launch::Url {
            url: url.into(),
            headers: vec![("Authorization".into(), header.into())],
            transport: UrlTransport::Auto,
        };
        let with = |change: &dyn Fn(&mut Launch)| {
            let mut launch = command();
            change(&mut launch);
            launch
        };
        let launches = [
            url("https://${HOST}/mcp", "x"),
            url("https://x", "Bearer ${KEY}"),
            with(&|launch| {
                if let Launch::Command { args, .. } = launch {
                    args.push("${ROOT}".into());
                }
            }),
            with(&|launch| {
                if let Launch::Command { env, .. } = launch {
                    env.push(("C".into(), "${input:other}".into()));
                }
            }),
            with(&|launch| {
                if let Launch::Command { env_file, .. } = launch {
                    *env_file = Some("gone.env".into());
                }
            }),
            with(&|launch| {
                if let Launch::Command { env_file, .. } = launch {
                    *env_file = Some("bad.env".into());
                }
            }),
        ];
        let told = |launch: &Launch| around(|around| launch.expand("files", around)).expect_err("an error").to_string();
        insta::assert_snapshot!(launches.each_ref().map(told).join("\n"), @"
        `url` of `files` cannot be used: the variable `HOST` is not set
        `headers.Authorization` of `files` cannot be used: the variable `KEY` is not set
        `args[2]` of `files` cannot be used: the variable `ROOT` is not set
        `env.C` of `files` cannot be used: there is no answer for the input `other`: nobody is here to ask
        `env_file` of `files` cannot be used: `/srv/lab/gone.env` could not be read: entity not found
        `env_file` of `files` cannot be used: `/srv/lab/bad.env`, line 2: there is no `=`
        ");
    }

    #[test]
    fn rewriting_keeps_what_it_does_not_replace() {
        let launch = Launch::Command {
            command: "${userHome}/x $${TOKEN}".into(),
            args: vec!["${workspaceFolder}/${input:key}".into(), "${TOKEN:-a} ${unclosed".into()],
            env: Vec::new(),
            cwd: None,
            env_file: None,
        };
        let rewritten = launch.rewritten(&|reference| match reference {
            VariableReference::Folder => Some("/srv".into()),
            VariableReference::Input(id) => Some(format!("${{{}}}", id.to_uppercase())),
            _ => None,
        });
        let Launch::Command { command, args, .. } = rewritten else { panic!("a command") };
        assert_eq!(command, "${userHome}/x $${TOKEN}");
        assert_eq!(args, ["/srv/${KEY}", "${TOKEN:-a} ${unclosed"]);
    }
}
