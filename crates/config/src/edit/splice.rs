//! Inserts items into an object or array in a text, and removes them, in the formatting of that text.
//! What the items mean is left to `edit`.

use crate::document::Span;

/// An object or array in a text, and the positions of its items.
#[derive(Debug)]
pub struct Container<'t> {
    text: &'t str,
    /// The position of the opening bracket.
    open: usize,
    /// The position of the closing bracket.
    close: usize,
    items: Vec<Span>,
}

/// How a new item is formatted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// On the same line.
    Inline,
    /// On its own lines.
    Block {
        /// The indentation of its lines.
        indent: String,
        /// One step of indentation.
        unit: String,
        /// The line ending.
        newline: &'static str,
    },
}

/// How the first item of an empty container is formatted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptyLayout {
    /// On its own lines, unless the whole text is one line (objects).
    Expand,
    /// On the same line (arrays).
    Inline,
}

impl<'t> Container<'t> {
    /// Creates a container for `span`, which includes the brackets.
    pub fn new(text: &'t str, span: Span, items: Vec<Span>) -> Container<'t> {
        Container { text, open: span.start, close: span.end - 1, items }
    }

    /// Returns the text with one more item at the end.
    pub fn append(&self, empty_layout: EmptyLayout, item: impl Fn(&Layout) -> String) -> String {
        match self.items.last() {
            None => self.insert_first(empty_layout, item),
            Some(last) => self.append_after(*last, item),
        }
    }

    fn insert_first(&self, empty_layout: EmptyLayout, item: impl Fn(&Layout) -> String) -> String {
        let inner = &self.text[self.open + 1..self.close];
        let (front, back) = (&self.text[..self.open + 1], &self.text[self.close..]);
        let one_line = !self.text.trim().contains('\n') && self.text.trim().len() > 2;
        let has_comment = !inner.trim().is_empty();
        let stays = empty_layout == EmptyLayout::Inline || one_line;
        if stays && !has_comment {
            return format!("{front}{}{back}", item(&Layout::Inline));
        }
        let base = indent_of_line(self.text, self.open);
        let layout = self.block(format!("{base}{}", indent_unit(self.text)));
        let newline = line_ending(self.text);
        let kept = inner.trim_end();
        format!("{front}{kept}{newline}{}{newline}{base}{back}", indented_item(&layout, &item))
    }

    fn append_after(&self, last: Span, item: impl Fn(&Layout) -> String) -> String {
        let comma = comma_in(self.text, last.end, self.close);
        let layout =
            if self.is_block() { self.block(self.item_indent(last)) } else { Layout::Inline };
        let written = match layout {
            Layout::Inline => format!(" {}", item(&layout)),
            Layout::Block { newline, .. } => format!("{newline}{}", indented_item(&layout, &item)),
        };
        match comma {
            Some(comma) => {
                let at = after_comments_on_line(self.text, comma + 1, self.close);
                format!("{}{written},{}", &self.text[..at], &self.text[at..])
            }
            None => {
                let at = after_comments_on_line(self.text, last.end, self.close);
                let (front, between) = (&self.text[..last.end], &self.text[last.end..at]);
                format!("{front},{between}{written}{}", &self.text[at..])
            }
        }
    }

    /// Returns the text without the item at `index` and without the comma that is no longer needed.
    pub fn remove(&self, index: usize) -> String {
        let item = self.items[index];
        let next = self.items.get(index + 1).map_or(self.close, |next| next.start);
        let comma_after = comma_in(self.text, item.end, next);
        let end = comma_after.map_or(item.end, |comma| comma + 1);
        let mut removals = Vec::new();
        if comma_after.is_none() && index > 0 {
            let comma = comma_in(self.text, self.items[index - 1].end, item.start);
            removals.extend(comma.map(|comma| (comma, comma + 1)));
        }
        removals.push(self.removal_range(item.start, end));
        let mut text = String::with_capacity(self.text.len());
        let mut from = 0;
        for (start, end) in removals {
            text.push_str(&self.text[from..start]);
            from = end;
        }
        text.push_str(&self.text[from..]);
        text
    }

    /// The range to remove for an item and its comma: whole lines if nothing else is on them, otherwise also
    /// the adjacent spaces.
    fn removal_range(&self, start: usize, end: usize) -> (usize, usize) {
        let line = line_start(self.text, start);
        let starts_line = self.text[line..start].trim().is_empty() && line > self.open;
        let after = after_comments_on_line(self.text, end, self.close);
        let rest = &self.text[after..];
        if starts_line {
            for ending in ["\r\n", "\n"] {
                if rest.trim_start_matches([' ', '\t']).starts_with(ending) {
                    let spaces = rest.len() - rest.trim_start_matches([' ', '\t']).len();
                    return (line, after + spaces + ending.len());
                }
            }
        }
        let spaces_after = leading_blanks(&self.text[end..self.close]);
        if self.text[..end].ends_with(',') {
            return (start, end + spaces_after);
        }
        let front = &self.text[..start];
        (start - (front.len() - front.trim_end_matches([' ', '\t']).len()), end)
    }

    fn block(&self, indent: String) -> Layout {
        Layout::Block { indent, unit: indent_unit(self.text), newline: line_ending(self.text) }
    }

    /// Are the items on their own lines?
    fn is_block(&self) -> bool {
        let mut from = self.open + 1;
        for item in &self.items {
            if self.text[from..item.start].contains('\n') {
                return true;
            }
            from = item.end;
        }
        self.text[from..self.close].contains('\n')
    }

    fn item_indent(&self, item: Span) -> String {
        let line = line_start(self.text, item.start);
        let front = &self.text[line..item.start];
        if front.trim().is_empty() && line > self.open {
            return front.to_owned();
        }
        format!("{}{}", indent_of_line(self.text, self.open), indent_unit(self.text))
    }
}

fn indented_item(layout: &Layout, item: &impl Fn(&Layout) -> String) -> String {
    match layout {
        Layout::Inline => item(layout),
        Layout::Block { indent, .. } => format!("{indent}{}", item(layout)),
    }
}

fn leading_blanks(text: &str) -> usize {
    text.len() - text.trim_start_matches([' ', '\t']).len()
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

fn indent_of_line(text: &str, at: usize) -> &str {
    let line = &text[line_start(text, at)..at];
    &line[..leading_blanks(line)]
}

/// The line ending that the text uses.
pub fn line_ending(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// One level of the text's indentation: that of its first indented line, or two spaces.
pub fn indent_unit(text: &str) -> String {
    let indented =
        text.lines().map(|line| &line[..leading_blanks(line)]).find(|blanks| !blanks.is_empty());
    match indented {
        Some(blanks) if blanks.starts_with('\t') => "\t".to_owned(),
        Some(blanks) if blanks.len() <= 8 => blanks.to_owned(),
        Some(_) | None => "  ".to_owned(),
    }
}

/// Finds the comma between `from` and `to`, outside of comments.
fn comma_in(text: &str, from: usize, to: usize) -> Option<usize> {
    let mut at = from;
    while at < to {
        match comment_at(text, at) {
            Some(end) => at = end,
            None if text[at..].starts_with(',') => return Some(at),
            None => at += text[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    None
}

/// Returns the end of the comments that follow on the same line, or `from` if there are none.
fn after_comments_on_line(text: &str, from: usize, to: usize) -> usize {
    let mut end = from;
    loop {
        let at = end + leading_blanks(&text[end..to]);
        match comment_at(text, at).filter(|_| at < to) {
            Some(comment_end) => end = comment_end,
            None => return end,
        }
    }
}

/// Returns the end of the comment that starts at `at`, without its line ending.
fn comment_at(text: &str, at: usize) -> Option<usize> {
    let rest = &text[at..];
    if rest.starts_with("//") {
        return Some(at + rest.find(['\n', '\r']).unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(at + rest.find("*/").map_or(rest.len(), |end| end + 2));
    }
    None
}
