//! Makes text of other programs (window titles, application names) safe to show: one line, no control or direction
//! characters, bounded.

/// The text with invisible and control characters replaced, cut after `max` characters.
pub(crate) fn shown(text: &str, max: usize) -> String {
    let mut shown = String::new();
    for (number, character) in text.chars().enumerate() {
        if number == max {
            shown.push('…');
            break;
        }
        shown.push(if is_plain(character) { character } else { '\u{fffd}' });
    }
    shown.trim().to_owned()
}

/// The same in quotation marks, which the text itself cannot contain.
pub(crate) fn quoted(text: &str, max: usize) -> String {
    format!("\"{}\"", shown(text, max).replace('"', "'"))
}

/// Whether a character shows itself and changes nothing else.
fn is_plain(character: char) -> bool {
    let is_format = matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
    );
    !character.is_control() && !is_format
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_direction_marks_lose_their_effect() {
        assert_eq!(
            shown("\u{1b}]0;x\u{7}y\u{202e}z\n", 80),
            "\u{fffd}]0;x\u{fffd}y\u{fffd}z\u{fffd}"
        );
        assert_eq!(quoted("say \"yes\"", 80), "\"say 'yes'\"");
    }

    #[test]
    fn a_long_text_is_cut() {
        assert_eq!(shown(&"ab".repeat(50), 4), "abab…");
        assert_eq!(shown("abab", 4), "abab");
    }
}
