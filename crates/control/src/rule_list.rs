//! A topic's rules in their order, with what can be said of each before its patterns are looked at.
//!
//! Every call is judged by the first rule that is for it, so most rules are looked at to find that they are not. The bytes with which names have to begin
//! and end stand side by side here: a call is compared with a hundred rules in the time that two or three patterns take.

use std::ops::Deref;

use salon_protocol::ParticipantId;
use serde::{Deserialize, Serialize, Serializer};

use crate::capability::CapabilityPattern;
use crate::pattern::NamePattern;
use crate::rule::CallRule;

/// See the module. It does not change: other rules are another list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(from = "Vec<CallRule>")]
pub struct RuleList {
    rules: Vec<CallRule>,
    keys: Vec<CallKey>,
}

/// The bytes that the callee and the tool begin and end with. In a rule, 0 is any byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CallKey([u8; 4]);

impl CallKey {
    fn of_rule(rule: &CallRule) -> Self {
        match rule.effect() {
            Some((_, CapabilityPattern::Call(who, what))) => {
                let ends = |pattern: &NamePattern| pattern.ends().map(|byte| byte.filter(|byte| *byte != b'*'));
                let ([first, last], [begin, end]) = (ends(who), ends(what));
                Self([first, last, begin, end].map(Option::unwrap_or_default))
            }
            _ => Self([0; 4]),
        }
    }

    fn of_call(callee: &ParticipantId, tool: &str) -> Self {
        let ends = |name: &str| [name.bytes().next(), name.bytes().next_back()].map(Option::unwrap_or_default);
        let ([first, last], [begin, end]) = (ends(callee.as_str()), ends(tool));
        Self([first, last, begin, end])
    }

    /// Whether a rule can be for a call.
    fn fits(self, call: Self) -> bool {
        self.0.iter().zip(call.0).all(|(wanted, byte)| *wanted == 0 || *wanted == byte)
    }
}

impl RuleList {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules that can be for a call, by the names' ends.
    pub(crate) fn candidates(&self, callee: &ParticipantId, tool: &str) -> impl Iterator<Item = &CallRule> {
        let call = CallKey::of_call(callee, tool);
        self.keys.iter().zip(&self.rules).filter(move |(key, _)| key.fits(call)).map(|(_, rule)| rule)
    }
}

impl From<Vec<CallRule>> for RuleList {
    fn from(rules: Vec<CallRule>) -> Self {
        let keys = rules.iter().map(CallKey::of_rule).collect();
        Self { rules, keys }
    }
}

impl Deref for RuleList {
    type Target = [CallRule];

    fn deref(&self) -> &[CallRule] {
        &self.rules
    }
}

impl Serialize for RuleList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.rules.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::act::Act;

    proptest! {
        #[test]
        fn no_rule_for_a_call_is_left_out(
            rules in prop::collection::vec("[ab*]{1,3}/[ab*]{1,3}", 0..8),
            callee in "[ab]{1,3}",
            tool in "[ab]{0,3}",
        ) {
            let rule = |calls: &String| CallRule { hold: format!("call:{calls}").parse().ok(), ..CallRule::default() };
            let list = RuleList::from(rules.iter().map(rule).collect::<Vec<_>>());
            let callee = ParticipantId::new(callee).expect("a name");
            let call = Act::Call(&callee, &tool);
            let covers = |rule: &&CallRule| rule.hold.as_ref().is_some_and(|calls| calls.covers(&call));
            let found: Vec<_> = list.candidates(&callee, &tool).filter(covers).collect();
            let all: Vec<_> = list.iter().filter(covers).collect();
            prop_assert_eq!(found, all);
        }
    }
}
