//! How long it takes to check arguments against a schema, before it is done.
//!
//! The schema is followed over the arguments as a validator would follow it, but for what it decides: every branch is taken, whatever
//! the others say. So a check never takes more steps than are counted here. A step is one rule looking at one value, which is some ten
//! nanoseconds of work.

use std::collections::BTreeMap;

use serde_json::Value;

use super::schema::{UNEVALUATED, follow};

/// How many steps a check may take: some for every call, and more the longer its arguments are.
pub(super) const MAX_STEPS: usize = 100_000;
pub(super) const MAX_PER_BYTE: usize = 2;

/// How many bytes of a text are looked at in a step where it is only counted or compared.
const BYTES_PER_STEP: usize = 32;

/// How many bytes of its automaton a pattern looks at in a step, for every byte of a text.
const AUTOMATON_PER_STEP: usize = 128;

/// What is too much.
struct Exhausted;

/// What the patterns of a schema cost, by their text.
#[derive(Debug)]
pub(super) struct Costs(BTreeMap<String, usize>);

impl Costs {
    /// From the sizes of their automatons.
    pub(super) fn new(sizes: BTreeMap<String, usize>) -> Self {
        Self(sizes)
    }

    fn of(&self, pattern: &str, bytes: usize) -> usize {
        let per_byte = self.0.get(pattern).map_or(usize::MAX, |size| size / AUTOMATON_PER_STEP);
        per_byte.saturating_mul(bytes + 1)
    }
}

/// The steps of one check.
pub(super) struct Steps<'a> {
    schema: &'a Value,
    costs: &'a Costs,
    most: usize,
    taken: usize,
}

impl<'a> Steps<'a> {
    /// The steps that arguments of so many bytes may take.
    pub(super) fn new(schema: &'a Value, costs: &'a Costs, bytes: usize) -> Self {
        let most = MAX_STEPS.saturating_add(bytes.saturating_mul(MAX_PER_BYTE));
        Self { schema, costs, most, taken: 0 }
    }

    /// Whether there are enough for these arguments.
    pub(super) fn suffice(&mut self, arguments: &Value) -> bool {
        self.follow(self.schema, arguments, 1).is_ok()
    }

    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    fn take(&mut self, steps: usize, times: usize) -> Result<(), Exhausted> {
        self.taken = self.taken.saturating_add(steps.saturating_mul(times));
        if self.taken > self.most { Err(Exhausted) } else { Ok(()) }
    }

    /// A schema looks at a value so many times.
    fn follow(&mut self, schema: &Value, value: &Value, times: usize) -> Result<(), Exhausted> {
        let Value::Object(rules) = schema else { return self.take(1, times) };
        self.take(1 + rules.len(), times)?;
        let again = rules.keys().filter(|key| key.starts_with("unevaluated"));
        let times = again.fold(times, |times, _| times.saturating_mul(UNEVALUATED));
        for (key, rule) in rules {
            match key.as_str() {
                "$ref" => {
                    let target = rule.as_str().and_then(|reference| follow(self.schema, reference).ok());
                    if let Some(target) = target {
                        self.follow(target, value, times)?;
                    }
                }
                "allOf" => self.follow_each(rule, value, times)?,
                // Once to see which fits, and once more to see why none does.
                "anyOf" | "oneOf" => self.follow_each(rule, value, times.saturating_mul(2))?,
                "not" | "if" | "then" | "else" => self.follow(rule, value, times)?,
                "dependentSchemas" | "dependencies" => {
                    let schemas = rule.as_object().into_iter().flat_map(serde_json::Map::values);
                    schemas.into_iter().try_for_each(|schema| self.follow(schema, value, times))?;
                }
                "enum" | "const" => self.compare(rule, times)?,
                _ => match value {
                    Value::String(text) => self.text(key, rule, text, times)?,
                    Value::Array(items) => self.list(key, rule, items, times)?,
                    Value::Object(members) => self.object(key, rule, members, times)?,
                    _ => {}
                },
            }
        }
        Ok(())
    }

    fn follow_each(&mut self, schemas: &Value, value: &Value, times: usize) -> Result<(), Exhausted> {
        schemas.as_array().into_iter().flatten().try_for_each(|schema| self.follow(schema, value, times))
    }

    /// A value is compared as a whole.
    fn compare(&mut self, value: &Value, times: usize) -> Result<(), Exhausted> {
        match value {
            Value::Array(items) => {
                self.take(1, times)?;
                items.iter().try_for_each(|item| self.compare(item, times))
            }
            Value::Object(members) => members.iter().try_for_each(|(name, member)| {
                self.take(1 + name.len() / BYTES_PER_STEP, times)?;
                self.compare(member, times)
            }),
            Value::String(text) => self.take(1 + text.len() / BYTES_PER_STEP, times),
            _ => self.take(1, times),
        }
    }

    fn text(&mut self, key: &str, rule: &Value, text: &str, times: usize) -> Result<(), Exhausted> {
        match key {
            "pattern" => self.take(self.costs.of(rule.as_str().unwrap_or_default(), text.len()), times),
            "minLength" | "maxLength" => self.take(text.len() / BYTES_PER_STEP, times),
            "contentEncoding" | "contentMediaType" => self.take(text.len(), times),
            _ => Ok(()),
        }
    }

    fn list(&mut self, key: &str, rule: &Value, items: &[Value], times: usize) -> Result<(), Exhausted> {
        match (key, rule) {
            ("prefixItems" | "items", Value::Array(schemas)) => {
                schemas.iter().zip(items).try_for_each(|(schema, item)| self.follow(schema, item, times))
            }
            ("items" | "additionalItems" | "contains" | "unevaluatedItems", _) => {
                items.iter().try_for_each(|item| self.follow(rule, item, times))
            }
            // By pairs where they are few, else by what is hashed of them.
            ("uniqueItems", _) => {
                let times = times.saturating_mul(items.len().min(16));
                items.iter().try_for_each(|item| self.compare(item, times))
            }
            _ => Ok(()),
        }
    }

    fn object(
        &mut self,
        key: &str,
        rule: &Value,
        members: &serde_json::Map<String, Value>,
        times: usize,
    ) -> Result<(), Exhausted> {
        match (key, rule) {
            ("properties", Value::Object(schemas)) => {
                self.take(schemas.len().min(members.len()), times)?;
                for (name, member) in members {
                    if let Some(schema) = schemas.get(name) {
                        self.follow(schema, member, times)?;
                    }
                }
                Ok(())
            }
            ("patternProperties", Value::Object(schemas)) => {
                for (pattern, schema) in schemas {
                    for (name, member) in members {
                        // Twice: `additionalProperties` asks again.
                        self.take(self.costs.of(pattern, name.len()), times.saturating_mul(2))?;
                        self.follow(schema, member, times)?;
                    }
                }
                Ok(())
            }
            ("additionalProperties" | "unevaluatedProperties", _) => {
                members.values().try_for_each(|member| self.follow(rule, member, times))
            }
            ("propertyNames", _) => {
                members.keys().try_for_each(|name| self.follow(rule, &Value::String(name.clone()), times))
            }
            ("required" | "dependentRequired", _) => self.compare(rule, times),
            _ => Ok(()),
        }
    }
}
