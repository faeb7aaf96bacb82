//! What a word is: a run of letters and digits, without case and without the accents of Latin letters. A character of a script that
//! is written without spaces is a word of its own.

use std::ops::Range;

use super::SearchQuery;

/// A word of a text, and where it stands in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextWord {
    /// As it is compared.
    pub(crate) folded: String,
    /// Its bytes in the text.
    pub(super) at: Range<usize>,
}

/// The longest word, in bytes of its folded form; the rest of a longer one is not compared. What is longer is not a word of a language.
const MAX_WORD_BYTES: usize = 64;

/// The words of a text.
pub(crate) fn text_words(text: &str) -> Vec<TextWord> {
    let mut words = Vec::new();
    let mut open: Option<TextWord> = None;
    for (at, character) in text.char_indices() {
        let end = at + character.len_utf8();
        if is_combining(character) && open.is_some() {
            // Belongs to the letter before it.
            open.iter_mut().for_each(|word| word.at.end = end);
            continue;
        }
        if !character.is_alphanumeric() || is_word_alone(character) {
            words.extend(open.take());
        }
        if is_word_alone(character) {
            words.push(TextWord { folded: character.into(), at: at..end });
        } else if character.is_alphanumeric() {
            let word = open.get_or_insert_with(|| TextWord { folded: String::new(), at: at..end });
            if word.folded.len() < MAX_WORD_BYTES {
                word.folded.extend(fold(character));
            }
            word.at.end = end;
        }
    }
    words.extend(open);
    // A character may fold to nothing that is compared.
    words.retain(|word| !word.folded.is_empty());
    words
}

/// Scripts without spaces between words: Han, Hiragana, Katakana, Thai, Lao, Khmer, Myanmar.
pub(super) fn is_word_alone(character: char) -> bool {
    character.is_alphanumeric()
        && matches!(character, '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
            | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}'
            | '\u{20000}'..='\u{3FFFF}')
}

fn is_combining(character: char) -> bool {
    matches!(character, '\u{0300}'..='\u{036F}')
}

/// Without case, and without accents where the letter is a Latin one.
fn fold(character: char) -> impl Iterator<Item = char> {
    character.to_lowercase().map(plain).filter(|folded| folded.is_alphanumeric())
}

fn plain(letter: char) -> char {
    match letter {
        'à'..='å' | 'ā' | 'ă' | 'ą' | 'ǎ' => 'a',
        'ç' | 'ć' | 'ĉ' | 'ċ' | 'č' => 'c',
        'ď' | 'đ' => 'd',
        'è'..='ë' | 'ē' | 'ĕ' | 'ė' | 'ę' | 'ě' => 'e',
        'ĝ' | 'ğ' | 'ġ' | 'ģ' => 'g',
        'ĥ' | 'ħ' => 'h',
        'ì'..='ï' | 'ĩ' | 'ī' | 'ĭ' | 'į' | 'ı' | 'ǐ' => 'i',
        'ĵ' => 'j',
        'ķ' => 'k',
        'ĺ' | 'ļ' | 'ľ' | 'ŀ' | 'ł' => 'l',
        'ñ' | 'ń' | 'ņ' | 'ň' => 'n',
        'ò'..='ö' | 'ø' | 'ō' | 'ŏ' | 'ő' | 'ǒ' => 'o',
        'ŕ' | 'ŗ' | 'ř' => 'r',
        'ś' | 'ŝ' | 'ş' | 'š' | 'ș' => 's',
        'ţ' | 'ť' | 'ŧ' | 'ț' => 't',
        'ù'..='ü' | 'ũ' | 'ū' | 'ŭ' | 'ů' | 'ű' | 'ų' | 'ǔ' => 'u',
        'ŵ' => 'w',
        'ý' | 'ÿ' | 'ŷ' => 'y',
        'ź' | 'ż' | 'ž' => 'z',
        other => other,
    }
}

/// Part of what an entry says, as plain text, and where the matches stand in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchSnippet {
    /// The text, in one line.
    pub text: String,
    /// Where the matches begin and end, in UTF-16 code units as in JavaScript. In order, and apart from one another.
    pub matches: Vec<(usize, usize)>,
}

/// About how many characters of a text a snippet has, and how many of them stand before the first match.
const SNIPPET_CHARS: usize = 200;
const CHARS_BEFORE: usize = 60;
/// The most matches that are pointed out.
const MAX_MATCHES: usize = 32;

/// The part of a text around the first match of a query.
pub fn snippet(query: &SearchQuery, text: &str) -> SearchSnippet {
    let words = text_words(text);
    let matched = |at: usize| query.terms.iter().find(|term| term.is_at(&words[at..])).map(|term| term.words.len());
    let first = (0..words.len()).find(|at| matched(*at).is_some()).unwrap_or(0);
    let begin = words.get(first).map_or(0, |word| before(text, word.at.start));
    let end = text[begin..].char_indices().nth(SNIPPET_CHARS).map_or(text.len(), |(at, _)| begin + at);
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for at in first..words.len() {
        if words[at].at.end > end || ranges.len() == MAX_MATCHES {
            break;
        }
        let Some(count) = matched(at) else { continue };
        let range = words[at].at.start..words[at + count - 1].at.end.min(end);
        match ranges.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => ranges.push(range),
        }
    }
    cut(text, begin..end, &ranges)
}

/// Where a snippet begins whose first match is at a byte: at a word, some characters before it.
fn before(text: &str, at: usize) -> usize {
    let begin = text[..at].char_indices().rev().nth(CHARS_BEFORE - 1).map_or(0, |(begin, _)| begin);
    if begin == 0 {
        return 0;
    }
    let space = text[begin..at].char_indices().find(|(_, character)| character.is_whitespace());
    space.map_or(begin, |(offset, character)| begin + offset + character.len_utf8())
}

/// A part of a text in one line, with the places of the matches counted anew.
fn cut(text: &str, part: Range<usize>, ranges: &[Range<usize>]) -> SearchSnippet {
    const ELLIPSIS: char = '…';
    let (mut shown, mut length) = (String::new(), 0);
    let mut push = |character: char, length: &mut usize| {
        shown.push(character);
        *length += character.len_utf16();
    };
    if part.start > 0 {
        push(ELLIPSIS, &mut length);
    }
    let mut matches = vec![(0, 0); ranges.len()];
    for (offset, character) in text[part.clone()].char_indices() {
        let at = part.start + offset;
        for (range, found) in ranges.iter().zip(&mut matches) {
            if range.start == at {
                found.0 = length;
            }
        }
        // A line of its own, or a character that changes the direction or the look of a terminal, is a space here.
        let is_plain = !character.is_control() && !character.is_whitespace() && !is_format(character);
        push(if is_plain { character } else { ' ' }, &mut length);
        for (range, found) in ranges.iter().zip(&mut matches) {
            if range.end == at + character.len_utf8() {
                found.1 = length;
            }
        }
    }
    if part.end < text.len() {
        push(ELLIPSIS, &mut length);
    }
    matches.retain(|(begin, end)| begin < end);
    SearchSnippet { text: shown, matches }
}

/// Characters that are not shown and change what others look like.
fn is_format(character: char) -> bool {
    matches!(character, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> String {
        text_words(text).into_iter().map(|word| word.folded).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn words_have_no_case_and_no_accents() {
        assert_eq!(words("Café, cafe\u{301} — CAFE!"), "cafe|cafe|cafe");
        assert_eq!(words("Ærø straße İstanbul"), "æro|straße|istanbul");
        assert_eq!(words("room.find_tools 4.2"), "room|find|tools|4|2");
        assert_eq!(words("東京タワー 2024"), "東|京|タ|ワ|ー|2024");
        assert_eq!(words("Привет мир"), "привет|мир");
    }

    fn marked(query: &str, text: &str) -> String {
        let snippet = snippet(&SearchQuery::parse(query).expect("a query"), text);
        let units: Vec<u16> = snippet.text.encode_utf16().collect();
        let (mut shown, mut from) = (String::new(), 0);
        for (begin, end) in snippet.matches {
            let text = |range: Range<usize>| String::from_utf16(&units[range]).expect("whole characters");
            shown += &format!("{}[{}]", text(from..begin), text(begin..end));
            from = end;
        }
        shown + &String::from_utf16(&units[from..]).expect("whole characters")
    }

    #[test]
    fn matches_are_pointed_out() {
        assert_eq!(marked("world", "Hello world"), "Hello [world]");
        assert_eq!(marked("wor* hello", "Hello\nworld"), "[Hello] [world]");
        assert_eq!(marked("\"b c\"", "a b c d b c"), "a [b c] d [b c]");
        assert_eq!(marked("cafe", "😀 le Café 😀"), "😀 le [Café] 😀");
        assert_eq!(marked("x", "<b>x</b> \u{202e}y"), "<b>[x]</b>  y");
    }

    #[test]
    fn a_long_text_is_cut_around_its_first_match() {
        let text = format!("{} needle {}", "before ".repeat(50), "after ".repeat(50));
        let shown = marked("needle", &text);
        assert!(shown.starts_with("…before") && shown.contains("[needle]") && shown.ends_with('…'), "{shown}");
        assert!(shown.chars().count() <= SNIPPET_CHARS + 4, "{shown}");
    }

    proptest! {
        #[test]
        fn places_of_matches_are_in_the_text(text in "(\\PC|a|b| ){0,80}", query in "(\\PC|a|b| |\"|\\*){1,20}") {
            if let Ok(query) = SearchQuery::parse(&query) {
                let found = snippet(&query, &text);
                let units: Vec<u16> = found.text.encode_utf16().collect();
                let mut from = 0;
                for (begin, end) in found.matches {
                    prop_assert!(from <= begin && begin < end && end <= units.len());
                    prop_assert!(String::from_utf16(&units[begin..end]).is_ok());
                    from = end;
                }
            }
        }
    }
}
