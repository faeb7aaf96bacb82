//! Checks values by JSON Schemas, for programs that show the mistakes to a person.
//!
//! It is here because this crate compiles schemas anyway: the library is generic over how JSON is held, so every crate that calls it gets
//! a copy of all its keywords, a megabyte of code.

use jsonschema::{PatternOptions, ValidationError};
use serde_json::Value;

/// The first mistakes of a value, `max` at the most. None where the schema cannot be used itself.
///
/// Only with `formats` is a text checked by the schema's `format`, such as `email`: to most programs it is a hint.
pub fn mistakes(schema: &Value, value: &Value, formats: bool, max: usize) -> Vec<ValidationError<'static>> {
    let options = jsonschema::options().offline().with_pattern_options(PatternOptions::regex());
    let Ok(validator) = options.should_validate_formats(formats).build(schema) else { return Vec::new() };
    validator.iter_errors(value).take(max).map(ValidationError::to_owned).collect()
}
