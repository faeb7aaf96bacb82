use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;

const FLAVOURS: [Flavour; 7] = [
    Flavour::Plain,
    Flavour::Markdown,
    Flavour::MatrixHtml,
    Flavour::SlackMrkdwn,
    Flavour::DiscordMarkdown,
    Flavour::XmppStyling,
    Flavour::IrcCodes,
];

/// A text in every flavour.
fn everywhere(markdown: &str) -> String {
    let text = markdown::parse(markdown);
    let each = FLAVOURS.map(|flavour| {
        let rendered = render(&text, flavour);
        let shown: String = rendered
            .chars()
            .map(|c| if c.is_control() && c != '\n' { format!("^{:02x}", u32::from(c)) } else { c.into() })
            .collect();
        format!("-- {flavour:?}\n{shown}\n")
    });
    each.concat()
}

#[test]
fn emphasis_code_and_links() {
    assert_snapshot!(everywhere(
        "a **b *c*** `d<e` ~~f~~ [g](https://h.example/?a=1&b=2) [x](javascript:1) snake_case"
    ));
}

#[test]
fn blocks_one_below_the_other() {
    assert_snapshot!(everywhere(
        "# Title\nfirst\nsecond\n\n- one\n- two\n  more\n1. three\n> said\n> > deeper\n```rust\nlet a = \"<&>\";\n```\nend"
    ));
}

#[test]
fn what_people_write_is_not_markup() {
    let text = RichText::plain("<b>&amp; *not* _this_ `or` <@U1> @everyone \u{2}bold\u{1b}[0m\n> quote\n# head");
    let each = FLAVOURS.map(|flavour| format!("-- {flavour:?}\n{}\n", render(&text, flavour)));
    assert_snapshot!(each.concat());
}

#[test]
fn a_number_or_a_mark_at_the_beginning_is_no_list() {
    for text in ["11. &", "  1. one", " - one", "1.5", "a 1. b"] {
        let written = render(&RichText::plain(text), Flavour::Markdown);
        assert_eq!(render(&markdown::parse(&written), Flavour::Plain), text, "{written}");
    }
}

#[test]
fn mentions_in_every_flavour() {
    let user = MentionTarget::User(PlatformUserId::new("U12"));
    let bob = MentionTarget::Participant(ParticipantId::new("bob").expect("a name"));
    let mentions = vec![
        InlineText::Mention { target: user, label: "Alice".into() },
        InlineText::Text(" and ".into()),
        InlineText::Mention { target: bob, label: "Bob".into() },
    ];
    let text = RichText { blocks: vec![TextBlock::Paragraph(mentions)] };
    let each = FLAVOURS.map(|flavour| format!("{flavour:?}: {}\n", render(&text, flavour)));
    assert_snapshot!(each.concat());
}

#[test]
fn a_long_text_is_cut_between_words() {
    let text = markdown::parse(&format!("**{}** end", "word ".repeat(30).trim_end()));
    let parts = split(&text, Flavour::IrcCodes, 64);
    let shown: Vec<_> = parts.iter().map(|part| render(part, Flavour::IrcCodes).replace('\u{2}', "^B")).collect();
    assert_snapshot!(shown.join("\n"));
}

#[test]
fn lines_of_a_platform_without_line_breaks() {
    let text = markdown::parse("*a\nb*\n\n- one\n- two\n> said\n```\nx = 1\n\ny = 2\n```");
    let shown: Vec<_> = lines(&text).iter().map(|line| render(line, Flavour::Markdown)).collect();
    assert_snapshot!(shown.join("\n"), @r"
    *a*
    *b*
    • one
    • two
    \> said
    `x = 1`
    `y = 2`
    ");
}

proptest! {
    /// Whatever was written: parsing and rendering end, a plain text survives Markdown, and no part is too long.
    #[test]
    fn every_text_is_rendered_and_cut(text in "([a-c*_`~>#\\[\\]()<&\\\\\" \n.1-]|é|https://x\\.y/){0,120}", limit in 64usize..200) {
        for flavour in FLAVOURS {
            let parsed = markdown::parse(&text);
            for part in split(&parsed, flavour, limit) {
                prop_assert!(render(&part, flavour).len() <= limit, "{flavour:?} {part:?}");
            }
            for line in lines(&parsed) {
                prop_assert!(!render(&line, Flavour::IrcCodes).contains('\n'));
            }
        }
        let plain = RichText::plain(&text);
        let words = |text: &str| text.split_whitespace().collect::<String>();
        let cut: String = split(&plain, Flavour::Plain, limit).iter().map(|part| render(part, Flavour::Plain)).collect();
        prop_assert_eq!(words(&cut), words(&text), "nothing but white space is lost");
    }

    #[test]
    fn a_plain_line_survives_markdown(text in "[a-c*_`~>#\\[\\]()<&\\\\\" .1-]{1,40}") {
        let text = text.trim();
        let parsed = markdown::parse(&render(&RichText::plain(text), Flavour::Markdown));
        prop_assert_eq!(render(&parsed, Flavour::Plain), text);
    }
}
