//! Blocks and inlines, as tags open and close them.
//!
//! Invariant: nesting is bounded by [`MAX_DEPTH`]. What is not opened for that reason is not closed either; its text is kept.

use crate::rich::{InlineText, MAX_DEPTH, RichText, TextBlock};

/// A block that other blocks are in.
pub(super) enum OpenBlock {
    Root,
    Quote,
    List { is_ordered: bool, items: Vec<Vec<TextBlock>> },
    Item,
}

impl OpenBlock {
    /// How much deeper it makes what is in it. A list counts for its items, which may have no tag.
    fn depth(&self) -> usize {
        match self {
            Self::Root | Self::Item => 0,
            Self::Quote => 1,
            Self::List { .. } => 2,
        }
    }
}

/// Formatting that is open within a line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum InlineStyle {
    Strong,
    Emphasis,
    Strike,
}

pub(super) struct BlockBuilder {
    /// The root first.
    containers: Vec<(OpenBlock, Vec<TextBlock>)>,
    /// The line's own inlines first, with its kind; then what is open in it.
    line: Vec<InlineText>,
    is_heading: bool,
    open: Vec<(InlineStyle, Vec<InlineText>)>,
}

impl BlockBuilder {
    pub(super) fn new() -> Self {
        let containers = vec![(OpenBlock::Root, Vec::new())];
        Self { containers, line: Vec::new(), is_heading: false, open: Vec::new() }
    }

    pub(super) fn text(&mut self, text: &str) {
        let ends_in_space = self.inlines().last().is_none_or(|last| match last {
            InlineText::Text(text) => text.ends_with(' '),
            InlineText::LineBreak => true,
            _ => false,
        });
        // White space that separates tags is not content, and the rest of it is one space (HTML, "Collapse white space").
        let mut collapsed = String::with_capacity(text.len());
        let mut was_space = ends_in_space && (self.open.is_empty() || !self.inlines().is_empty());
        for character in text.chars() {
            if character.is_ascii_whitespace() {
                if !was_space {
                    collapsed.push(' ');
                }
                was_space = true;
            } else {
                collapsed.push(character);
                was_space = false;
            }
        }
        if !collapsed.is_empty() {
            self.push(InlineText::Text(collapsed));
        }
    }

    /// The next line is a heading, or is none.
    pub(super) fn heading(&mut self, is_heading: bool) {
        self.end_line();
        self.is_heading = is_heading;
    }

    /// An item of the innermost list begins. Outside of lists it is a line.
    pub(super) fn open_item(&mut self) {
        self.close_item();
        if matches!(self.containers.last(), Some((OpenBlock::List { .. }, _))) {
            self.open_container(OpenBlock::Item);
        }
    }

    pub(super) fn close_item(&mut self) {
        let is_list = |container: &OpenBlock| matches!(container, OpenBlock::List { .. });
        self.close_container(|container| matches!(container, OpenBlock::Item), is_list);
    }

    pub(super) fn close_list(&mut self) {
        self.close_container(|container| matches!(container, OpenBlock::List { .. }), |_| false);
    }

    pub(super) fn close_quote(&mut self) {
        self.close_container(|container| matches!(container, OpenBlock::Quote), |_| false);
    }

    pub(super) fn emphasis(&mut self, kind: InlineStyle, is_closing: bool) {
        if !is_closing {
            if self.depth() < MAX_DEPTH {
                self.open.push((kind, Vec::new()));
            }
        } else if self.open.iter().any(|(open, _)| *open == kind) {
            while let Some(closed) = self.open.last().map(|(open, _)| *open) {
                self.close_emphasis();
                if closed == kind {
                    break;
                }
            }
        }
    }

    fn close_emphasis(&mut self) {
        let Some((kind, inner)) = self.open.pop() else { return };
        if inner.is_empty() {
            return;
        }
        self.push(match kind {
            InlineStyle::Strong => InlineText::Strong(inner),
            InlineStyle::Emphasis => InlineText::Emphasis(inner),
            InlineStyle::Strike => InlineText::Strike(inner),
        });
    }

    fn depth(&self) -> usize {
        self.containers.iter().map(|(container, _)| container.depth()).sum::<usize>() + self.open.len()
    }

    fn inlines(&self) -> &Vec<InlineText> {
        self.open.last().map_or(&self.line, |(_, inlines)| inlines)
    }

    pub(super) fn push(&mut self, inline: InlineText) {
        let inlines = self.open.last_mut().map_or(&mut self.line, |(_, inlines)| inlines);
        match (inlines.last_mut(), inline) {
            (Some(InlineText::Text(before)), InlineText::Text(text)) => before.push_str(&text),
            (_, inline) => inlines.push(inline),
        }
    }

    /// Makes a block of what the line has.
    pub(super) fn end_line(&mut self) {
        while !self.open.is_empty() {
            self.close_emphasis();
        }
        let mut inlines = std::mem::take(&mut self.line);
        while let Some(last) = inlines.last_mut() {
            match last {
                InlineText::LineBreak => {}
                InlineText::Text(text) => {
                    text.truncate(text.trim_end().len());
                    if !text.is_empty() {
                        break;
                    }
                }
                _ => break,
            }
            inlines.pop();
        }
        let is_heading = std::mem::take(&mut self.is_heading);
        if !inlines.is_empty() {
            self.add_block(if is_heading { TextBlock::Heading(inlines) } else { TextBlock::Paragraph(inlines) });
        }
    }

    pub(super) fn add_block(&mut self, block: TextBlock) {
        if let Some((_, blocks)) = self.containers.last_mut() {
            blocks.push(block);
        }
    }

    pub(super) fn open_container(&mut self, container: OpenBlock) {
        self.end_line();
        if self.depth() + container.depth() <= MAX_DEPTH {
            self.containers.push((container, Vec::new()));
        }
    }

    /// Closes the innermost container of a kind with all in it. `border` is what is not looked behind.
    fn close_container(&mut self, wanted: impl Fn(&OpenBlock) -> bool, border: impl Fn(&OpenBlock) -> bool) {
        self.end_line();
        let inner_first = self.containers.iter().rev().map(|(container, _)| container);
        let Some(above) = inner_first.take_while(|container| !border(container)).position(&wanted) else { return };
        for _ in 0..=above {
            self.close_innermost();
        }
    }

    fn close_innermost(&mut self) {
        if self.containers.len() < 2 {
            return;
        }
        let Some((container, blocks)) = self.containers.pop() else { return };
        match container {
            OpenBlock::Item => match self.containers.last_mut() {
                Some((OpenBlock::List { items, .. }, _)) if !blocks.is_empty() => items.push(blocks),
                _ => {}
            },
            OpenBlock::List { is_ordered, mut items } => {
                // Text between items is an item, too: nothing that a person wrote is lost.
                if !blocks.is_empty() {
                    items.push(blocks);
                }
                if !items.is_empty() {
                    self.add_block(TextBlock::List { is_ordered, items });
                }
            }
            OpenBlock::Quote => {
                if !blocks.is_empty() {
                    self.add_block(TextBlock::Quote(blocks));
                }
            }
            OpenBlock::Root => {}
        }
    }

    pub(super) fn finish(mut self) -> RichText {
        self.end_line();
        while self.containers.len() > 1 {
            self.close_innermost();
        }
        RichText { blocks: self.containers.pop().map(|(_, blocks)| blocks).unwrap_or_default() }
    }
}
