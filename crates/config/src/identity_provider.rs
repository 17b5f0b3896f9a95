//! Reads `identityProvider` of a settings file: who vouches for people, set once for every server with `oauth.xaa`.

use crate::decode::is_https;
use crate::document::{Member, Node, Value};
use crate::layer::find;
use crate::problem::{ProblemKind, Reporter, Subject};
use crate::settings::{SettingsKey, key};
use crate::source::Origin;
use crate::template::Template;

/// The key of a settings file that holds all this.
pub(crate) const KEY: &str = "identityProvider";

/// Every key of `identityProvider`.
pub const KEYS: &[SettingsKey] = &[
    key("issuer", "string", true, "the identity provider's address; https only, or this machine"),
    key("clientId", "string", true, "who we are there"),
    key("clientSecret", "string", true, "our secret there, where we have one; better named"),
    key("callbackPort", "number", true, "the port of the redirect address"),
    key("tokenEndpoint", "string", true, "where its tokens are, where it does not say so itself"),
    key("identityToken", "string", true, "who is signed in, where nobody can be; better named"),
];

/// Who vouches for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityProvider {
    /// Its address.
    pub issuer: String,
    /// Who we are there.
    pub client_id: Template,
    /// Our secret there.
    pub client_secret: Option<Template>,
    /// The port of the redirect address.
    pub callback_port: Option<u16>,
    /// Where its tokens are, where it does not say so itself.
    pub token_endpoint: Option<String>,
    /// Who is signed in, where nobody can be.
    pub identity_token: Option<Template>,
    /// Where it stands.
    pub origin: Origin,
}

/// Reads it out of a settings file's members.
pub(crate) fn read(members: &[Member], reporter: &mut Reporter<'_>) -> Option<IdentityProvider> {
    let member = find(members, KEY).filter(|it| it.node.value != Value::Null)?;
    let Value::Object(inner) = &member.node.value else {
        wrong(&member.node, KEY, "an object", reporter);
        return None;
    };
    let issuer_at = find(inner, "issuer").map(|it| &it.node).unwrap_or(&member.node);
    let issuer = text(inner, "issuer", reporter).filter(|it| is_address(it));
    if issuer.is_none() {
        let key = format!("{KEY}.issuer");
        let kind = ProblemKind::Url { schemes: "`https://`" };
        reporter.report(issuer_at.span, Subject { server: None, key: &key }, kind);
    }
    let client_id = text(inner, "clientId", reporter);
    if client_id.is_none() {
        wrong(&member.node, &format!("{KEY}.clientId"), "a string", reporter);
    }
    Some(IdentityProvider {
        issuer: issuer?,
        client_id: Template::parse(&client_id?),
        client_secret: text(inner, "clientSecret", reporter).map(|it| Template::parse(&it)),
        callback_port: port(inner, reporter),
        token_endpoint: text(inner, "tokenEndpoint", reporter).filter(|it| is_address(it)),
        identity_token: text(inner, "identityToken", reporter).map(|it| Template::parse(&it)),
        origin: reporter.origin(member.key_span),
    })
}

/// An https address, or one on this machine.
pub(crate) fn is_address(text: &str) -> bool {
    let is_local = url::Url::parse(text).is_ok_and(|url| {
        url.scheme() == "http"
            && matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"))
    });
    is_https(text) || is_local
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

fn port(members: &[Member], reporter: &mut Reporter<'_>) -> Option<u16> {
    let member = find(members, "callbackPort")?;
    let number = match &member.node.value {
        Value::Number(number) => number.parse().ok().filter(|port: &u16| *port > 0),
        Value::Null | Value::Bool(_) | Value::Text(_) | Value::Array(_) | Value::Object(_) => None,
    };
    if number.is_none() {
        wrong(&member.node, &format!("{KEY}.callbackPort"), "a port number", reporter);
    }
    number
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
    fn who_vouches_is_read_and_what_makes_no_sense_is_reported() {
        let good = read(
            r#"{"identityProvider": {"issuer": "https://idp.example.com", "clientId": "c", "callbackPort": 3118}}"#,
        );
        assert!(good.layer.problems.is_empty(), "{:?}", good.layer.problems);
        let idp = good.identity_provider.expect("it is there");
        assert_eq!(
            (idp.issuer.as_str(), idp.callback_port),
            ("https://idp.example.com", Some(3118))
        );
        for (text, key) in [
            (r#"{"identityProvider": 1}"#, "identityProvider"),
            (
                r#"{"identityProvider": {"issuer": "ftp://x", "clientId": "c"}}"#,
                "identityProvider.issuer",
            ),
            (
                r#"{"identityProvider": {"issuer": "http://idp.example.com", "clientId": "c"}}"#,
                "identityProvider.issuer",
            ),
            (r#"{"identityProvider": {"issuer": "https://x"}}"#, "identityProvider.clientId"),
        ] {
            let bad = read(text);
            let keys: Vec<_> =
                bad.layer.problems.iter().filter_map(|it| it.key.as_deref()).collect();
            assert_eq!((keys, bad.identity_provider), (vec![key], None), "{text}");
        }
    }
}
