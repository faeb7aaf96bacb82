//! What a schema says of one argument, for people to read.

use serde_json::Value;

use super::{ArgumentSchema, MAX_NESTED};

/// One argument, for people to read and for completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArgumentField {
    pub(crate) name: String,
    /// What people call it; empty when the schema does not say.
    pub(crate) title: String,
    /// `number`, `string`, `array of string`, `red|green`; empty when the schema does not say.
    pub(crate) kind: String,
    pub(crate) required: bool,
    pub(crate) description: String,
    /// The values it may have, where there are only some.
    pub(crate) choices: Vec<ArgumentChoice>,
    /// Its default, as JSON.
    pub(crate) default: Option<String>,
    /// It is a list, of which each may be given by itself.
    pub(crate) several: bool,
}

/// One value that an argument may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArgumentChoice {
    /// As it is typed.
    pub(crate) value: String,
    /// What it means; empty when the schema does not say, or says the same.
    pub(crate) title: String,
}

impl ArgumentChoice {
    fn new(value: &Value, title: String) -> Self {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Self { title: if title == value { String::new() } else { title }, value }
    }
}

impl ArgumentSchema {
    /// The arguments it names, those that must be given first.
    pub(crate) fn fields(&self) -> Vec<ArgumentField> {
        let mut fields = self.as_written();
        fields.sort_by_key(|field| !field.required);
        fields
    }

    /// The arguments it names, in its own order, as a form has them.
    pub(crate) fn as_written(&self) -> Vec<ArgumentField> {
        let field = |name: &String| {
            let property = self.whole.get("properties")?.get(name)?;
            let led_to = self.follow(property);
            let said = |what: &str| property[what].as_str().or(led_to[what].as_str()).unwrap_or_default().to_owned();
            let default = property.get("default").or(led_to.get("default"));
            Some(ArgumentField {
                name: name.clone(),
                title: said("title"),
                kind: self.kind(led_to),
                required: self.requires(name),
                description: said("description"),
                choices: self.choices(led_to),
                default: default.filter(|value| !value.is_null()).map(Value::to_string),
                several: self.types(led_to) == ["array"],
            })
        };
        self.order.iter().filter_map(field).collect()
    }

    fn requires(&self, name: &str) -> bool {
        self.whole["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name))
    }

    /// The types a property may have; empty when it does not say.
    pub(super) fn types<'a>(&'a self, property: &'a Value) -> Vec<&'a str> {
        let mut found = Vec::new();
        self.gather(property, MAX_NESTED, &mut found);
        found.sort_unstable();
        found.dedup();
        found
    }

    fn gather<'a>(&'a self, property: &'a Value, nested: usize, found: &mut Vec<&'a str>) {
        if nested == 0 {
            return;
        }
        let property = self.follow(property);
        match &property["type"] {
            Value::String(one) => found.push(one),
            Value::Array(several) => found.extend(several.iter().filter_map(Value::as_str)),
            _ => {
                for value in property["enum"].as_array().into_iter().flatten().chain(property.get("const")) {
                    found.push(type_of(value));
                }
            }
        }
        for alternatives in ["anyOf", "oneOf"] {
            for alternative in property[alternatives].as_array().into_iter().flatten() {
                self.gather(alternative, nested - 1, found);
            }
        }
    }

    /// What the property may be, where there are only some values: an `enum`, with names for them or without, or alternatives that are
    /// each one value with a title.
    fn listed(&self, property: &Value) -> Option<Vec<ArgumentChoice>> {
        if let Some(values) = property["enum"].as_array() {
            let title = |at: usize| property["enumNames"][at].as_str().unwrap_or_default().to_owned();
            return Some(values.iter().enumerate().map(|(at, value)| ArgumentChoice::new(value, title(at))).collect());
        }
        let alternatives = ["oneOf", "anyOf"].iter().find_map(|name| property[name].as_array())?;
        let one = |alternative: &Value| {
            let alternative = self.follow(alternative);
            Some(ArgumentChoice::new(
                alternative.get("const")?,
                alternative["title"].as_str().unwrap_or_default().to_owned(),
            ))
        };
        alternatives.iter().map(one).collect::<Option<Vec<_>>>().filter(|choices| !choices.is_empty())
    }

    /// The same, and for a list what each of it may be; what is either true or false may be that.
    pub(super) fn choices(&self, property: &Value) -> Vec<ArgumentChoice> {
        let property = if self.types(property) == ["array"] { self.follow(&property["items"]) } else { property };
        self.listed(property).unwrap_or_else(|| match &self.types(property)[..] {
            ["boolean"] => [true, false].map(|value| ArgumentChoice::new(&value.into(), String::new())).into(),
            _ => Vec::new(),
        })
    }

    pub(super) fn kind(&self, property: &Value) -> String {
        if let Some(choices) = self.listed(property) {
            return choices.into_iter().map(|choice| choice.value).collect::<Vec<_>>().join("|");
        }
        let types = self.types(property);
        match &types[..] {
            // A list of lists of lists says no more: a schema may lead to itself.
            ["array"] => match self.follow(&property["items"]) {
                items if self.types(items) == ["array"] => "array of array".into(),
                items => match self.kind(items) {
                    inner if inner.is_empty() => "array".into(),
                    inner => format!("array of {inner}"),
                },
            },
            types => types.join("|"),
        }
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
