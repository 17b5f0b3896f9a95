//! Names and values of a query or a form, bounded.

use url::form_urlencoded;

/// The most pairs that are read.
const MAX_PAIRS: usize = 200;

/// The pairs of a query string or of a form, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    /// Parses `application/x-www-form-urlencoded`. None if it has too many pairs.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Form> {
        let mut pairs = form_urlencoded::parse(bytes).into_owned();
        let all: Vec<(String, String)> = pairs.by_ref().take(MAX_PAIRS).collect();
        pairs.next().is_none().then_some(Form(all))
    }

    /// The first value of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|it| it.0 == name).map(|it| it.1.as_str())
    }

    /// The first value of a name, without spaces around it; empty if there is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default().trim()
    }

    /// A number; zero if there is none.
    pub(crate) fn number(&self, name: &str) -> usize {
        self.text(name).parse().unwrap_or_default()
    }
}

/// A path with a query, for a link.
pub(crate) fn link(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(pairs.iter().filter(|it| !it.1.is_empty()));
    match query.finish() {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded_and_bounded() {
        let form = Form::parse(b"a=1%202&b=%3Cx%3E&a=3&c").expect("few pairs");
        assert_eq!((form.text("a"), form.text("b"), form.get("c")), ("1 2", "<x>", Some("")));
        assert_eq!((form.get("d"), form.number("a"), form.number("b")), (None, 0, 0));
        assert_eq!(Form::parse("a=1&".repeat(MAX_PAIRS + 1).as_bytes()), None);
        assert!(Form::parse(b"%ff%00=%").is_some());
    }

    #[test]
    fn links_encode_what_they_carry() {
        assert_eq!(link("/ui/", &[]), "/ui/");
        assert_eq!(
            link("/ui/x", &[("name", "a&b=\"ü"), ("q", "")]),
            "/ui/x?name=a%26b%3D%22%C3%BC"
        );
    }
}
