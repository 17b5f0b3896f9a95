//! Reads `sessionIngress` of a settings file: the bearer token of the session that this program runs in, and the only
//! origin that gets it.

use super::section::Section;
use crate::document::Member;
use crate::problem::Reporter;
pub use crate::schema::SESSION_INGRESS_KEYS;
use crate::source::Origin;
use crate::template::Template;

/// The key of the section.
const KEY: &str = "sessionIngress";

/// The origin that gets the session's token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionIngress {
    /// A URL of the origin.
    pub url: String,
    /// The token, if the environment does not have it.
    pub token: Option<Template>,
    /// The position of the section.
    pub origin: Origin,
}

/// Reads the section from the members of a settings file.
pub(crate) fn read(members: &[Member], reporter: &mut Reporter<'_>) -> Option<SessionIngress> {
    let mut section = Section::open(members, KEY, SESSION_INGRESS_KEYS, reporter)?;
    let (url, token) = (section.required_https_url("url"), section.template("token"));
    Some(SessionIngress { url: url?, token, origin: section.origin() })
}

#[cfg(test)]
mod tests {
    use crate::settings::test_reader::{problem_keys, read};

    #[test]
    fn the_origin_is_required_and_encrypted() {
        let good = read(
            r#"{"sessionIngress": {"url": "https://in.example/", "token": "${file:/run/token}"}}"#,
        );
        assert!(good.layer.problems.is_empty(), "{:?}", good.layer.problems);
        let session = good.session_ingress.expect("it is there");
        let token = session.token.expect("a token");
        assert_eq!(
            (session.url.as_str(), token.as_str()),
            ("https://in.example/", "${file:/run/token}")
        );
        for text in [
            r#"{"sessionIngress": {}}"#,
            r#"{"sessionIngress": {"url": "http://in.example/"}}"#,
            r#"{"sessionIngress": {"url": 3}}"#,
        ] {
            let bad = read(text);
            assert_eq!(problem_keys(&bad), ["sessionIngress.url"], "{text}");
            assert_eq!(bad.session_ingress, None);
        }
    }
}
