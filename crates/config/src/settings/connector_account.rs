//! Reads `connectorAccount` of a settings file: the API that lists an account's connectors, and its token.

use super::section::Section;
use crate::document::Member;
use crate::problem::Reporter;
pub use crate::schema::CONNECTOR_ACCOUNT_KEYS;
use crate::source::Origin;
use crate::template::Template;

/// The key of the section.
pub(crate) const KEY: &str = "connectorAccount";

/// An account that has connectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectorAccount {
    /// The URL of the API that lists them.
    pub api_url: String,
    /// The token for the API, if there is no stored login.
    pub token: Option<Template>,
    /// The position of the section.
    pub origin: Origin,
}

/// Reads the section from the members of a settings file.
pub(crate) fn read(members: &[Member], reporter: &mut Reporter<'_>) -> Option<ConnectorAccount> {
    let mut section = Section::open(members, KEY, CONNECTOR_ACCOUNT_KEYS, reporter)?;
    let (api_url, token) = (section.required_https_url("apiUrl"), section.template("token"));
    Some(ConnectorAccount { api_url: api_url?, token, origin: section.origin() })
}

#[cfg(test)]
mod tests {
    use crate::settings::test_reader::{problem_keys, read};

    #[test]
    fn an_account_is_read_and_invalid_values_are_reported() {
        let good =
            read(r#"{"connectorAccount": {"apiUrl": "https://api.example/v1", "token": "${T}"}}"#);
        assert!(good.layer.problems.is_empty(), "{:?}", good.layer.problems);
        let account = good.connector_account.expect("it is there");
        let token = account.token.expect("a token");
        assert_eq!((account.api_url.as_str(), token.as_str()), ("https://api.example/v1", "${T}"));
        for (text, key) in [
            (r#"{"connectorAccount": "x"}"#, "connectorAccount"),
            (r#"{"connectorAccount": {}}"#, "connectorAccount.apiUrl"),
            (r#"{"connectorAccount": {"apiUrl": "http://a.b/"}}"#, "connectorAccount.apiUrl"),
        ] {
            let bad = read(text);
            let keys = problem_keys(&bad);
            assert_eq!((keys, bad.connector_account), (vec![key.to_owned()], None), "{text}");
        }
    }
}
