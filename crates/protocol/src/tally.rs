//! What the answers of several participants come to.

use std::collections::HashMap;
use std::hash::Hash;

/// Counts the equal answers of so many voters, and tells when one of them has a majority or none can get it any more.
#[derive(Debug, Clone)]
pub struct Tally<B> {
    voters: usize,
    /// Participants that may still vote.
    open: usize,
    votes: HashMap<B, usize>,
}

impl<B: Eq + Hash> Tally<B> {
    /// Nobody has voted yet.
    pub fn new(voters: usize) -> Self {
        Self { voters, open: voters, votes: HashMap::new() }
    }

    /// Of how many more than half make a majority.
    pub fn voters(&self) -> usize {
        self.voters
    }

    /// Somebody votes.
    pub fn vote(&mut self, ballot: B) {
        self.pass();
        *self.votes.entry(ballot).or_default() += 1;
    }

    /// Somebody who has a vote will not use it.
    pub fn pass(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// Somebody who had not voted has no vote after all.
    pub fn excuse(&mut self) {
        self.pass();
        self.voters = self.voters.saturating_sub(1);
    }

    /// What more than half of the voters said.
    pub fn majority(&self) -> Option<&B> {
        self.votes.iter().find(|(_, votes)| 2 * **votes > self.voters).map(|(ballot, _)| ballot)
    }

    /// Whether whatever may still be said makes no difference: there is a majority, or there cannot be one any more.
    pub fn is_settled(&self) -> bool {
        let most = self.votes.values().max().copied().unwrap_or(0);
        2 * most > self.voters || 2 * (most + self.open) <= self.voters
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever order the votes come in, an early end tells what all of them would have.
        #[test]
        fn an_early_end_is_the_right_end(ballots in prop::collection::vec(prop::option::of(0..3u8), 0..9)) {
            let mut whole = Tally::new(ballots.len());
            let mut early = None;
            for ballot in &ballots {
                match ballot {
                    Some(ballot) => whole.vote(*ballot),
                    None => whole.pass(),
                }
                if whole.is_settled() && early.is_none() {
                    early = Some(whole.majority().copied());
                }
            }
            prop_assert!(whole.is_settled());
            let count = |one: u8| ballots.iter().filter(|ballot| **ballot == Some(one)).count();
            let most = (0..3).find(|one| 2 * count(*one) > ballots.len());
            prop_assert_eq!(whole.majority().copied(), most);
            prop_assert_eq!(early.unwrap_or_default(), most);
        }
    }

    #[test]
    fn a_majority_is_told_as_soon_as_it_is_certain() {
        let settled = |voters, votes: &str| {
            let mut tally = Tally::new(voters);
            let mut taken = 0;
            for vote in votes.chars() {
                taken += 1;
                match vote {
                    '-' => tally.pass(),
                    'x' => tally.excuse(),
                    vote => tally.vote(vote),
                }
                if tally.is_settled() {
                    break;
                }
            }
            (taken, tally.majority().copied())
        };
        assert_eq!(settled(3, "aab"), (2, Some('a')));
        assert_eq!(settled(5, "ba-aa"), (5, Some('a')));
        // Half is no majority, and three different answers of four leave no hope.
        assert_eq!(settled(4, "aabc"), (4, None));
        assert_eq!(settled(4, "abcc"), (3, None));
        assert_eq!(settled(3, "--a"), (2, None));
        // One of two is a majority once the second has no vote.
        assert_eq!(settled(2, "ax"), (2, Some('a')));
    }
}
