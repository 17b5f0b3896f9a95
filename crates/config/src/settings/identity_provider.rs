//! Reads `identityProvider` of a settings file: the identity provider for every server with `oauth.xaa`.

use super::section::Section;
use crate::document::{Member, find_member};
use crate::problem::Reporter;
pub use crate::schema::IDENTITY_PROVIDER_KEYS;
use crate::source::Origin;
use crate::template::Template;

/// The key of the section.
pub(crate) const KEY: &str = "identityProvider";

/// The same section under the name that users know from Claude Code.
const ALIAS: &str = "xaaIdp";

/// The identity provider of the enterprise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityProvider {
    /// The issuer URL.
    pub issuer: String,
    /// Our client id.
    pub client_id: Template,
    /// Our client secret.
    pub client_secret: Option<Template>,
    /// The port of the redirect URL.
    pub callback_port: Option<u16>,
    /// The token endpoint, if the metadata does not contain it.
    pub token_endpoint: Option<String>,
    /// The identity token, for machines where no user can log in.
    pub identity_token: Option<Template>,
    /// The position of the section.
    pub origin: Origin,
}

/// Reads the section from the members of a settings file.
pub(crate) fn read(members: &[Member], reporter: &mut Reporter<'_>) -> Option<IdentityProvider> {
    let key = if find_member(members, KEY).is_some() { KEY } else { ALIAS };
    let mut section = Section::open(members, key, IDENTITY_PROVIDER_KEYS, reporter)?;
    let (issuer, client_id) =
        (section.required_https_url("issuer"), section.required_string("clientId"));
    let (client_secret, identity_token) =
        (section.template("clientSecret"), section.template("identityToken"));
    let (callback_port, token_endpoint) =
        (section.port("callbackPort"), section.https_url("tokenEndpoint"));
    Some(IdentityProvider {
        issuer: issuer?,
        client_id: Template::parse(&client_id?),
        client_secret,
        callback_port,
        token_endpoint,
        identity_token,
        origin: section.origin(),
    })
}

#[cfg(test)]
mod tests {
    use crate::settings::test_reader::{problem_keys, read};

    #[test]
    fn an_identity_provider_is_read_and_invalid_values_are_reported() {
        let good = read(
            r#"{"identityProvider": {"issuer": "https://idp.example.com", "clientId": "c", "callbackPort": 3118}}"#,
        );
        assert!(good.layer.problems.is_empty(), "{:?}", good.layer.problems);
        let idp = good.identity_provider.expect("it is there");
        assert_eq!(
            (idp.issuer.as_str(), idp.callback_port),
            ("https://idp.example.com", Some(3118))
        );
        let alias = read(r#"{"xaaIdp": {"issuer": "https://idp.example.com", "clientId": "c"}}"#);
        assert!(alias.layer.problems.is_empty(), "{:?}", alias.layer.problems);
        assert!(alias.identity_provider.is_some());
        for (text, key) in [
            (r#"{"identityProvider": 1}"#, "identityProvider"),
            (r#"{"xaaIdp": {"clientId": "c"}}"#, "xaaIdp.issuer"),
            (
                r#"{"identityProvider": {"issuer": "ftp://x", "clientId": "c"}}"#,
                "identityProvider.issuer",
            ),
            (
                r#"{"identityProvider": {"issuer": "http://idp.example.com", "clientId": "c"}}"#,
                "identityProvider.issuer",
            ),
            (r#"{"identityProvider": {"issuer": "https://x"}}"#, "identityProvider.clientId"),
            (r#"{"identityProvider": {"clientId": "c"}}"#, "identityProvider.issuer"),
        ] {
            let bad = read(text);
            let keys = problem_keys(&bad);
            assert_eq!((keys, bad.identity_provider), (vec![key.to_owned()], None), "{text}");
        }
    }

    #[test]
    fn unknown_keys_and_invalid_optional_urls_are_reported_and_ignored() {
        let odd = read(
            r#"{"identityProvider": {"issuer": "https://x", "clientId": "c", "callbckPort": 1, "tokenEndpoint": "x"}}"#, // misspelt on purpose
        );
        let keys = problem_keys(&odd);
        let expected = ["identityProvider.callbckPort", "identityProvider.tokenEndpoint"]; // misspelt on purpose
        assert_eq!(keys, expected);
        assert!(odd.identity_provider.is_some_and(|it| it.token_endpoint.is_none()));
    }
}
