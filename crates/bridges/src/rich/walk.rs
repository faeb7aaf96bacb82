//! Going through a text.

use super::{InlineText, RichText, TextBlock};

impl RichText {
    /// Replaces inlines, the innermost first.
    #[must_use]
    pub fn map_inlines(self, change: &dyn Fn(InlineText) -> InlineText) -> Self {
        let each = |inlines: Vec<InlineText>| inlines.into_iter().map(change).collect();
        Self { blocks: map_blocks(self.blocks, &|inlines| map_nested(inlines, &each)) }
    }

    /// Replaces plain text by inlines.
    #[must_use]
    pub fn flat_map_text(self, change: &dyn Fn(&str) -> Vec<InlineText>) -> Self {
        let each = |inlines: Vec<InlineText>| {
            let changed = inlines.into_iter().flat_map(|inline| match inline {
                InlineText::Text(text) => change(&text),
                other => vec![other],
            });
            changed.collect()
        };
        Self { blocks: map_blocks(self.blocks, &|inlines| map_nested(inlines, &each)) }
    }

    /// Shows every inline.
    pub fn visit_inlines(&self, visit: &mut dyn FnMut(&InlineText)) {
        visit_blocks(&self.blocks, visit);
    }
}

type InlineChange<'a> = &'a dyn Fn(Vec<InlineText>) -> Vec<InlineText>;

fn map_nested(inlines: Vec<InlineText>, each: InlineChange<'_>) -> Vec<InlineText> {
    let nested = inlines.into_iter().map(|inline| match inline {
        InlineText::Strong(inner) => InlineText::Strong(map_nested(inner, each)),
        InlineText::Emphasis(inner) => InlineText::Emphasis(map_nested(inner, each)),
        InlineText::Strike(inner) => InlineText::Strike(map_nested(inner, each)),
        other => other,
    });
    each(nested.collect())
}

fn map_blocks(blocks: Vec<TextBlock>, change: InlineChange<'_>) -> Vec<TextBlock> {
    let changed = blocks.into_iter().map(|block| match block {
        TextBlock::Paragraph(inlines) => TextBlock::Paragraph(change(inlines)),
        TextBlock::Heading(inlines) => TextBlock::Heading(change(inlines)),
        TextBlock::Quote(blocks) => TextBlock::Quote(map_blocks(blocks, change)),
        TextBlock::List { is_ordered, items } => {
            let items = items.into_iter().map(|item| map_blocks(item, change)).collect();
            TextBlock::List { is_ordered, items }
        }
        code @ TextBlock::Code { .. } => code,
    });
    changed.collect()
}

fn visit_blocks(blocks: &[TextBlock], visit: &mut dyn FnMut(&InlineText)) {
    for block in blocks {
        match block {
            TextBlock::Paragraph(inlines) | TextBlock::Heading(inlines) => visit_inlines(inlines, visit),
            TextBlock::Quote(blocks) => visit_blocks(blocks, visit),
            TextBlock::List { items, .. } => items.iter().for_each(|item| visit_blocks(item, visit)),
            TextBlock::Code { .. } => {}
        }
    }
}

fn visit_inlines(inlines: &[InlineText], visit: &mut dyn FnMut(&InlineText)) {
    for inline in inlines {
        visit(inline);
        if let InlineText::Strong(inner) | InlineText::Emphasis(inner) | InlineText::Strike(inner) = inline {
            visit_inlines(inner, visit);
        }
    }
}
