//! The description of the gateway's HTTP addresses.

use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

#[derive(OpenApi)]
#[openapi(
    info(title = "Salon", description = "Rooms in which AI agents, people and robots are all MCP servers to one another. A topic or a participant in a path or a query is percent-encoded: `#general` is `%23general`. Names have 1 to 128 letters and digits of ASCII, spaces between them, and ``! # $ & ' ( ) + , - . : ; = @ [ ] ^ _ { | } ~``."),
    paths(
        super::service::health,
        super::service::ready,
        super::service::metrics,
        super::service::openapi,
        crate::doors::mcpx::connect,
        super::tickets::issue,
        super::revocations::revoke,
        super::guests::list,
        super::search::search,
        super::topics::list,
        super::topic::show,
        super::topic::create,
        super::topic::change,
        super::topic::delete,
        super::topics::participants,
        super::lists::read,
        super::history::page,
        super::files::put,
        super::files::get,
        super::files::remove,
        super::publish::publish,
        super::stream::follow,
        crate::doors::mcp::listen,
        crate::doors::mcp::send,
        crate::doors::mcp::end,
        crate::doors::mcp::message,
        crate::doors::mcp::poll,
        crate::doors::machine::connect,
        crate::doors::machine::send,
        crate::doors::machine::listen,
        super::metadata::describe,
        crate::ui::assets::page,
        crate::ui::assets::asset,
        crate::ui::invitations::invite,
        crate::ui::session::begin,
        crate::ui::session::show,
        crate::ui::session::end,
    ),
    modifiers(&SecuritySchemes),
    tags((name = "MCPx", description = "Rooms, by the MCPx v0 protocol"), (name = "MCP", description = "Rooms as MCP servers"),
        (name = "Machine Context Protocol", description = "Rooms, by the Machine Context Protocol 1.0"), (name = "Web", description = "The room in a browser, for the gateway's own page"), (name = "service", description = "How the gateway is"))
)]
struct Description;

struct SecuritySchemes;

impl Modify for SecuritySchemes {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("JWT").build();
        let about = "What `POST /v0/session` sets, for the gateway's own page alone; the name has more after this, of the gateway's own";
        let cookie = ApiKeyValue::with_description("salon_session", about);
        if let Some(components) = &mut description.components {
            components.add_security_scheme("bearer", SecurityScheme::Http(scheme));
            components.add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
        }
    }
}

/// The description as JSON.
pub(crate) fn openapi() -> String {
    Description::openapi().to_pretty_json().expect("the description is plain data")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    #[test]
    fn where_the_cookie_counts_is_described() {
        let description: Value = serde_json::from_str(&super::openapi()).expect("JSON");
        let takes = |operation: &Value| {
            let ways = operation["security"].as_array().into_iter().flatten();
            ways.into_iter().any(|way| way.get("session").is_some())
        };
        let paths = description["paths"].as_object().expect("paths").iter();
        let operations = paths
            .flat_map(|(path, methods)| methods.as_object().expect("methods").iter().map(move |found| (path, found)));
        let told: Vec<_> = operations
            .filter(|(_, (_, operation))| takes(operation))
            .map(|(path, (method, _))| format!("{method} {path}"))
            .collect();
        insta::assert_snapshot!(told.join("\n"), @"
        post /v0/auth/revocations
        get /v0/guests
        post /v0/invitations
        get /v0/search
        delete /v0/session
        get /v0/session
        post /v0/tickets
        get /v0/topics
        get /v0/topics/{topic}
        post /v0/topics/{topic}/files
        delete /v0/topics/{topic}/files/{file}
        get /v0/topics/{topic}/files/{file}
        get /v0/topics/{topic}/history
        get /v0/topics/{topic}/lists/{list}
        get /v0/topics/{topic}/participants
        ");
        assert!(description["paths"]["/v0/session"]["post"]["responses"]["201"].is_object());
        assert!(description["components"]["securitySchemes"]["session"].is_object());
    }

    #[test]
    fn both_forms_of_the_list_of_topics_are_described() {
        let description: Value = serde_json::from_str(&super::openapi()).expect("JSON");
        let answer = &description["paths"]["/v0/topics"]["get"]["responses"]["200"]["content"]["application/json"];
        assert_eq!(answer["schema"], json!({ "$ref": "#/components/schemas/TopicList" }));
        let schemas = &description["components"]["schemas"];
        let form = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
        assert_eq!(schemas["TopicList"]["oneOf"], json!([form("TopicNames"), form("TopicDetails")]));
        assert_eq!(schemas["TopicDetails"]["properties"]["topics"]["items"], form("TopicDetail"));
        assert!(schemas["TopicDetail"]["properties"]["participants"].is_object());
    }
}
