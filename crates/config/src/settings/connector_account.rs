//! Reads what a settings file says about connectors: the account that lists them, and whether they are disabled.
//! The account's API is described by `connectorAccount`; logging in to it is left to the host.

use super::section::Section;
use crate::document::{Member, Value, find_member};
use crate::problem::{ProblemSubject, Reporter};
pub use crate::schema::CONNECTOR_ACCOUNT_KEYS;
use crate::source::Origin;
use crate::template::Template;

/// The key of the section.
pub(crate) const KEY: &str = "connectorAccount";
/// The switch that disables every connector, and its other name.
pub(crate) const DISABLE_KEYS: [&str; 2] = ["disableConnectors", "disableClaudeAiConnectors"];

/// An account that has connectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectorAccount {
    /// The URL of the API that lists them.
    pub api_url: String,
    /// The token for the API, if there is no stored login.
    pub token: Option<Template>,
    /// How to sign in to the account, where no token is given.
    pub login: AccountLogin,
    /// The URL of the proxy, with `{id}` for a connector's id, where the API lists the URLs of vendors.
    pub proxy_url: Option<String>,
    /// The page where the user manages the connectors.
    pub manage_url: Option<String>,
    /// The position of the section.
    pub origin: Origin,
}

/// How to sign in to an account. Everything that is missing is discovered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountLogin {
    /// The id of a registered client.
    pub client_id: Option<String>,
    /// The port of the redirect URL.
    pub callback_port: Option<u16>,
    /// The URL of the authorization server's metadata.
    pub metadata_url: Option<String>,
}

/// Reads the section from the members of a settings file.
pub(crate) fn read(members: &[Member], reporter: &mut Reporter<'_>) -> Option<ConnectorAccount> {
    let mut section = Section::open(members, KEY, CONNECTOR_ACCOUNT_KEYS, reporter)?;
    let (api_url, token) = (section.required_https_url("apiUrl"), section.template("token"));
    let login = AccountLogin {
        client_id: section.string("clientId"),
        callback_port: section.port("callbackPort"),
        metadata_url: section.https_url("authServerMetadataUrl"),
    };
    let proxy_url = section.https_url("proxyUrl");
    let manage_url = section.https_url("manageUrl");
    let origin = section.origin();
    Some(ConnectorAccount { api_url: api_url?, token, login, proxy_url, manage_url, origin })
}

/// Reads the switch that disables every connector. A value that is neither `true` nor `false` is reported, and disables
/// them: the file wants something, and this is the safe reading.
pub(crate) fn read_disabled(members: &[Member], reporter: &mut Reporter<'_>) -> Option<Origin> {
    let mut disabled = None;
    for key in DISABLE_KEYS {
        let Some(member) = find_member(members, key) else { continue };
        match &member.node.value {
            Value::Bool(false) | Value::Null => continue,
            Value::Bool(true) => {}
            Value::String(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                let subject = ProblemSubject { server: None, key };
                reporter.report_wrong_type(&member.node, subject, "true or false");
            }
        }
        disabled.get_or_insert_with(|| reporter.origin(member.key_span));
    }
    disabled
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::scope::Scope;
    use crate::settings::Settings;
    use crate::settings::test_reader::{problem_keys, read};
    use crate::source::Source;

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

    #[test]
    fn how_to_sign_in_and_where_the_proxy_is_are_read() {
        let good = read(
            r#"{"connectorAccount": {"apiUrl": "https://api.example/", "clientId": "me", "callbackPort": 4000,
                "authServerMetadataUrl": "https://login.example/meta", "proxyUrl": "https://proxy.example/v1/{id}",
                "manageUrl": "https://app.example/connectors"}}"#,
        );
        assert!(good.layer.problems.is_empty(), "{:?}", good.layer.problems);
        let account = good.connector_account.expect("it is there");
        assert_eq!(account.login.client_id.as_deref(), Some("me"));
        assert_eq!(account.login.callback_port, Some(4000));
        assert_eq!(account.login.metadata_url.as_deref(), Some("https://login.example/meta"));
        assert_eq!(account.proxy_url.as_deref(), Some("https://proxy.example/v1/{id}"));
        assert_eq!(account.manage_url.as_deref(), Some("https://app.example/connectors"));
        for (member, key) in [
            (r#""callbackPort": 0"#, "connectorAccount.callbackPort"),
            (r#""proxyUrl": "http://proxy.example/""#, "connectorAccount.proxyUrl"),
            (r#""clientId": 4"#, "connectorAccount.clientId"),
        ] {
            let bad =
                read(&format!(r#"{{"connectorAccount": {{"apiUrl": "https://a.b/", {member}}}}}"#));
            assert_eq!(problem_keys(&bad), [key]);
            assert!(bad.connector_account.is_some(), "{member}");
        }
    }

    #[test]
    fn one_switch_under_either_name_disables_connectors() {
        for (text, expected) in [
            (r#"{"disableConnectors": true}"#, true),
            (r#"{"disableClaudeAiConnectors": true}"#, true),
            (r#"{"disableConnectors": false, "disableClaudeAiConnectors": true}"#, true),
            (r#"{"disableConnectors": false}"#, false),
            ("{}", false),
        ] {
            let settings = read(text);
            assert!(settings.layer.problems.is_empty(), "{:?}", settings.layer.problems);
            assert_eq!(settings.connectors_disabled.is_some(), expected, "{text}");
        }
        let odd = read(r#"{"disableConnectors": "yes"}"#);
        assert_eq!(problem_keys(&odd), ["disableConnectors"]);
        assert!(odd.connectors_disabled.is_some());
    }

    #[test]
    fn a_projects_file_may_disable_connectors_and_name_no_account() {
        let source: Arc<Source> = Source::file(Scope::Project, ".mcp.json");
        let text = r#"{"mcpServers": {}, "disableConnectors": true,
            "connectorAccount": {"apiUrl": "https://api.example/"}}"#;
        let settings = Settings::read_project(&source, text);
        assert!(settings.connectors_disabled.is_some());
        assert_eq!(settings.connector_account, None);
    }
}
