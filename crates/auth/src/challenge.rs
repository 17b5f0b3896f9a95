//! What a server says when it turns a request away: `WWW-Authenticate`, as RFC 9110, section 11.6.1 has it.
//! Several headers, several challenges in one, and none at all. What to do about it is left to `flow` and `keeper`.

use crate::scopes::Scopes;

/// How many challenges of one answer are looked at, and how many parameters of each.
const MAX_CHALLENGES: usize = 32;
const MAX_PARAMETERS: usize = 64;

/// One challenge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawChallenge {
    /// The name of the scheme in lower case.
    pub scheme: String,
    /// Its parameters, names in lower case.
    pub parameters: Vec<(String, String)>,
}

impl RawChallenge {
    /// The first parameter of a name.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let mut parameters = self.parameters.iter();
        parameters.find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }
}

/// Every challenge in these headers, in their order. What cannot be made out is left out.
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
                // Not ours to understand: go on behind the next comma.
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

    /// A value, where it is one: a word or a quoted text. Some servers leave out the quotes around URLs.
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

    /// What is left of a quoted text, up to its quote or the end.
    fn take_quoted(&mut self) -> String {
        let mut text = String::new();
        let mut signs = self.rest.char_indices();
        while let Some((at, character)) = signs.next() {
            match character {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return text;
                }
                '\\' => text.extend(signs.next().map(|(_, escaped)| escaped)),
                character => text.push(character),
            }
        }
        self.rest = "";
        text
    }

    /// Steps over `abc==` behind a scheme; steps over nothing where parameters or another scheme follow.
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

/// What a challenge complains about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChallengeErrorCode {
    /// The token is not good, or is not any more.
    InvalidToken,
    /// The token is good for less than this.
    InsufficientScope,
    /// The proof must hold the server's number.
    UseDpopNonce,
    /// Something else.
    Other,
}

/// Whether a server wants tokens that are bound to a key (RFC 9449).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DpopRequirement {
    /// It says nothing about it.
    #[default]
    Unspecified,
    /// It takes them.
    Supported,
    /// It takes nothing else.
    Required,
}

/// What all challenges of an answer come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthChallenge {
    /// Where the server says that its metadata is. Not checked.
    pub resource_metadata: Option<String>,
    /// The scopes it wants.
    pub scopes: Option<Scopes>,
    /// What was wrong.
    pub error: Option<ChallengeErrorCode>,
    /// Whether tokens are to be bound to a key.
    pub dpop: DpopRequirement,
}

impl AuthChallenge {
    /// What these headers come to. With none it is the empty demand: sign in, and find out how.
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

    fn shown(headers: &[&str]) -> String {
        let challenges = parse(headers.iter().copied());
        let each = challenges.iter().map(|challenge| {
            let parameters = challenge.parameters.iter();
            let parameters: Vec<_> = parameters.map(|(name, it)| format!("{name}={it}")).collect();
            format!("{}({})", challenge.scheme, parameters.join(";"))
        });
        each.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn challenges_are_read_however_they_are_written() {
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
            assert_eq!(shown(headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn a_demand_looks_past_schemes_that_are_not_ours() {
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
    fn no_challenge_is_the_empty_demand() {
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
    fn a_server_that_takes_bearers_too_only_offers_bound_tokens() {
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
        fn no_header_makes_it_stumble(header in "[ -~é\"\\\\,=]{0,200}") {
            let _demand = AuthChallenge::from_headers([header.as_str()]);
        }
    }
}
