//! Finds a phrase in a line of code, matching whole names only.

/// Whether `code` contains `phrase` as whole words: `tokio` is not in `tokio_util`, and `print!` is
/// not in `eprint!`.
pub fn contains_phrase(code: &str, phrase: &str) -> bool {
    code.match_indices(phrase).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + phrase.len()..].chars().next();
        let longer_before =
            phrase.starts_with(is_identifier_char) && before.is_some_and(is_identifier_char);
        let longer_after =
            phrase.ends_with(is_identifier_char) && after.is_some_and(is_identifier_char);
        !longer_before && !longer_after
    })
}

/// Whether a character can be part of a Rust name.
pub fn is_identifier_char(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_count() {
        let held = |code| {
            (
                contains_phrase(code, "tokio"),
                contains_phrase(code, "print!"),
                contains_phrase(code, ".await"),
            )
        };
        assert_eq!(held("use tokio::time;"), (true, false, false));
        assert_eq!(held("tokio_util my_tokio eprint!()"), (false, false, false));
        assert_eq!(held("print!(); f().await?"), (false, true, true));
        assert_eq!(held("my_tokio; tokio"), (true, false, false));
    }
}
