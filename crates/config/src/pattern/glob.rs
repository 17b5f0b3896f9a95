//! Patterns in which `*` stands for any characters, including `/`.
//! What counts as a match of an argument value is left to `permission`.

/// A pattern with `*` wildcards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    /// The texts between the wildcards: at least one, and empty only at the start or the end.
    pieces: Vec<String>,
}

impl Glob {
    /// Creates a pattern that matches exactly this text, even if it contains `*`.
    pub fn literal(text: &str) -> Glob {
        Glob { pieces: vec![text.to_owned()] }
    }

    /// Parses a pattern in which every `*` is a wildcard.
    pub fn parse(text: &str) -> Glob {
        Glob::from_pieces(text.split('*').map(str::to_owned).collect())
    }

    /// Creates a pattern from the texts between its wildcards. Consecutive wildcards count as one.
    pub(crate) fn from_pieces(pieces: Vec<String>) -> Glob {
        let last = pieces.len().saturating_sub(1);
        let is_edge = |index: usize| index == 0 || index == last;
        let pieces = pieces.into_iter().enumerate();
        let pieces = pieces.filter(|(index, piece)| is_edge(*index) || !piece.is_empty());
        Glob { pieces: pieces.map(|(_, piece)| piece).collect() }
    }

    /// Returns the texts between the wildcards.
    pub(crate) fn pieces(&self) -> &[String] {
        &self.pieces
    }

    /// Does the pattern contain a wildcard?
    pub fn has_wildcard(&self) -> bool {
        self.pieces.len() > 1
    }

    /// Does the pattern match the whole text?
    pub fn matches(&self, text: &str) -> bool {
        let [first, inner @ .., last] = &self.pieces[..] else {
            return self.pieces.first().is_some_and(|only| only == text);
        };
        let between = text.strip_prefix(first.as_str()).and_then(|it| it.strip_suffix(&**last));
        let Some(mut rest) = between else { return false };
        // The leftmost match of each piece leaves the most room for the next ones.
        for piece in inner {
            let Some(at) = rest.find(piece.as_str()) else { return false };
            rest = &rest[at + piece.len()..];
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        let glob = Glob::parse(pattern);
        for text in matching {
            assert!(glob.matches(text), "{pattern} should match {text}");
        }
        for text in others {
            assert!(!glob.matches(text), "{pattern} should not match {text}");
        }
    }

    #[test]
    fn a_pattern_without_a_wildcard_matches_only_itself() {
        check("read", &["read"], &["", "rea", "reads", "Read"]);
        check("", &[""], &["x"]);
    }

    #[test]
    fn a_wildcard_matches_any_characters_and_pieces_never_overlap() {
        check("*", &["", "x", "a/b"], &[]);
        check("/srv/*", &["/srv/", "/srv/a/b"], &["/srv", "x/srv/a"]);
        check("a*a", &["aa", "aba"], &["a", "ab"]);
        check("a*b*b", &["abb", "axbyb"], &["ab", "bab"]);
        check("a**b", &["ab", "axb"], &["a"]);
        check("*é*", &["é", "café!"], &["e"]);
    }

    #[test]
    fn a_star_in_a_literal_is_not_a_wildcard() {
        let glob = Glob::literal("a*");
        assert!(glob.matches("a*") && !glob.matches("ab"));
    }
}
