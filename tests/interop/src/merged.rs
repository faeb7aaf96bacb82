//! Servers of three SDKs in one room, which is one server to a client of either era.

use std::collections::BTreeSet;

use salon_testkit::Failure;
use serde_json::{Value, json};

use crate::clients::Era;
use crate::door::At;
use crate::features::contains;
use crate::origin::{Installed, Origin};
use crate::stage::Stage;
use crate::wire::Wire;

const GUESTS: [(&str, Origin); 3] =
    [("rust", Origin::RmcpPaged), ("typescript", Origin::Everything), ("python", Origin::Python2)];

pub(crate) async fn all(installed: Installed, era: Era) -> Result<(), Failure> {
    let stage = Stage::hosting(installed, &GUESTS).await?;
    let witness = stage.enter("witness").await?;
    for (guest, _) in GUESTS {
        stage.peer(&witness, guest).await?;
    }
    let outcome = async {
        let wire = Wire::open(stage.socket()?, At::Room.path(), stage.token("ada").await?, era).await?;
        let mut client = Client { wire, asked: 0 };
        client.names().await?;
        client.uses().await?;
        client.wire.close().await
    };
    let outcome: Result<(), Failure> = outcome.await;
    outcome.map_err(|told| format!("{told}\n{}", stage.output()))?;
    witness.leave().await;
    stage.close().await
}

struct Client {
    wire: Wire,
    asked: u64,
}

impl Client {
    /// The answer to a request.
    async fn ask(&mut self, method: &str, name: Option<&str>, params: &Value) -> Result<Value, Failure> {
        self.asked += 1;
        let params = params.to_string();
        let members = params.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
        let came = self.wire.request(self.asked, method, name, members, "").await?;
        let answer = came.last().map(String::as_str).unwrap_or_default();
        serde_json::from_str(answer).map_err(|e| format!("{e}: {answer}"))
    }

    /// Every page of a list.
    async fn list(&mut self, method: &str, key: &str) -> Result<Vec<Value>, Failure> {
        let (mut all, mut params) = (Vec::new(), json!({}));
        loop {
            let answer = self.ask(method, None, &params).await?;
            let page = answer["result"][key].as_array().ok_or_else(|| format!("no {key}: {answer}"))?;
            all.extend(page.iter().cloned());
            match &answer["result"]["nextCursor"] {
                Value::Null => return Ok(all),
                cursor => params = json!({ "cursor": cursor }),
            }
        }
    }

    /// Names are such as every host accepts, each there once, and those of all guests are among them.
    async fn names(&mut self) -> Result<(), Failure> {
        let tools = self.list("tools/list", "tools").await?;
        let mut names = BTreeSet::new();
        for name in tools.iter().filter_map(|tool| tool["name"].as_str()) {
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if name.len() > 64 || !name.chars().all(fits) || !names.insert(name) {
                return Err(format!("`{name}` is no good name, or is there twice"));
            }
        }
        for (guest, origin) in GUESTS {
            let name = format!("{guest}__{}", origin.known().echo.0);
            if !names.contains(&*name) {
                return Err(format!("no `{name}` in {names:?}"));
            }
        }
        Ok(())
    }

    /// What each guest has is used by its listed name, and a name that several have is nobody's.
    async fn uses(&mut self) -> Result<(), Failure> {
        let resources = self.list("resources/list", "resources").await?;
        for (guest, origin) in GUESTS {
            let known = origin.known();
            let (tool, arguments, expected) = &known.echo;
            let name = format!("{guest}__{tool}");
            let params = json!({ "name": name, "arguments": arguments });
            contains(&self.ask("tools/call", Some(&name), &params).await?["result"].to_string(), expected)?;

            let (prompt, arguments, expected) = &known.prompt;
            let name = format!("{guest}__{prompt}");
            let params = json!({ "name": name, "arguments": arguments });
            contains(&self.ask("prompts/get", Some(&name), &params).await?["result"].to_string(), expected)?;

            let (uri, expected) = known.resource;
            if !resources.iter().any(|resource| resource["uri"] == uri) {
                return Err(format!("`{uri}` is not listed"));
            }
            let (_, made, from_template) = known.template;
            for (uri, expected) in [(uri, expected), (made, from_template)] {
                let read = self.ask("resources/read", Some(uri), &json!({ "uri": uri })).await?;
                contains(&read["result"].to_string(), expected)?;
            }
        }
        let params = json!({ "name": "echo", "arguments": {} });
        let refused = self.ask("tools/call", Some("echo"), &params).await?;
        for (guest, _) in GUESTS {
            contains(&refused["error"]["message"].to_string(), guest)?;
        }
        Ok(())
    }
}
