//! What tokens are asked for with: each grant as the fields of a form.

use crate::confidential::Secret;
use crate::pkce::Verifier;
use crate::scopes::Scopes;

pub(crate) const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
pub(crate) const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const DEVICE: &str = "urn:ietf:params:oauth:grant-type:device_code";
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";

/// Why tokens should be given to us.
#[derive(Debug, Clone)]
pub enum Grant {
    /// A person signed in and came back with a code.
    Code {
        /// The code.
        code: Secret,
        /// What proves that we asked for it.
        verifier: Verifier,
        /// Where the person came back to.
        redirect: String,
    },
    /// We had some before.
    Refresh(Secret),
    /// We are who we are (RFC 6749, section 4.4).
    ClientCredentials,
    /// Somebody else says so (RFC 7523): a platform about its workload, or an IdP about a person.
    JwtBearer(Secret),
    /// Another token, to be exchanged at an IdP for a grant at `audience` (RFC 8693).
    Exchange {
        /// Who signed in at the IdP.
        identity: Secret,
        /// The issuer at which the grant is for use.
        audience: String,
    },
    /// A person signs in elsewhere (RFC 8628).
    Device(Secret),
    /// No grant but its opposite (RFC 7009), which is asked for in the same way.
    Revocation {
        /// What is given back.
        token: Secret,
        /// What it is.
        hint: &'static str,
    },
}

impl Grant {
    /// Its name, as registrations list it.
    fn name(&self) -> Option<&'static str> {
        match self {
            Grant::Code { .. } => Some("authorization_code"),
            Grant::Refresh(_) => Some("refresh_token"),
            Grant::ClientCredentials => Some("client_credentials"),
            Grant::JwtBearer(_) => Some(JWT_BEARER),
            Grant::Exchange { .. } => Some(EXCHANGE),
            Grant::Device(_) => Some(DEVICE),
            Grant::Revocation { .. } => None,
        }
    }

    /// The secrets in it.
    pub(crate) fn secrets(&self) -> Vec<&str> {
        match self {
            Grant::Code { code, verifier, .. } => vec![code.reveal(), verifier.reveal()],
            Grant::Refresh(secret)
            | Grant::JwtBearer(secret)
            | Grant::Device(secret)
            | Grant::Exchange { identity: secret, .. }
            | Grant::Revocation { token: secret, .. } => vec![secret.reveal()],
            Grant::ClientCredentials => Vec::new(),
        }
    }

    /// The fields of the form that asks for tokens.
    pub fn fields<'a>(
        &'a self,
        scopes: Option<&Scopes>,
        resource: Option<&'a str>,
    ) -> Vec<(&'static str, std::borrow::Cow<'a, str>)> {
        let mut fields = Vec::new();
        fields.extend(self.name().map(|name| ("grant_type", name.into())));
        match self {
            Grant::Code { code, verifier, redirect } => fields.extend([
                ("code", code.reveal().into()),
                ("code_verifier", verifier.reveal().into()),
                ("redirect_uri", redirect.into()),
            ]),
            Grant::Refresh(token) => fields.push(("refresh_token", token.reveal().into())),
            Grant::ClientCredentials => {}
            Grant::JwtBearer(assertion) => fields.push(("assertion", assertion.reveal().into())),
            Grant::Exchange { identity, audience } => fields.extend([
                ("requested_token_type", ID_JAG.into()),
                ("subject_token", identity.reveal().into()),
                ("subject_token_type", ID_TOKEN.into()),
                ("audience", audience.into()),
            ]),
            Grant::Device(code) => fields.push(("device_code", code.reveal().into())),
            Grant::Revocation { token, hint } => fields
                .extend([("token", token.reveal().into()), ("token_type_hint", (*hint).into())]),
        }
        let says_scopes = match self {
            Grant::ClientCredentials | Grant::JwtBearer(_) | Grant::Exchange { .. } => true,
            // The code knows, and a refresh without is for everything that was granted.
            Grant::Code { .. }
            | Grant::Refresh(_)
            | Grant::Device(_)
            | Grant::Revocation { .. } => false,
        };
        if let Some(scopes) = scopes
            && says_scopes
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
    use crate::pkce::at_present;

    fn check(grant: &Grant) -> String {
        let scopes = Scopes::parse("a b");
        let fields = grant.fields(Some(&scopes), Some("https://m.c"));
        let each = fields.iter().map(|(name, value)| match *name {
            "code_verifier" => "code_verifier=…".to_owned(),
            name => format!("{name}={value}"),
        });
        each.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_grant_has_the_fields_that_its_specification_wants() {
        let secret = || Secret::new("s");
        let verifier = at_present(0, Verifier::new);
        let redirect = "http://127.0.0.1/".to_owned();
        for (grant, expected) in [
            (
                Grant::Code { code: secret(), verifier, redirect },
                "grant_type=authorization_code code=s code_verifier=… redirect_uri=http://127.0.0.1/ resource=https://m.c",
            ),
            (
                Grant::Refresh(secret()),
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
                Grant::Exchange { identity: secret(), audience: "https://as".to_owned() },
                "grant_type=urn:ietf:params:oauth:grant-type:token-exchange \
                 requested_token_type=urn:ietf:params:oauth:token-type:id-jag subject_token=s \
                 subject_token_type=urn:ietf:params:oauth:token-type:id_token audience=https://as scope=a b resource=https://m.c",
            ),
            (
                Grant::Device(secret()),
                "grant_type=urn:ietf:params:oauth:grant-type:device_code device_code=s resource=https://m.c",
            ),
        ] {
            assert_eq!(check(&grant), expected);
            assert!(!format!("{grant:?}").contains("\"s\""));
        }
    }
}
