//! Reads `connectorAccount` of a settings file: where an account's connectors are listed, and what to show there.

use super::section::Section;
use crate::document::Member;
use crate::problem::Reporter;
pub use crate::schema::CONNECTOR_ACCOUNT_KEYS;
use crate::source::Origin;
use crate::template::Template;

/// The key of a settings file that holds all this.
pub(crate) const KEY: &str = "connectorAccount";

/// An account that has connectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectorAccount {
    /// Where they are listed.
    pub api_url: String,
    /// What to show there, where no login is kept.
    pub token: Option<Template>,
    /// Where it stands.
    pub origin: Origin,
}

/// Reads it out of a settings file's members.
pub(crate) fn read(members: &[Member], reporter: &mut Reporter<'_>) -> Option<ConnectorAccount> {
    let mut section = Section::open(members, KEY, CONNECTOR_ACCOUNT_KEYS, reporter)?;
    let (api_url, token) = (section.required_https_url("apiUrl"), section.template("token"));
    Some(ConnectorAccount { api_url: api_url?, token, origin: section.origin() })
}

#[cfg(test)]
mod tests {
    use crate::scope::Scope;
    use crate::settings::Settings;
    use crate::source::{Authority, Source};

    fn read(text: &str) -> Settings {
        Settings::read(&Source::file(Scope::User, "settings.json"), text, Authority::User)
    }

    #[test]
    fn an_account_is_read_and_what_makes_no_sense_is_reported() {
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
            let keys: Vec<_> =
                bad.layer.problems.iter().filter_map(|it| it.key.as_deref()).collect();
            assert_eq!((keys, bad.connector_account), (vec![key], None), "{text}");
        }
    }
}
