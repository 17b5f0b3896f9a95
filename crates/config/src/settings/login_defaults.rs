//! Reads `oauth` of a settings file: defaults for logins at every server.

use super::section::Section;
use crate::document::Member;
use crate::problem::Reporter;
pub use crate::schema::LOGIN_DEFAULTS_KEYS;

/// The key of the section.
pub(crate) const KEY: &str = "oauth";

/// Defaults for logins at every server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoginDefaults {
    /// The URL of our client metadata document.
    pub client_metadata_url: Option<String>,
}

impl LoginDefaults {
    /// Fills in what is missing from settings with lower precedence.
    pub fn merge(self, lower: LoginDefaults) -> LoginDefaults {
        LoginDefaults {
            client_metadata_url: self.client_metadata_url.or(lower.client_metadata_url),
        }
    }
}

/// Reads the section from the members of a settings file.
pub(crate) fn read(members: &[Member], reporter: &mut Reporter<'_>) -> LoginDefaults {
    let Some(mut section) = Section::open(members, KEY, LOGIN_DEFAULTS_KEYS, reporter) else {
        return LoginDefaults::default();
    };
    LoginDefaults { client_metadata_url: section.client_metadata_url("clientMetadataUrl") }
}

#[cfg(test)]
mod tests {
    use crate::problem::ProblemKind;
    use crate::settings::test_reader::{problem_keys, read};

    #[test]
    fn the_url_of_the_document_is_read() {
        let good = read(r#"{"oauth": {"clientMetadataUrl": "https://example.com/client.json"}}"#);
        assert!(good.layer.problems.is_empty(), "{:?}", good.layer.problems);
        let url = good.login_defaults.client_metadata_url;
        assert_eq!(url.as_deref(), Some("https://example.com/client.json"));
    }

    #[test]
    fn urls_that_cannot_be_a_client_id_are_reported() {
        for url in [
            "http://example.com/client.json",
            "http://127.0.0.1/client.json",
            "https://example.com",
            "https://example.com/",
            "https://user@example.com/client.json",
            "https://:password@example.com/client.json",
            "https://example.com/client.json#part",
            "/client.json",
        ] {
            let bad = read(&format!(r#"{{"oauth": {{"clientMetadataUrl": "{url}"}}}}"#));
            assert_eq!(problem_keys(&bad), ["oauth.clientMetadataUrl"], "{url}");
            let kind = &bad.layer.problems[0].kind;
            assert!(matches!(kind, ProblemKind::InvalidClientMetadataUrl), "{url}: {kind:?}");
            assert_eq!(bad.login_defaults.client_metadata_url, None, "{url}");
        }
        let bad = read(r#"{"oauth": {"clientMetadataUrl": 1, "clientId": "c"}}"#);
        assert_eq!(problem_keys(&bad), ["oauth.clientId", "oauth.clientMetadataUrl"]);
        assert_eq!(problem_keys(&read(r#"{"oauth": "https://example.com/c"}"#)), ["oauth"]);
    }
}
