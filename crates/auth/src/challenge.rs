//! Parses the `WWW-Authenticate` headers of a refused request (RFC 9110, section 11.6.1): several headers,
//! several challenges in one header, or none. `flow` and `token_provider` act on the result.

use crate::scopes::Scopes;

/// Limits for the challenges of one response, and for the parameters of each.
const MAX_CHALLENGES: usize = 32;
const MAX_PARAMETERS: usize = 64;

/// One challenge of a `WWW-Authenticate` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawChallenge {
    /// The scheme in lower case.
    pub scheme: String,
    /// The parameters, with names in lower case.
    pub parameters: Vec<(String, String)>,
}

impl RawChallenge {
    /// The first parameter with this name.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let mut parameters = self.parameters.iter();
        parameters.find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }
}

/// Parses every challenge in these headers, in order. Parts that cannot be parsed are skipped.
pub fn parse<'a>(headers: impl IntoIterator<Item = &'a str>) -> Vec<RawChallenge> {
    let mut challenges = Vec::new();
    for header in headers {
        HeaderParser { rest: header }.parse_into(&mut challenges);
    }
    challenges
}

struct HeaderParser<'a> {
    rest: &'a str,
}

impl<'a> HeaderParser<'a> {
    fn parse_into(&mut self, challenges: &mut Vec<RawChallenge>) {
        let before = challenges.len();
        loop {
            self.skip(|character| character == ',' || character.is_whitespace());
            if self.rest.is_empty() {
                return;
            }
            let name = self.take_token();
            if name.is_empty() {
                // Not a scheme: continue after the next comma.
                self.skip(|character| character != ',');
                continue;
            }
            let has_space = self.rest.starts_with([' ', '\t']);
            let behind = self.rest.trim_start_matches([' ', '\t']);
            let current = challenges.len() > before;
            if current && behind.starts_with('=') {
                self.rest = behind[1..].trim_start_matches([' ', '\t']);
                let value = self.take_value();
                if let (Some(value), Some(last)) = (value, challenges.last_mut())
                    && last.parameters.len() < MAX_PARAMETERS
                {
                    last.parameters.push((name.to_ascii_lowercase(), value));
                }
                continue;
            }
            if challenges.len() == MAX_CHALLENGES {
                return;
            }
            let scheme = name.to_ascii_lowercase();
            challenges.push(RawChallenge { scheme, parameters: Vec::new() });
            if has_space {
                self.skip_token68();
            }
        }
    }

    fn skip(&mut self, is_skipped: impl Fn(char) -> bool) {
        self.rest = self.rest.trim_start_matches(is_skipped);
    }

    fn take_token(&mut self) -> &'a str {
        let end = self.rest.find(|character: char| !is_token(character)).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        token
    }

    /// Takes a parameter value: a token or a quoted string. Some servers omit the quotes around URLs.
    fn take_value(&mut self) -> Option<String> {
        match self.rest.strip_prefix('"') {
            Some(rest) => {
                self.rest = rest;
                Some(self.take_quoted())
            }
            None => {
                let end = self.rest.find([',', ' ', '\t', '"']).unwrap_or(self.rest.len());
                let (value, rest) = self.rest.split_at(end);
                self.rest = rest;
                (!value.is_empty()).then(|| value.to_owned())
            }
        }
    }

    /// Takes the rest of a quoted string, up to the closing quote or the end of the header.
    fn take_quoted(&mut self) -> String {
        let mut text = String::new();
        let mut characters = self.rest.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return text;
                }
                '\\' => text.extend(characters.next().map(|(_, escaped)| escaped)),
                character => text.push(character),
            }
        }
        self.rest = "";
        text
    }

    /// Skips a token68 value such as `abc==` after a scheme; skips nothing where parameters or another scheme
    /// follow.
    fn skip_token68(&mut self) {
        let from = self.rest.trim_start_matches([' ', '\t']);
        let is_of_it =
            |character: char| character.is_ascii_alphanumeric() || "-._~+/".contains(character);
        let behind = from.trim_start_matches(is_of_it);
        let padded = behind.trim_start_matches('=');
        let ends = padded.trim_start_matches([' ', '\t']);
        let is_something = behind.len() < from.len();
        if is_something && (ends.is_empty() || ends.starts_with(',')) {
            self.rest = padded;
        }
    }
}

fn is_token(character: char) -> bool {
    character.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(character)
}

/// The `error` parameter of a challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChallengeErrorCode {
    /// The token is invalid or expired.
    InvalidToken,
    /// The token lacks a scope that the request needs.
    InsufficientScope,
    /// The DPoP proof must contain the server's nonce.
    UseDpopNonce,
    /// Any other code.
    Other,
}

/// Whether a server requires tokens that are bound to a key with DPoP (RFC 9449).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DpopRequirement {
    /// The server says nothing about DPoP.
    #[default]
    Unspecified,
    /// The server accepts DPoP-bound tokens.
    Supported,
    /// The server accepts only DPoP-bound tokens.
    Required,
}

/// The combined challenges of one response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthChallenge {
    /// The URL of the server's metadata, unchecked.
    pub resource_metadata: Option<String>,
    /// The scopes that the server requires.
    pub scopes: Option<Scopes>,
    /// The error code.
    pub error: Option<ChallengeErrorCode>,
    /// Whether tokens must be bound to a key.
    pub dpop: DpopRequirement,
}

impl AuthChallenge {
    /// Combines the challenges in these headers. Without any, the result is the default: log in, and discover
    /// how.
    pub fn from_headers<'a>(headers: impl IntoIterator<Item = &'a str>) -> AuthChallenge {
        let challenges = parse(headers);
        let bearer = challenges.iter().any(|it| it.scheme == "bearer");
        let dpop = challenges.iter().any(|it| it.scheme == "dpop");
        let supported =
            || challenges.iter().filter(|it| it.scheme == "bearer" || it.scheme == "dpop");
        let first = |name: &str| supported().find_map(|it| it.parameter(name));
        AuthChallenge {
            resource_metadata: first("resource_metadata").map(str::to_owned),
            scopes: first("scope").map(Scopes::parse).filter(|scopes| !scopes.is_empty()),
            error: first("error").map(parse_error_code),
            dpop: match (dpop, bearer) {
                (true, true) => DpopRequirement::Supported,
                (true, false) => DpopRequirement::Required,
                (false, _) => DpopRequirement::Unspecified,
            },
        }
    }
}

fn parse_error_code(error: &str) -> ChallengeErrorCode {
    match error {
        "invalid_token" => ChallengeErrorCode::InvalidToken,
        "insufficient_scope" => ChallengeErrorCode::InsufficientScope,
        "use_dpop_nonce" => ChallengeErrorCode::UseDpopNonce,
        _ => ChallengeErrorCode::Other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn describe(headers: &[&str]) -> String {
        let challenges = parse(headers.iter().copied());
        let each = challenges.iter().map(|challenge| {
            let parameters = challenge.parameters.iter();
            let parameters: Vec<_> = parameters.map(|(name, it)| format!("{name}={it}")).collect();
            format!("{}({})", challenge.scheme, parameters.join(";"))
        });
        each.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn challenges_are_parsed() {
        for (headers, expected) in [
            (&[""][..], ""),
            (&["Bearer"], "bearer()"),
            (&["bEaReR realm=\"a\""], "bearer(realm=a)"),
            (&["Bearer realm = \"a\" , Scope=b"], "bearer(realm=a;scope=b)"),
            (&["Basic realm=\"x\", Bearer scope=\"a b\""], "basic(realm=x) bearer(scope=a b)"),
            (&["Basic realm=\"x\"", "Bearer scope=\"a b\""], "basic(realm=x) bearer(scope=a b)"),
            (&["Negotiate, Bearer a=b"], "negotiate() bearer(a=b)"),
            (&["Negotiate abc/+==, Bearer a=b"], "negotiate() bearer(a=b)"),
            (&["NTLM TlRMTVNT"], "ntlm()"),
            (&["Bearer a=\"x, Basic realm=y\", b=c"], "bearer(a=x, Basic realm=y;b=c)"),
            (&["Bearer a=\"q\\\"q\\\\\""], "bearer(a=q\"q\\)"),
            (&["Bearer a=\"never ends"], "bearer(a=never ends)"),
            (&["Bearer a=\"ends with \\"], "bearer(a=ends with )"),
            (
                &["Bearer resource_metadata=https://a.b/c?d=e, x=y"],
                "bearer(resource_metadata=https://a.b/c?d=e;x=y)",
            ),
            (&[",,, ,Bearer ,, a=b,,"], "bearer(a=b)"),
            (&["=x, Bearer a=b"], "bearer(a=b)"),
            (&["Bearer a="], "bearer()"),
            (&["(?), Bearer a=b"], "bearer(a=b)"),
            (
                &["DPoP algs=\"ES256\", error=\"use_dpop_nonce\""],
                "dpop(algs=ES256;error=use_dpop_nonce)",
            ),
        ] {
            assert_eq!(describe(headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn other_schemes_are_ignored() {
        let challenge = AuthChallenge::from_headers([
            "Basic realm=\"x\", scope=\"wrong\"",
            "Bearer error=\"insufficient_scope\", scope=\"files:read  files:write\", resource_metadata=\"https://a.b/prm\"",
        ]);
        assert_eq!(challenge.scopes, Some(Scopes::parse("files:read files:write")));
        assert_eq!(challenge.resource_metadata.as_deref(), Some("https://a.b/prm"));
        assert_eq!(challenge.error, Some(ChallengeErrorCode::InsufficientScope));
        assert_eq!(challenge.dpop, DpopRequirement::Unspecified);
    }

    #[test]
    fn without_a_challenge_the_default_is_returned() {
        for headers in
            [&[][..], &[""], &["Basic realm=\"x\""], &["Bearer"], &["Bearer scope=\" \""]]
        {
            assert_eq!(
                AuthChallenge::from_headers(headers.iter().copied()),
                AuthChallenge::default(),
                "{headers:?}"
            );
        }
    }

    #[test]
    fn bearer_beside_dpop_makes_dpop_optional() {
        assert_eq!(
            AuthChallenge::from_headers(["DPoP algs=\"ES256\""]).dpop,
            DpopRequirement::Required
        );
        assert_eq!(
            AuthChallenge::from_headers(["Bearer, DPoP algs=\"ES256\""]).dpop,
            DpopRequirement::Supported
        );
        let nonce = AuthChallenge::from_headers(["DPoP error=\"use_dpop_nonce\""]);
        assert_eq!(nonce.error, Some(ChallengeErrorCode::UseDpopNonce));
    }

    #[test]
    fn endless_headers_are_bounded() {
        let parameters: Vec<_> = (0..1000).map(|number| format!("p{number}=x")).collect();
        let one = format!("Bearer {}", parameters.join(","));
        assert_eq!(parse([one.as_str()])[0].parameters.len(), MAX_PARAMETERS);
        let many = vec!["Bearer a=b"; 1000].join(",");
        assert_eq!(parse([many.as_str()]).len(), MAX_CHALLENGES);
    }

    proptest! {
        #[test]
        fn no_header_causes_a_panic(header in "[ -~é\"\\\\,=]{0,200}") {
            let _demand = AuthChallenge::from_headers([header.as_str()]);
        }
    }
}
