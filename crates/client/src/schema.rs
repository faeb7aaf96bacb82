//! JSON Schemas of tools' arguments, made from types.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::mcp::Tool;

impl Tool {
    /// A tool whose arguments are a type. Needs the feature `schemars`; [`Toolbox::add`](crate::Toolbox::add) offers it.
    ///
    /// # Panics
    ///
    /// When the type is written as something else than a JSON object: MCP has arguments by name only.
    pub fn typed<A: JsonSchema>(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self::new(name, description, &schema_of::<A>())
    }
}

/// The schema of an object, without what a model has no use for: the name of the Rust type, and references where they can be avoided,
/// which some clients do not follow.
fn schema_of<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    schema.remove("title");
    // MCP wants `type` even where another keyword, such as the `oneOf` of an enum, implies it.
    let kind = schema.ensure_object().entry("type").or_insert_with(|| "object".into());
    assert!(kind == "object", "the arguments of a tool are an object, and `{}` is not", A::schema_name());
    schema.to_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only the schema is looked at")]
    struct Order {
        /// What to bring
        item: String,
        size: Option<Size>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only the schema is looked at")]
    enum Size {
        Small,
        Large,
    }

    #[derive(JsonSchema)]
    #[serde(tag = "what")]
    #[expect(dead_code, reason = "only the schema is looked at")]
    enum Either {
        Left { n: u8 },
        Right { s: String },
    }

    #[test]
    fn a_struct_is_an_object_with_its_fields() {
        assert_eq!(
            schema_of::<Order>(),
            serde_json::json!({
                "type": "object",
                "properties": {
                    "item": { "type": "string", "description": "What to bring" },
                    "size": { "type": ["string", "null"], "enum": ["Small", "Large", null] },
                },
                "required": ["item"],
            })
        );
    }

    #[test]
    fn an_enum_says_that_it_is_an_object() {
        let schema = schema_of::<Either>();
        assert_eq!((schema["type"].as_str(), schema["oneOf"].as_array().map(Vec::len)), (Some("object"), Some(2)));
    }

    #[test]
    #[should_panic(expected = "the arguments of a tool are an object")]
    fn arguments_without_names_are_a_mistake() {
        schema_of::<u8>();
    }
}
