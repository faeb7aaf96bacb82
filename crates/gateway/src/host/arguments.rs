//! A tool's arguments, read one by one so that an error names the field.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use salon_protocol::RpcError;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The longest time that a tool waits, and the time when none was given.
pub(super) const MAX_TIME: Duration = Duration::from_mins(5);
const USUAL_TIME: Duration = Duration::from_secs(30);

/// What has not been read yet.
pub(super) struct Arguments<'a> {
    tool: &'a str,
    fields: BTreeMap<String, &'a RawValue>,
    names: Vec<&'static str>,
}

impl<'a> Arguments<'a> {
    /// Absent arguments are no arguments.
    pub(super) fn new(tool: &'a str, arguments: Option<&'a RawValue>) -> Result<Self, RpcError> {
        let text = arguments.map_or("{}", RawValue::get);
        let fields = serde_json::from_str(text)
            .map_err(|_| RpcError::invalid_params(format!("the `arguments` of `{tool}` must be an object")))?;
        Ok(Self { tool, fields, names: Vec::new() })
    }

    /// An argument as it was written, be it `null`.
    pub(super) fn written(&mut self, name: &'static str) -> Option<&'a RawValue> {
        self.names.push(name);
        self.fields.remove(name)
    }

    /// An argument as it was written; `null` is none.
    pub(super) fn raw(&mut self, name: &'static str) -> Option<&'a RawValue> {
        self.written(name).filter(|value| value.get() != "null")
    }

    /// An argument that may be left out.
    pub(super) fn optional<T: Deserialize<'a>>(&mut self, name: &'static str) -> Result<Option<T>, RpcError> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        serde_json::from_str(raw.get()).map(Some).map_err(|error| {
            // Where in the argument it is does not help: it is written on one line, or by a program.
            let told = error.to_string();
            let told = told.split(" at line ").next().unwrap_or_default();
            self.wrong(name, told)
        })
    }

    /// An argument that must be there.
    pub(super) fn required<T: Deserialize<'a>>(&mut self, name: &'static str) -> Result<T, RpcError> {
        match self.optional(name)? {
            Some(value) => Ok(value),
            None => Err(self.wrong(name, "it is missing")),
        }
    }

    /// A whole number within bounds.
    pub(super) fn number(
        &mut self,
        name: &'static str,
        bounds: RangeInclusive<u64>,
        usual: u64,
    ) -> Result<u64, RpcError> {
        let number = self.optional(name)?.unwrap_or(usual);
        if bounds.contains(&number) {
            return Ok(number);
        }
        Err(self.wrong(name, &format!("must be from {} to {}", bounds.start(), bounds.end())))
    }

    /// `timeout_ms`.
    pub(super) fn time(&mut self) -> Result<Duration, RpcError> {
        let (most, usual) = (MAX_TIME.as_millis() as u64, USUAL_TIME.as_millis() as u64);
        self.number("timeout_ms", 0..=most, usual).map(Duration::from_millis)
    }

    /// Everything has been read; what is left was not understood.
    pub(super) fn end(self) -> Result<(), RpcError> {
        let Some(name) = self.fields.keys().next() else { return Ok(()) };
        let names = match self.names.as_slice() {
            [] => "none".to_owned(),
            names => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        };
        Err(RpcError::invalid_params(format!("`{name}` is no argument of `{}`; it takes {names}", self.tool)))
    }

    pub(super) fn wrong(&self, name: &str, why: &str) -> RpcError {
        RpcError::invalid_params(format!("the argument `{name}` of `{}`: {why}", self.tool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    fn read(arguments: &str) -> String {
        let raw: Box<RawValue> = serde_json::from_str(arguments).expect("the test writes JSON");
        let read = || -> Result<String, RpcError> {
            let mut arguments = Arguments::new("room.wait", Some(&raw))?;
            let text: String = arguments.required("text")?;
            let limit = arguments.number("limit", 1..=10, 5)?;
            let time = arguments.time()?;
            arguments.end()?;
            Ok(format!("{text} {limit} {time:?}"))
        };
        read().unwrap_or_else(|error| error.message)
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_snapshot!(read(r#"{"text":"a"}"#), @"a 5 30s");
        assert_snapshot!(read(r#"{"text":"a","limit":null,"timeout_ms":0}"#), @"a 5 0ns");
        assert_snapshot!(read("{}"), @"the argument `text` of `room.wait`: it is missing");
        assert_snapshot!(read(r#"{"text":5}"#), @"the argument `text` of `room.wait`: invalid type: integer `5`, expected a string");
        assert_snapshot!(read(r#"{"text":"a","limit":11}"#), @"the argument `limit` of `room.wait`: must be from 1 to 10");
        assert_snapshot!(read(r#"{"text":"a","limit":-1}"#), @"the argument `limit` of `room.wait`: invalid value: integer `-1`, expected u64");
        assert_snapshot!(read(r#"{"text":"a","timeout_ms":300001}"#), @"the argument `timeout_ms` of `room.wait`: must be from 0 to 300000");
        assert_snapshot!(read(r#"{"text":"a","wait":1}"#), @"`wait` is no argument of `room.wait`; it takes `text`, `limit`, `timeout_ms`");
        assert_snapshot!(read("[]"), @"the `arguments` of `room.wait` must be an object");
    }
}
