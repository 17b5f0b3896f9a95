//! Finds characters that make a text say something else to a model than to a person.
//! Nothing is removed here; who shows the tool decides what to do about it.

/// What is odd about a tool's texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flag {
    /// Characters without width between visible ones.
    ZeroWidth,
    /// Characters that turn the direction of reading round.
    Direction,
    /// The block of invisible tags, which spells whole sentences that nobody sees.
    Tags,
    /// Control characters other than line ends and tabs.
    Control,
    /// A word that mixes Latin letters with letters that look like them.
    LookAlike,
}

impl Flag {
    /// The word for it in output.
    pub fn id(self) -> &'static str {
        match self {
            Flag::ZeroWidth => "zero-width",
            Flag::Direction => "direction",
            Flag::Tags => "tags",
            Flag::Control => "control",
            Flag::LookAlike => "look-alike",
        }
    }
}

impl std::fmt::Display for Flag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Flag::ZeroWidth => "its description holds characters without width",
            Flag::Direction => "its description turns the direction of reading round",
            Flag::Tags => "its description holds invisible text",
            Flag::Control => "its description holds control characters",
            Flag::LookAlike => "its description mixes letters that look alike",
        })
    }
}

/// What is odd about a text, added to what is known.
pub(super) fn inspect(text: &str, flags: &mut Vec<Flag>) {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t');
    if text.bytes().all(is_plain) {
        return;
    }
    let mut word = Word::default();
    let mut previous = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let next = rest.peek().copied().unwrap_or(' ');
        if let Some(flag) = of_character(c, previous, next) {
            add(flags, flag);
        }
        if word.takes(c) {
            add(flags, Flag::LookAlike);
        }
        previous = c;
    }
    flags.sort_unstable();
}

fn add(flags: &mut Vec<Flag>, flag: Flag) {
    if !flags.contains(&flag) {
        flags.push(flag);
    }
}

fn of_character(c: char, previous: char, next: char) -> Option<Flag> {
    match c {
        '\n' | '\r' | '\t' => None,
        // Joiners belong to emoji and to several scripts, but not next to Latin letters.
        '\u{200c}' | '\u{200d}' => {
            (previous.is_ascii() || next.is_ascii()).then_some(Flag::ZeroWidth)
        }
        '\u{ad}' | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' => {
            Some(Flag::ZeroWidth)
        }
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Some(Flag::Direction)
        }
        '\u{e0000}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}' => Some(Flag::Tags),
        c if c.is_control() => Some(Flag::Control),
        _ => None,
    }
}

/// Which letters the word so far has.
#[derive(Default)]
struct Word {
    latin: bool,
    similar: bool,
}

impl Word {
    /// Takes a character; is the word mixed now?
    fn takes(&mut self, c: char) -> bool {
        if !c.is_alphanumeric() && c != '_' {
            *self = Word::default();
            return false;
        }
        self.latin |= c.is_ascii_alphabetic();
        // Greek without the letters of formulas, Cyrillic, Armenian, Cherokee, full width, letters of mathematics.
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

    fn check(text: &str, expected: &[Flag]) {
        let mut flags = Vec::new();
        inspect(text, &mut flags);
        assert_eq!(flags, expected, "{text:?}");
    }

    #[test]
    fn what_a_person_cannot_see_is_flagged() {
        check("read\u{200b}file", &[Flag::ZeroWidth]);
        check("a\u{200d}b", &[Flag::ZeroWidth]);
        check("abc\u{202e}fed", &[Flag::Direction]);
        check("hello\u{e0041}\u{e0042}", &[Flag::Tags]);
        check("bell\u{7}", &[Flag::Control]);
        check("p\u{430}ypal\u{200b}", &[Flag::ZeroWidth, Flag::LookAlike]);
    }

    #[test]
    fn honest_text_in_any_script_is_not() {
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
