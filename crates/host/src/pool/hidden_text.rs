//! Detects characters that make a text read differently for a model than for a user. Nothing is removed; the program
//! that shows the tool decides what to do.

/// A finding in a tool's texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum HiddenText {
    /// Zero-width characters between visible ones.
    ZeroWidth,
    /// Characters that change the reading direction.
    Bidirectional,
    /// Invisible tag characters, which can spell whole sentences.
    Tags,
    /// Control characters other than line breaks and tabs.
    Control,
    /// A word that mixes Latin letters with similar letters from other scripts.
    Confusable,
}

impl HiddenText {
    /// The identifier in output.
    pub fn id(self) -> &'static str {
        match self {
            HiddenText::ZeroWidth => "zero-width",
            HiddenText::Bidirectional => "direction",
            HiddenText::Tags => "tags",
            HiddenText::Control => "control",
            HiddenText::Confusable => "look-alike",
        }
    }
}

impl std::fmt::Display for HiddenText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            HiddenText::ZeroWidth => "its description contains zero-width characters",
            HiddenText::Bidirectional => "its description changes the reading direction",
            HiddenText::Tags => "its description contains invisible text",
            HiddenText::Control => "its description contains control characters",
            HiddenText::Confusable => "its description mixes look-alike letters",
        })
    }
}

/// Adds the findings of a text to `flags`.
pub(super) fn inspect(text: &str, flags: &mut Vec<HiddenText>) {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t');
    if text.bytes().all(is_plain) {
        return;
    }
    let mut word = WordScripts::default();
    let mut previous = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let next = rest.peek().copied().unwrap_or(' ');
        if let Some(flag) = classify(c, previous, next) {
            add(flags, flag);
        }
        if word.push(c) {
            add(flags, HiddenText::Confusable);
        }
        previous = c;
    }
    flags.sort_unstable();
}

fn add(flags: &mut Vec<HiddenText>, flag: HiddenText) {
    if !flags.contains(&flag) {
        flags.push(flag);
    }
}

fn classify(c: char, previous: char, next: char) -> Option<HiddenText> {
    match c {
        '\n' | '\r' | '\t' => None,
        // Joiners belong to emoji and to several scripts, but not next to Latin letters.
        '\u{200c}' | '\u{200d}' => {
            (previous.is_ascii() || next.is_ascii()).then_some(HiddenText::ZeroWidth)
        }
        '\u{ad}' | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' => {
            Some(HiddenText::ZeroWidth)
        }
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Some(HiddenText::Bidirectional)
        }
        '\u{e0000}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}' => Some(HiddenText::Tags),
        c if c.is_control() => Some(HiddenText::Control),
        _ => None,
    }
}

/// The scripts in the current word.
#[derive(Default)]
struct WordScripts {
    latin: bool,
    similar: bool,
}

impl WordScripts {
    /// Adds a character; returns whether the word is mixed now.
    fn push(&mut self, c: char) -> bool {
        if !c.is_alphanumeric() && c != '_' {
            *self = WordScripts::default();
            return false;
        }
        self.latin |= c.is_ascii_alphabetic();
        // Greek without letters common in formulas, Cyrillic, Armenian, Cherokee, full-width and mathematical
        // letters.
        self.similar |= matches!(
            c,
            'Α'..='Ω' | 'α' | 'ν' | 'ο' | 'ρ' | 'υ' | 'χ' | 'γ' | 'ι' | 'κ' | 'τ'
                | '\u{400}'..='\u{52f}' | '\u{531}'..='\u{587}' | '\u{13a0}'..='\u{13f5}'
                | '\u{ff21}'..='\u{ff5a}' | '\u{1d400}'..='\u{1d7ff}'
        );
        self.latin && self.similar
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[HiddenText]) {
        let mut flags = Vec::new();
        inspect(text, &mut flags);
        assert_eq!(flags, expected, "{text:?}");
    }

    #[test]
    fn hidden_characters_are_flagged() {
        check("read\u{200b}file", &[HiddenText::ZeroWidth]);
        check("a\u{200d}b", &[HiddenText::ZeroWidth]);
        check("abc\u{202e}fed", &[HiddenText::Bidirectional]);
        check("hello\u{e0041}\u{e0042}", &[HiddenText::Tags]);
        check("bell\u{7}", &[HiddenText::Control]);
        check("p\u{430}ypal\u{200b}", &[HiddenText::ZeroWidth, HiddenText::Confusable]);
    }

    #[test]
    fn ordinary_text_in_any_script_is_not_flagged() {
        for text in [
            "Reads a file.\n\tThen more…",
            "Читает файл README",
            "ファイルを読む",
            "👩\u{200d}💻 writes",
            "می\u{200c}خواهم",
            "naïve café",
            "a 5 μs wait",
        ] {
            check(text, &[]);
        }
    }
}
