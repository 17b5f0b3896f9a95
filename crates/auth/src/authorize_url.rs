//! The URL at which a person signs in. It is opened as it is, by no shell.

use url::Url;

use crate::registration::Client;
use crate::scopes::Scopes;

/// What the URL says.
#[derive(Debug)]
pub struct Authorization<'a> {
    /// Who asks.
    pub client: &'a Client,
    /// Where the person is sent back to.
    pub redirect: &'a str,
    /// What the answer must repeat.
    pub state: &'a str,
    /// What is shown of the verifier.
    pub challenge: &'a str,
    /// What is asked for.
    pub scopes: Option<&'a Scopes>,
    /// For which server.
    pub resource: Option<&'a str>,
    /// The thumbprint of the key that the code is to be bound to.
    pub key_thumbprint: Option<&'a str>,
}

/// The URL at this endpoint. What the endpoint's own query says is kept, unless we say it.
pub fn build(endpoint: &Url, authorization: &Authorization<'_>) -> Url {
    let scopes = authorization.scopes.map(Scopes::to_string);
    let wants_offline = authorization.scopes.is_some_and(|it| it.contains("offline_access"));
    let ours = [
        ("response_type", Some("code")),
        ("client_id", Some(authorization.client.id.as_str())),
        ("redirect_uri", Some(authorization.redirect)),
        ("state", Some(authorization.state)),
        ("code_challenge", Some(authorization.challenge)),
        ("code_challenge_method", Some("S256")),
        ("scope", scopes.as_deref()),
        ("resource", authorization.resource),
        ("dpop_jkt", authorization.key_thumbprint),
        // OpenID Connect, section 11: without consent there is no offline access.
        ("prompt", wants_offline.then_some("consent")),
    ];
    let theirs: Vec<(String, String)> = endpoint
        .query_pairs()
        .filter(|(name, _)| !ours.iter().any(|(it, _)| it == name))
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    let mut url = endpoint.clone();
    url.set_fragment(None);
    let said = ours.into_iter().filter_map(|(name, value)| Some((name, value?)));
    url.query_pairs_mut().clear().extend_pairs(theirs).extend_pairs(said);
    url
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registration::{Method, Provenance};

    fn check(endpoint: &str, scopes: Option<&str>) -> String {
        let client = Client {
            id: "c&d".to_owned(),
            secret: None,
            method: Method::None,
            issuer: "https://a.b".to_owned(),
            redirect: None,
            provenance: Provenance::Configured,
        };
        let scopes = scopes.map(Scopes::parse);
        let authorization = Authorization {
            client: &client,
            redirect: "http://127.0.0.1:1/cb",
            state: "st",
            challenge: "ch",
            scopes: scopes.as_ref(),
            resource: Some("https://m.c/p"),
            key_thumbprint: None,
        };
        build(&Url::parse(endpoint).expect("a URL"), &authorization).into()
    }

    #[test]
    fn everything_is_said_once_and_encoded() {
        let said = "response_type=code&client_id=c%26d&redirect_uri=http%3A%2F%2F127.0.0.1%3A1%2Fcb\
                    &state=st&code_challenge=ch&code_challenge_method=S256";
        let rest = "resource=https%3A%2F%2Fm.c%2Fp";
        assert_eq!(check("https://a.b/x", None), format!("https://a.b/x?{said}&{rest}"));
        assert_eq!(
            check("https://a.b/x?tenant=1&state=evil&client_id=evil#f", Some("r w")),
            format!("https://a.b/x?tenant=1&{said}&scope=r+w&{rest}")
        );
        assert_eq!(
            check("https://a.b/x", Some("r offline_access")),
            format!("https://a.b/x?{said}&scope=r+offline_access&{rest}&prompt=consent")
        );
    }
}
