//! Calls and their answers, paired by the envelope that asked.

use std::collections::{HashMap, VecDeque};

use salon_protocol::EnvelopeId;

/// How many unanswered calls are remembered; the oldest are forgotten first.
const MAX_OPEN: usize = 1024;

/// The calls that wait for an answer, each with what is to be known when it comes.
#[derive(Debug)]
pub(crate) struct OpenCalls<T> {
    open: HashMap<EnvelopeId, T>,
    /// Every call that was asked, the oldest first; answered ones are passed over.
    order: VecDeque<EnvelopeId>,
}

impl<T> Default for OpenCalls<T> {
    fn default() -> Self {
        Self { open: HashMap::new(), order: VecDeque::new() }
    }
}

impl<T> OpenCalls<T> {
    pub(crate) fn ask(&mut self, id: EnvelopeId, call: T) {
        self.order.push_back(id.clone());
        self.open.insert(id, call);
        while self.order.len() > MAX_OPEN {
            if let Some(oldest) = self.order.pop_front() {
                self.open.remove(&oldest);
            }
        }
    }

    /// The open call that an envelope is about.
    pub(crate) fn about(&self, id: Option<&EnvelopeId>) -> Option<&T> {
        self.open.get(id?)
    }

    /// The call that an envelope answers, which is over.
    pub(crate) fn answer(&mut self, id: Option<&EnvelopeId>) -> Option<T> {
        self.open.remove(id?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_calls_are_remembered() {
        let id = |n: usize| EnvelopeId::new(format!("e{n}")).expect("an id");
        let mut calls = OpenCalls::default();
        for n in 0..=MAX_OPEN {
            calls.ask(id(n), n);
        }
        assert_eq!(calls.answer(Some(&id(0))), None);
        assert_eq!(calls.about(Some(&id(1))), Some(&1));
        assert_eq!(calls.answer(Some(&id(1))), Some(1));
        assert_eq!(calls.answer(Some(&id(1))), None);
        assert_eq!(calls.answer(None), None);
    }
}
