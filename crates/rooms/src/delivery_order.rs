//! In which order the readers of a room are written to: first those that a message is for, last those that sent one.
//!
//! Somebody waits for the first. The last learn from their echo that they may send more; when they do, everybody else has been written to, and what
//! they send is stored together.

use std::sync::Arc;

use salon_protocol::ParticipantId;

use crate::batch::Batch;
use crate::bell::Bell;

/// How many participants are looked for among the readers. A batch that names more is of a busy room, where the order matters less.
const MAX_NAMED: usize = 8;

/// Whom new entries are for and whom they are from, at most [`MAX_NAMED`] of each. A bridge's ghosts are not looked for.
pub(crate) struct DeliveryOrder<'a> {
    first: Vec<&'a ParticipantId>,
    last: Vec<&'a ParticipantId>,
}

impl<'a> DeliveryOrder<'a> {
    pub(crate) fn of(batches: &'a [Arc<Batch>]) -> Self {
        let mut order = Self { first: Vec::new(), last: Vec::new() };
        for entry in batches.iter().flat_map(|batch| batch.entries()) {
            for id in entry.envelope.to() {
                note(&mut order.first, id);
            }
            note(&mut order.last, entry.envelope.from());
        }
        order
    }

    /// Puts bells in order. A reader that is named and has sent something is among the first.
    pub(crate) fn sort<'b>(&self, bells: impl ExactSizeIterator<Item = &'b Arc<Bell>>) -> Vec<Arc<Bell>> {
        let (mut sorted, mut first_count, mut last) = (Vec::with_capacity(bells.len()), 0, Vec::new());
        for bell in bells {
            let is_among =
                |named: &[&ParticipantId]| bell.interest.reader.as_ref().is_some_and(|id| named.contains(&id));
            if is_among(&self.first) {
                sorted.push(bell.clone());
                let at = sorted.len() - 1;
                sorted.swap(first_count, at);
                first_count += 1;
            } else if is_among(&self.last) {
                last.push(bell.clone());
            } else {
                sorted.push(bell.clone());
            }
        }
        sorted.extend(last);
        sorted
    }
}

fn note<'a>(named: &mut Vec<&'a ParticipantId>, id: &'a ParticipantId) {
    if named.len() < MAX_NAMED && named.last() != Some(&id) && !named.contains(&id) {
        named.push(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::Interest;

    /// Who gets a batch of these messages in which order, of readers a to e.
    fn order(batch: &Arc<Batch>) -> String {
        let bells: Vec<_> = ["a", "b", "c", "d", "e"]
            .map(|id| Bell::new(Interest { reader: id.parse().ok(), ..Interest::default() }, None))
            .into();
        let sorted = DeliveryOrder::of(std::slice::from_ref(batch)).sort(bells.iter());
        sorted.iter().filter_map(|bell| bell.interest.reader.as_ref()).map(ParticipantId::as_str).collect()
    }

    #[test]
    fn recipients_are_first_and_senders_last() {
        assert_eq!(order(&Batch::of_messages(&[("b", &[])])), "acdeb");
        assert_eq!(order(&Batch::of_messages(&[("b", &["a"])])), "acdeb");
        assert_eq!(order(&Batch::of_messages(&[("b", &["c"])])), "cadeb");
        assert_eq!(order(&Batch::of_messages(&[("a", &["b"]), ("b", &["a"])])), "abcde", "both are waited for");
    }

    #[test]
    fn only_a_few_participants_are_looked_for() {
        let others: Vec<_> = (0..MAX_NAMED).map(|number| format!("x{number}")).collect();
        let mut messages: Vec<(&str, &[&str])> = others.iter().map(|id| (id.as_str(), [].as_slice())).collect();
        messages.push(("b", &[]));
        assert_eq!(order(&Batch::of_messages(&messages)), "abcde", "`b` is one too many");
        assert_eq!(order(&Batch::of_messages(&messages[1..])), "acdeb");
    }
}
