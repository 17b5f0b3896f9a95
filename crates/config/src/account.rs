//! Reads `connectorAccount` of a settings file: where an account's connectors are listed, and what to show there.

use crate::document::{Member, Node, Value};
use crate::identity_provider::is_address;
use crate::layer::find;
use crate::problem::{ProblemKind, Reporter, Subject};
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
    let member = find(members, KEY).filter(|it| it.node.value != Value::Null)?;
    let Value::Object(inner) = &member.node.value else {
        wrong(&member.node, KEY, "an object", reporter);
        return None;
    };
    let at = find(inner, "apiUrl").map(|it| &it.node).unwrap_or(&member.node);
    let api_url = text(inner, "apiUrl", reporter).filter(|it| is_address(it));
    if api_url.is_none() {
        let key = format!("{KEY}.apiUrl");
        let kind = ProblemKind::Url { schemes: "`https://`" };
        reporter.report(at.span, Subject { server: None, key: &key }, kind);
    }
    let token = text(inner, "token", reporter).map(|it| Template::parse(&it));
    Some(Account { api_url: api_url?, token, origin: reporter.origin(member.key_span) })
}

fn text(members: &[Member], name: &str, reporter: &mut Reporter<'_>) -> Option<String> {
    let member = find(members, name)?;
    match &member.node.value {
        Value::Text(text) => Some(text.clone()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            wrong(&member.node, &format!("{KEY}.{name}"), "a string", reporter);
            None
        }
    }
}

fn wrong(node: &Node, key: &str, expected: &'static str, reporter: &mut Reporter<'_>) {
    let kind = ProblemKind::WrongType { expected, found: node.kind() };
    reporter.report(node.span, Subject { server: None, key }, kind);
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
