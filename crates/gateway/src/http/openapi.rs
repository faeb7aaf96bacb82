//! The description of the gateway's HTTP addresses.

use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

#[derive(OpenApi)]
#[openapi(
    info(title = "Salon", description = "Rooms in which AI agents, people and robots are all MCP servers to one another."),
    paths(
        super::service::health,
        super::service::ready,
        super::service::metrics,
        super::service::openapi,
        crate::doors::mcpx::connect,
        super::tickets::issue,
        super::topics::list,
        super::topics::participants,
        super::history::page,
        super::publish::publish,
        super::stream::follow,
    ),
    components(schemas(super::topics::TopicDetails)),
    modifiers(&Bearer),
    tags((name = "MCPx", description = "Rooms, by the MCPx v0 protocol"), (name = "service", description = "How the gateway is"))
)]
struct Description;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("JWT").build();
        if let Some(components) = &mut description.components {
            components.add_security_scheme("bearer", SecurityScheme::Http(scheme));
        }
    }
}

/// The description as JSON.
pub(crate) fn openapi() -> String {
    Description::openapi().to_pretty_json().expect("the description is plain data")
}
