//! Reads `connectorAccount` of a settings file: where an account's connectors are listed, and what to show there.

use crate::document::Member;
use crate::problem::Reporter;
use crate::section::Section;
use crate::settings::{SettingsKey, key};
use crate::source::Origin;
use crate::template::Template;

/// The key of a settings file that holds all this.
pub(crate) const KEY: &str = "connectorAccount";

/// Every key of `connectorAccount`.
pub const KEYS: &[SettingsKey] = &[
    key("apiUrl", "string", true, "where its connectors are listed; https only, or this machine"),
    key("token", "string", true, "what to show there, where no login is kept; better named"),
];

/// An account that has connectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Where they are listed.
    pub api_url: String,
    /// What to show there, where no login is kept.
    pub token: Option<Template>,
    /// Where it stands.
    pub origin: Origin,
}

/// Reads it out of a settings file's members.
pub(crate) fn read(members: &[Member], reporter: &mut Reporter<'_>) -> Option<Account> {
    let mut section = Section::open(members, KEY, KEYS, reporter)?;
    let (api_url, token) = (section.required_address("apiUrl"), section.template("token"));
    Some(Account { api_url: api_url?, token, origin: section.origin() })
}

#[cfg(test)]
mod tests {
    use crate::policy::Authority;
    use crate::scope::Scope;
    use crate::settings::Settings;
    use crate::source::Source;

    fn read(text: &str) -> Settings {
        Settings::read(&Source::file(Scope::User, "settings.json"), text, Authority::Person)
    }

    #[test]
    fn an_account_is_read_and_what_makes_no_sense_is_reported() {
        let good =
            read(r#"{"connectorAccount": {"apiUrl": "https://api.example/v1", "token": "${T}"}}"#);
        assert!(good.layer.problems.is_empty(), "{:?}", good.layer.problems);
        let account = good.account.expect("it is there");
        let token = account.token.expect("a token");
        assert_eq!((account.api_url.as_str(), token.written()), ("https://api.example/v1", "${T}"));
        for (text, key) in [
            (r#"{"connectorAccount": "x"}"#, "connectorAccount"),
            (r#"{"connectorAccount": {}}"#, "connectorAccount.apiUrl"),
            (r#"{"connectorAccount": {"apiUrl": "http://a.b/"}}"#, "connectorAccount.apiUrl"),
        ] {
            let bad = read(text);
            let keys: Vec<_> =
                bad.layer.problems.iter().filter_map(|it| it.key.as_deref()).collect();
            assert_eq!((keys, bad.account), (vec![key], None), "{text}");
        }
    }
}
