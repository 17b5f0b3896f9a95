//! Values with `{variables}`: which parts are text, and which the user answers.

use super::input::Input;

/// A part of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece<'i> {
    /// Text of the publisher.
    Text(String),
    /// A variable.
    Variable(&'i str, &'i Input),
}

/// Splits a value at its variables. Braces around anything else are text.
pub(super) fn split_value<'i>(value: &str, variables: &'i [(String, Input)]) -> Vec<Piece<'i>> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = value;
    while let Some(open) = rest.find('{') {
        let inside = &rest[open + 1..];
        let found = inside.find('}').and_then(|close| {
            let name = &inside[..close];
            let (name, input) = variables.iter().find(|(it, _)| it == name)?;
            Some((name, input, close))
        });
        match found {
            Some((name, input, close)) => {
                text.push_str(&rest[..open]);
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                }
                pieces.push(Piece::Variable(name, input));
                rest = &inside[close + 1..];
            }
            None => {
                text.push_str(&rest[..=open]);
                rest = inside;
            }
        }
    }
    text.push_str(rest);
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(value: &str) -> String {
        let variables = [("a".to_owned(), Input::fixed("", Vec::new()))];
        let show = |piece: &Piece<'_>| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Variable(name, _) => format!("<{name}>"),
        };
        split_value(value, &variables).iter().map(show).collect()
    }

    #[test]
    fn only_known_variables_are_replaced() {
        for (value, expected) in [
            ("src={a},dst={b}", "src=<a>,dst={b}"),
            ("{a}{a}", "<a><a>"),
            ("{{a}}", "{<a>}"),
            ("${a}", "$<a>"),
            ("{a", "{a"),
            ("{}", "{}"),
            ("", ""),
        ] {
            assert_eq!(written(value), expected, "{value}");
        }
    }

    proptest! {
        #[test]
        fn a_value_without_variables_stays(value in "[ab{}$é]{0,20}") {
            prop_assert_eq!(written(&value), value.replace("{a}", "<a>"));
        }
    }
}
