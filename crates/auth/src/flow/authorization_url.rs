//! Builds the authorization URL. The caller opens it unchanged and without a shell.

use url::Url;

use crate::registration::OAuthClient;
use crate::scopes::Scopes;

/// The parameters of an authorization request.
#[derive(Debug)]
pub struct AuthorizationRequest<'a> {
    /// The client.
    pub client: &'a OAuthClient,
    /// The redirect URI.
    pub redirect_uri: &'a str,
    /// The state that the response must repeat.
    pub state: &'a str,
    /// The PKCE code challenge.
    pub code_challenge: &'a str,
    /// The requested scopes.
    pub scopes: Option<&'a Scopes>,
    /// The resource identifier of the server (RFC 8707).
    pub resource: Option<&'a str>,
    /// The thumbprint of the key that the code will be bound to.
    pub dpop_jkt: Option<&'a str>,
}

/// The authorization URL. Query parameters of the endpoint are kept, except those that the request sets.
pub fn authorization_url(endpoint: &Url, request: &AuthorizationRequest<'_>) -> Url {
    let scopes = request.scopes.map(Scopes::to_string);
    let wants_offline = request.scopes.is_some_and(|it| it.contains("offline_access"));
    let own_parameters = [
        ("response_type", Some("code")),
        ("client_id", Some(request.client.id.as_str())),
        ("redirect_uri", Some(request.redirect_uri)),
        ("state", Some(request.state)),
        ("code_challenge", Some(request.code_challenge)),
        ("code_challenge_method", Some("S256")),
        ("scope", scopes.as_deref()),
        ("resource", request.resource),
        ("dpop_jkt", request.dpop_jkt),
        // OpenID Connect, section 11: offline access requires `prompt=consent`.
        ("prompt", wants_offline.then_some("consent")),
    ];
    let endpoint_parameters: Vec<(String, String)> = endpoint
        .query_pairs()
        .filter(|(name, _)| !own_parameters.iter().any(|(it, _)| it == name))
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    let mut url = endpoint.clone();
    url.set_fragment(None);
    let parameters = own_parameters.into_iter().filter_map(|(name, value)| Some((name, value?)));
    url.query_pairs_mut().clear().extend_pairs(endpoint_parameters).extend_pairs(parameters);
    url
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registration::{ClientAuthMethod, ClientProvenance};

    fn check(endpoint: &str, scopes: Option<&str>) -> String {
        let client = OAuthClient {
            id: "c&d".to_owned(),
            secret: None,
            method: ClientAuthMethod::None,
            issuer: "https://a.b".to_owned(),
            redirect: None,
            provenance: ClientProvenance::Configured,
        };
        let scopes = scopes.map(Scopes::parse);
        let request = AuthorizationRequest {
            client: &client,
            redirect_uri: "http://127.0.0.1:1/cb",
            state: "st",
            code_challenge: "ch",
            scopes: scopes.as_ref(),
            resource: Some("https://m.c/p"),
            dpop_jkt: None,
        };
        authorization_url(&Url::parse(endpoint).expect("a URL"), &request).into()
    }

    #[test]
    fn the_url_has_each_parameter_once_and_encoded() {
        let parameters = "response_type=code&client_id=c%26d&redirect_uri=http%3A%2F%2F127.0.0.1%3A1%2Fcb\
                    &state=st&code_challenge=ch&code_challenge_method=S256";
        let rest = "resource=https%3A%2F%2Fm.c%2Fp";
        assert_eq!(check("https://a.b/x", None), format!("https://a.b/x?{parameters}&{rest}"));
        assert_eq!(
            check("https://a.b/x?tenant=1&state=evil&client_id=evil#f", Some("r w")),
            format!("https://a.b/x?tenant=1&{parameters}&scope=r+w&{rest}")
        );
        assert_eq!(
            check("https://a.b/x", Some("r offline_access")),
            format!("https://a.b/x?{parameters}&scope=r+offline_access&{rest}&prompt=consent")
        );
    }
}
