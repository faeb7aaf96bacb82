//! Query strings, read strictly: a value that is wrong is refused, never ignored.

use std::str::FromStr;

use salon_protocol::percent_decoded;

use super::problem::{Problem, invalid};

/// More than any address here takes.
const MAX_PARAMETERS: usize = 32;

/// The parameters of one request.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(raw: Option<&str>) -> Result<Self, Problem> {
        let pairs: Vec<(String, String)> = raw
            .unwrap_or_default()
            .split('&')
            .take(MAX_PARAMETERS + 1)
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                Ok((decode(name)?, decode(value)?))
            })
            .collect::<Result<_, Problem>>()?;
        if pairs.len() > MAX_PARAMETERS {
            return Err(invalid(format!("there are more than {MAX_PARAMETERS} parameters")));
        }
        for (at, (name, _)) in pairs.iter().enumerate() {
            if pairs[..at].iter().any(|(earlier, _)| earlier == name) {
                return Err(invalid(format!("the parameter `{name}` stands twice")));
            }
        }
        Ok(Self(pairs))
    }

    /// No parameters.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A parameter as a value of its type; `wanted` says what that is.
    pub(crate) fn value<T: FromStr>(&self, name: &str, wanted: &str) -> Result<Option<T>, Problem> {
        let Some(text) = self.get(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| invalid(format!("`{name}` must be {wanted}")))
    }

    /// A parameter whose type says itself what is wrong.
    pub(crate) fn name<T: FromStr<Err: std::fmt::Display>>(&self, name: &str) -> Result<Option<T>, Problem> {
        let Some(text) = self.get(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|error| invalid(format!("`{name}` is not acceptable: {error}")))
    }

    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, Problem> {
        self.value(name, "true or false")
    }
}

fn decode(text: &str) -> Result<String, Problem> {
    percent_decoded(&text.replace('+', " "))
        .ok_or_else(|| invalid("the query has a broken percent escape, or is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(raw: &str, name: &str) -> Option<String> {
        Query::parse(Some(raw)).ok().and_then(|query| query.get(name).map(String::from))
    }

    #[test]
    fn values_are_decoded() {
        assert_eq!(get("topic=room%3Aalpha&name=Robot+A", "topic").as_deref(), Some("room:alpha"));
        assert_eq!(get("topic=room:alpha&name=Robot+A%20%c3%a9", "name").as_deref(), Some("Robot A é"));
        assert_eq!(get("flag&x=1", "flag").as_deref(), Some(""));
        assert_eq!(get("", "flag"), None);
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for wrong in ["a=1&a=2", "a=%zz", "a=%f", "a=%ff", "%61=1&a=2"] {
            assert!(Query::parse(Some(wrong)).is_err(), "{wrong}");
        }
        let query = Query::parse(Some("limit=ten&echo=yes")).expect("well-formed");
        assert!(query.value::<usize>("limit", "a whole number").is_err());
        assert!(query.flag("echo").is_err());
    }
}
