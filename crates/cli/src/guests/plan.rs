//! Which guests `salon serve` is to host: those of its configuration, and those of the files named with `--import`.
//!
//! Read at the start and again at every SIGHUP. Starting and stopping them is `hosting`'s.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use salon_control::{InvalidPattern, NamePattern};
use salon_gateway::config::{Config, Feature, Guest, GuestServer, GuestTransport, Overrides};
use salon_guests::import::{self, ImportInput, Launch, Product, Surroundings, TakenNames};
use salon_guests::oauth::OAuthOptions;
use salon_guests::upstream::{GuestTarget, GuestUser, UrlTransport};
use salon_guests::{Expose, Spec, ToolFilter};
use salon_protocol::{ParticipantId, ParticipantKind, TopicName};

use super::{ask, oauth, watcher};
use crate::args::Locations;

/// Where guests are written.
#[derive(Debug)]
pub(crate) struct Sources {
    /// How the file was found, by which it is trusted or not.
    pub(crate) places: Locations,
    pub(crate) file: Option<PathBuf>,
    pub(crate) overrides: Overrides,
    pub(crate) imports: Vec<PathBuf>,
    /// The room for those of the imports.
    pub(crate) topic: TopicName,
}

/// A guest that is to be there, or why it cannot be.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) key: GuestSeatKey,
    pub(crate) ready: anyhow::Result<GuestTerms>,
}

/// Whom a guest is in which room. There is only one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GuestSeatKey {
    pub(crate) topic: TopicName,
    pub(crate) id: ParticipantId,
}

/// All that makes a guest what it is: as long as this is the same, it is not disturbed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GuestTerms {
    target: GuestTarget,
    user: Option<GuestUser>,
    pub(crate) name: Option<String>,
    pub(crate) kind: ParticipantKind,
    isolated: bool,
    pub(crate) expose: Expose,
    tools: ToolFilter,
    timeout: Option<Duration>,
}

impl GuestTerms {
    pub(crate) fn spec(&self, key: &GuestSeatKey) -> Spec {
        let mut spec = Spec::new(key.id.as_str(), self.target.clone());
        (spec.isolated, spec.expose, spec.tools) = (self.isolated, self.expose, self.tools.clone());
        spec.timeout = self.timeout.unwrap_or(spec.timeout);
        spec.user = self.user.clone();
        spec.watcher = watcher();
        // Nobody sits at a gateway: it uses what `salon login --guest` has stored.
        spec.oauth = oauth::store().map(|store| OAuthOptions { store, client: None, prompt: None });
        spec
    }
}

/// The guests to run, and warnings about them.
#[derive(Debug, Default)]
pub(crate) struct GuestPlan {
    pub(crate) guests: Vec<Planned>,
    pub(crate) warnings: Vec<String>,
}

/// Answers to the inputs of import files, by file and input. Asked for once, at the start.
#[derive(Debug, Default)]
pub(crate) struct InputAnswers {
    given: RefCell<HashMap<(PathBuf, String), String>>,
    /// Whether there is still somebody to ask.
    asking: bool,
}

impl InputAnswers {
    /// Asks when somebody is there.
    pub(crate) fn asking() -> Self {
        Self { asking: ask::anybody(), ..Self::default() }
    }

    /// From now on only what was answered is known: a gateway that runs asks nothing.
    pub(crate) fn settled(mut self) -> Self {
        self.asking = false;
        self
    }

    fn answer(&self, file: &Path, id: &str, inputs: &[ImportInput]) -> Result<String, String> {
        let input = inputs.iter().find(|input| input.id == id).ok_or("the file has no such input")?;
        let key = (file.to_owned(), id.to_owned());
        if let Some(answer) = self.given.borrow().get(&key) {
            return Ok(answer.clone());
        }
        if !self.asking {
            return Err("it is asked for at the start, at a terminal".into());
        }
        let answer = put(input).map_err(|error| error.to_string())?;
        self.given.borrow_mut().insert(key, answer.clone());
        Ok(answer)
    }
}

/// Puts an input to the person at the terminal.
fn put(input: &ImportInput) -> std::io::Result<String> {
    let mut question = input.description.clone().unwrap_or_else(|| input.id.clone());
    if !input.options.is_empty() {
        question.push_str(&format!(" ({})", input.options.join(", ")));
    }
    if let Some(default) = input.default.as_ref().filter(|_| !input.password) {
        question.push_str(&format!(" [{default}]"));
    }
    let question = format!("{}:", crate::safe::line(&question));
    loop {
        let answer = ask::line(&question, input.password)?;
        let answer = if answer.is_empty() { input.default.clone().unwrap_or_default() } else { answer };
        if input.options.is_empty() || input.options.contains(&answer) {
            return Ok(answer);
        }
    }
}

impl Sources {
    /// Reads everything again. An error means that a file cannot be read at all; a single guest's trouble is its own.
    pub(crate) fn read(&self, answers: &InputAnswers) -> anyhow::Result<GuestPlan> {
        if let Some(file) = &self.file {
            self.places.check_trusted(file)?;
        }
        let config = Config::load(self.file.as_deref(), self.overrides.clone())?;
        self.plan(&config, answers)
    }

    /// The guests of a configuration that has been read already, and of the imports.
    pub(crate) fn plan(&self, config: &Config, answers: &InputAnswers) -> anyhow::Result<GuestPlan> {
        let mut plan = GuestPlan::default();
        let mut names: BTreeMap<&TopicName, TakenNames> = BTreeMap::new();
        for guest in &config.guests {
            names.entry(&guest.topic).or_default().take(&guest.id);
            if !guest.terms.disabled {
                plan.guests.push(configured(guest));
            }
        }
        let names = names.entry(&self.topic).or_default();
        for file in &self.imports {
            self.import(file, names, answers, &mut plan)?;
        }
        Ok(plan)
    }

    fn import(
        &self,
        file: &Path,
        names: &mut TakenNames,
        answers: &InputAnswers,
        plan: &mut GuestPlan,
    ) -> anyhow::Result<()> {
        let shown = file.display();
        let folder = folder_of(file)?;
        let text = std::fs::read_to_string(file).with_context(|| format!("`{shown}` could not be read"))?;
        let import =
            import::read(&text, Product::of(file), Some(&folder)).map_err(|error| anyhow!("{shown}:{error}"))?;
        if import.servers.is_empty() && import.refused.is_empty() {
            plan.warnings.push(format!("{shown}: there are no MCP servers in it"));
        }
        plan.warnings.extend(import.refused.iter().map(|refused| format!("{shown}:{refused}; it is left out")));
        plan.warnings.extend(import.warnings.iter().map(|warning| format!("{shown}:{warning}")));
        for server in import.servers.iter().filter(|server| !server.disabled) {
            let id = names.id_for(&server.name);
            if id.as_str() != server.name {
                plan.warnings.push(format!("{shown}:{}: `{}` takes part as `{id}`", server.position, server.name));
            }
            let input = |input: &str| answers.answer(file, input, &import.inputs);
            let ready = expand(&server.launch, &server.name, &folder, &input).map(|target| GuestTerms {
                target,
                user: None,
                name: (id.as_str() != server.name).then(|| server.name.clone()),
                kind: ParticipantKind::Agent,
                isolated: false,
                expose: Expose::default(),
                tools: server.tools.clone(),
                timeout: server.timeout,
            });
            plan.guests.push(Planned { key: GuestSeatKey { topic: self.topic.clone(), id }, ready });
        }
        Ok(())
    }
}

fn configured(guest: &Guest) -> Planned {
    let terms = &guest.terms;
    let ready = || {
        let file = std::path::absolute(&guest.file)?;
        let folder = file.parent().unwrap_or(Path::new("/"));
        let target = expand(&launch(&terms.server), guest.id.as_str(), folder, &|_| {
            Err("only files of VS Code have inputs".into())
        })?;
        Ok(GuestTerms {
            target,
            user: user(&terms.server)?,
            name: terms.name.clone(),
            kind: terms.kind.unwrap_or(ParticipantKind::Agent),
            isolated: terms.isolated,
            expose: terms.expose.as_deref().map(exposed).unwrap_or_default(),
            tools: ToolFilter {
                allow: terms.allow_tools.as_deref().map(|list| patterns(list, "allow_tools")).transpose()?,
                deny: patterns(&terms.deny_tools, "deny_tools")?,
            },
            timeout: terms.timeout,
        })
    };
    Planned { key: GuestSeatKey { topic: guest.topic.clone(), id: guest.id.clone() }, ready: ready() }
}

fn user(server: &GuestServer) -> anyhow::Result<Option<GuestUser>> {
    match server {
        GuestServer::Command { user: Some(user), .. } => {
            GuestUser::lookup(user).map(Some).map_err(|why| anyhow!("`user`: {why}"))
        }
        _ => Ok(None),
    }
}

fn patterns(list: &[String], key: &str) -> anyhow::Result<Vec<NamePattern>> {
    list.iter().map(|text| text.parse().map_err(|why: InvalidPattern| anyhow!("`{key}`: {why}"))).collect()
}

fn exposed(features: &[Feature]) -> Expose {
    let has = |feature| features.contains(&feature);
    Expose { tools: has(Feature::Tools), resources: has(Feature::Resources), prompts: has(Feature::Prompts) }
}

/// A server of the configuration in the words of `salon-guests`.
pub(super) fn launch(server: &GuestServer) -> Launch {
    let pairs =
        |map: &BTreeMap<String, String>| map.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    match server {
        GuestServer::Command { command, args, env, cwd, env_file, user: _ } => Launch::Command {
            command: command.0.clone(),
            args: args.0.clone(),
            env: pairs(&env.0),
            cwd: cwd.clone(),
            env_file: env_file.clone(),
        },
        GuestServer::Url { url, headers, transport } => Launch::Url {
            url: url.0.clone(),
            headers: pairs(&headers.0),
            transport: match transport {
                Some(GuestTransport::Sse) => UrlTransport::Sse,
                Some(GuestTransport::Http) => UrlTransport::Streamable,
                None => UrlTransport::Auto,
            },
        },
    }
}

fn expand(
    launch: &Launch,
    server: &str,
    folder: &Path,
    input: &dyn Fn(&str) -> Result<String, String>,
) -> anyhow::Result<GuestTarget> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let around = Surroundings {
        variable: &|name| std::env::var(name).ok(),
        input,
        folder,
        home: home.as_deref(),
        read: &|path| std::fs::read_to_string(path),
    };
    Ok(launch.expand(server, &around)?)
}

/// The folder that a file's servers belong to: the project's, or the one we are in.
pub(super) fn folder_of(file: &Path) -> anyhow::Result<PathBuf> {
    let file = std::path::absolute(file)?;
    match Product::workspace(&file) {
        Some(folder) => Ok(folder.to_owned()),
        None => Ok(std::env::current_dir()?),
    }
}
