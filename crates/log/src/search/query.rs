//! Queries as people type them: words, `"phrases"` and prefixes such as `migrat*`. All of them must match.
//!
//! Invariant: a query holds words alone, as [`super::words`] makes them. No character that means something to an engine gets into one.

use super::words::{TextWord, text_words};

/// The longest query, in bytes.
pub const MAX_QUERY_BYTES: usize = 512;
/// The most terms of a query, and the most words in all of them.
const MAX_WORDS: usize = 32;
/// The shortest prefix, in characters: shorter ones match too much to be of use.
const MIN_PREFIX_CHARS: usize = 2;

/// Why a query is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidQuery {
    /// There is no word in it.
    #[error("it has no word to search for")]
    Empty,
    /// It is too long.
    #[error("it is longer than {MAX_QUERY_BYTES} bytes")]
    TooLong,
    /// It has too many words.
    #[error("it has more than {MAX_WORDS} words")]
    TooManyWords,
    /// A prefix is too short.
    #[error("at least {MIN_PREFIX_CHARS} characters must stand before `*`")]
    ShortPrefix,
}

/// Words that stand together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchTerm {
    /// Never none.
    pub(crate) words: Vec<String>,
    /// Whether the last word may go on.
    pub(crate) is_prefix: bool,
}

impl SearchTerm {
    /// Whether it begins at a word.
    pub(super) fn is_at(&self, words: &[TextWord]) -> bool {
        let Some((last, before)) = self.words.split_last() else { return false };
        words.len() > before.len()
            && before.iter().zip(words).all(|(wanted, word)| *wanted == word.folded)
            && match self.is_prefix {
                true => words[before.len()].folded.starts_with(last.as_str()),
                false => words[before.len()].folded == *last,
            }
    }
}

/// What is searched for: every term must be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchQuery {
    pub(crate) terms: Vec<SearchTerm>,
}

impl SearchQuery {
    /// Reads what somebody typed.
    pub fn parse(text: &str) -> Result<Self, InvalidQuery> {
        if text.len() > MAX_QUERY_BYTES {
            return Err(InvalidQuery::TooLong);
        }
        let mut terms = Vec::new();
        for (number, part) in text.split('"').enumerate() {
            // What stands between two quotes is a phrase, also where the second is missing.
            if number % 2 == 1 {
                terms.extend(term(part, false)?);
                continue;
            }
            for piece in part.split_whitespace() {
                terms.extend(term(piece.trim_end_matches('*'), piece.ends_with('*'))?);
            }
        }
        if terms.iter().map(|term| term.words.len()).sum::<usize>() > MAX_WORDS {
            return Err(InvalidQuery::TooManyWords);
        }
        if terms.is_empty() { Err(InvalidQuery::Empty) } else { Ok(Self { terms }) }
    }

    /// Whether a text has every term.
    pub fn matches(&self, text: &str) -> bool {
        let words = text_words(text);
        self.terms.iter().all(|term| (0..words.len()).any(|at| term.is_at(&words[at..])))
    }
}

/// The words of one part, which must stand together: `room.wait` is two, and so is a phrase.
fn term(text: &str, is_prefix: bool) -> Result<Option<SearchTerm>, InvalidQuery> {
    let words: Vec<String> = text_words(text).into_iter().map(|word| word.folded).collect();
    let Some(last) = words.last() else { return Ok(None) };
    // A character that is a word of its own has nothing to go on with.
    let is_prefix = is_prefix && !last.chars().all(super::words::is_word_alone);
    if is_prefix && words.len() == 1 && last.chars().count() < MIN_PREFIX_CHARS {
        return Err(InvalidQuery::ShortPrefix);
    }
    Ok(Some(SearchTerm { words, is_prefix }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> String {
        let query = match SearchQuery::parse(text) {
            Ok(query) => query,
            Err(error) => return error.to_string(),
        };
        let terms = query.terms.iter();
        terms.map(|term| term.words.join("+") + if term.is_prefix { "*" } else { "" }).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_phrases_and_prefixes() {
        assert_eq!(shown("Hello  world"), "hello world");
        assert_eq!(shown("\"Hello world\" again"), "hello+world again");
        assert_eq!(shown("migrat*"), "migrat*");
        assert_eq!(shown("room.wait"), "room+wait");
        assert_eq!(shown("\"never closed"), "never+closed");
        assert_eq!(shown("Größe"), "große");
        assert_eq!(shown("日本*"), "日+本");
    }

    #[test]
    fn what_means_something_to_an_engine_means_nothing_here() {
        assert_eq!(shown("a OR b AND NOT (c)"), "a or b and not c");
        assert_eq!(shown("text:secret ^x NEAR(a b, 2)"), "text+secret x near+a b 2");
        assert_eq!(shown("'; DROP TABLE words; --"), "drop table words");
        assert_eq!(shown("{marks} - : + *"), "marks");
    }

    #[test]
    fn what_is_refused() {
        assert_eq!(shown(""), "it has no word to search for");
        assert_eq!(shown("\"\" *** --"), "it has no word to search for");
        assert_eq!(shown("a*"), "at least 2 characters must stand before `*`");
        assert_eq!(shown(&"a".repeat(MAX_QUERY_BYTES + 1)), "it is longer than 512 bytes");
        assert_eq!(shown(&"a ".repeat(MAX_WORDS + 1)), "it has more than 32 words");
    }

    proptest! {
        #[test]
        fn a_query_holds_folded_words_alone(text in "\\PC{0,80}|[\"*a-z :()^'-]{0,80}") {
            if let Ok(query) = SearchQuery::parse(&text) {
                prop_assert!(!query.terms.is_empty());
                for word in query.terms.iter().flat_map(|term| &term.words) {
                    prop_assert!(!word.is_empty() && word.chars().all(char::is_alphanumeric), "{word:?}");
                }
            }
        }

        #[test]
        fn a_text_matches_its_own_words(text in "\\PC{1,60}") {
            let words: Vec<String> = text_words(&text).into_iter().map(|word| word.folded).collect();
            prop_assume!(!words.is_empty() && words.len() <= MAX_WORDS);
            let typed = words.join(" ");
            prop_assume!(typed.len() <= MAX_QUERY_BYTES);
            let query = SearchQuery::parse(&typed).expect("its words make a query");
            prop_assert!(query.matches(&text));
        }
    }
}
