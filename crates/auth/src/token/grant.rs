//! OAuth grants as form fields of a token request.

use crate::crypto::pkce::PkceVerifier;
use crate::scopes::Scopes;
use crate::secret::Secret;

pub(crate) const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
pub(crate) const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";

/// A grant.
#[derive(Debug, Clone)]
pub enum Grant {
    /// The code from a browser login.
    AuthorizationCode {
        /// The authorization code.
        code: Secret,
        /// The PKCE verifier.
        verifier: PkceVerifier,
        /// The redirect URI of the authorization request.
        redirect_uri: String,
    },
    /// A refresh token.
    RefreshToken(Secret),
    /// Client credentials (RFC 6749, section 4.4).
    ClientCredentials,
    /// An assertion (RFC 7523): of a platform about its workload, or of an identity provider about a user.
    JwtBearer(Secret),
    /// A token exchange at an identity provider, for a grant at `audience` (RFC 8693).
    TokenExchange {
        /// The ID token of the user.
        id_token: Secret,
        /// The issuer that will accept the grant.
        audience: String,
    },
    /// The code of a device login (RFC 8628).
    DeviceCode(Secret),
    /// Not a grant: the revocation of a token (RFC 7009), whose request has the same form.
    Revocation {
        /// The token to revoke.
        token: Secret,
        /// The `token_type_hint`.
        hint: &'static str,
    },
}

impl Grant {
    /// The `grant_type`.
    fn grant_type(&self) -> Option<&'static str> {
        match self {
            Grant::AuthorizationCode { .. } => Some("authorization_code"),
            Grant::RefreshToken(_) => Some("refresh_token"),
            Grant::ClientCredentials => Some("client_credentials"),
            Grant::JwtBearer(_) => Some(JWT_BEARER),
            Grant::TokenExchange { .. } => Some(TOKEN_EXCHANGE),
            Grant::DeviceCode(_) => Some(DEVICE_CODE),
            Grant::Revocation { .. } => None,
        }
    }

    /// The secrets that the form contains.
    pub(crate) fn secrets(&self) -> Vec<&str> {
        match self {
            Grant::AuthorizationCode { code, verifier, .. } => {
                vec![code.reveal(), verifier.reveal()]
            }
            Grant::RefreshToken(secret)
            | Grant::JwtBearer(secret)
            | Grant::DeviceCode(secret)
            | Grant::TokenExchange { id_token: secret, .. }
            | Grant::Revocation { token: secret, .. } => vec![secret.reveal()],
            Grant::ClientCredentials => Vec::new(),
        }
    }

    /// The form fields of the request.
    pub fn form_fields<'a>(
        &'a self,
        scopes: Option<&Scopes>,
        resource: Option<&'a str>,
    ) -> Vec<(&'static str, std::borrow::Cow<'a, str>)> {
        let mut fields = Vec::new();
        fields.extend(self.grant_type().map(|name| ("grant_type", name.into())));
        match self {
            Grant::AuthorizationCode { code, verifier, redirect_uri } => fields.extend([
                ("code", code.reveal().into()),
                ("code_verifier", verifier.reveal().into()),
                ("redirect_uri", redirect_uri.into()),
            ]),
            Grant::RefreshToken(token) => fields.push(("refresh_token", token.reveal().into())),
            Grant::ClientCredentials => {}
            Grant::JwtBearer(assertion) => fields.push(("assertion", assertion.reveal().into())),
            Grant::TokenExchange { id_token, audience } => fields.extend([
                ("requested_token_type", ID_JAG.into()),
                ("subject_token", id_token.reveal().into()),
                ("subject_token_type", ID_TOKEN.into()),
                ("audience", audience.into()),
            ]),
            Grant::DeviceCode(code) => fields.push(("device_code", code.reveal().into())),
            Grant::Revocation { token, hint } => fields
                .extend([("token", token.reveal().into()), ("token_type_hint", (*hint).into())]),
        }
        let sends_scope = match self {
            Grant::ClientCredentials | Grant::JwtBearer(_) | Grant::TokenExchange { .. } => true,
            // The code implies the scopes, and a refresh without `scope` keeps all granted ones.
            Grant::AuthorizationCode { .. }
            | Grant::RefreshToken(_)
            | Grant::DeviceCode(_)
            | Grant::Revocation { .. } => false,
        };
        if let Some(scopes) = scopes
            && sends_scope
        {
            fields.push(("scope", scopes.to_string().into()));
        }
        if let Some(resource) = resource {
            fields.push(("resource", resource.into()));
        }
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time_and_random::with_system_random;

    fn check(grant: &Grant) -> String {
        let scopes = Scopes::parse("a b");
        let fields = grant.form_fields(Some(&scopes), Some("https://m.c"));
        let each = fields.iter().map(|(name, value)| match *name {
            "code_verifier" => "code_verifier=…".to_owned(),
            name => format!("{name}={value}"),
        });
        each.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_grant_has_the_fields_of_its_specification() {
        let secret = || Secret::new("s");
        let verifier = with_system_random(0, PkceVerifier::new);
        let redirect = "http://127.0.0.1/".to_owned();
        for (grant, expected) in [
            (
                Grant::AuthorizationCode { code: secret(), verifier, redirect_uri: redirect },
                "grant_type=authorization_code code=s code_verifier=… redirect_uri=http://127.0.0.1/ resource=https://m.c",
            ),
            (
                Grant::RefreshToken(secret()),
                "grant_type=refresh_token refresh_token=s resource=https://m.c",
            ),
            (
                Grant::ClientCredentials,
                "grant_type=client_credentials scope=a b resource=https://m.c",
            ),
            (
                Grant::JwtBearer(secret()),
                "grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer assertion=s scope=a b resource=https://m.c",
            ),
            (
                Grant::TokenExchange { id_token: secret(), audience: "https://as".to_owned() },
                "grant_type=urn:ietf:params:oauth:grant-type:token-exchange \
                 requested_token_type=urn:ietf:params:oauth:token-type:id-jag subject_token=s \
                 subject_token_type=urn:ietf:params:oauth:token-type:id_token audience=https://as scope=a b resource=https://m.c",
            ),
            (
                Grant::DeviceCode(secret()),
                "grant_type=urn:ietf:params:oauth:grant-type:device_code device_code=s resource=https://m.c",
            ),
        ] {
            assert_eq!(check(&grant), expected);
            assert!(!format!("{grant:?}").contains("\"s\""));
        }
    }
}
