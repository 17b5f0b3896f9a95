//! `WWW-Authenticate`: parsing by `auth::challenge`. Every line of the input is one header.

use std::fmt::Write;

use switchboard_auth::challenge::{AuthChallenge, DpopRequirement, RawChallenge, parse};

/// - The number of challenges and parameters is bounded; names are tokens in lower case.
/// - Formatted as the standard requires, they parse to the same value.
/// - Every parameter of an auth requirement comes from a challenge of a supported scheme.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let challenges = parse(text.lines());
    assert!(challenges.len() <= 32, "too many challenges");
    for RawChallenge { scheme, parameters } in &challenges {
        assert!(is_name(scheme), "`{scheme}` is no scheme");
        assert!(parameters.len() <= 64, "too many parameters");
        assert!(parameters.iter().all(|(name, _)| is_name(name)), "a parameter has no name");
    }
    let written = serialize(&challenges);
    assert_eq!(parse([written.as_str()]), challenges, "{written}");

    let demand = AuthChallenge::from_headers(text.lines());
    assert_eq!(demand, AuthChallenge::from_headers([written.as_str()]), "{written}");
    let ours = |it: &&RawChallenge| matches!(it.scheme.as_str(), "bearer" | "dpop");
    let ours: Vec<&RawChallenge> = challenges.iter().filter(ours).collect();
    let says = |name: &str| ours.iter().find_map(|it| it.parameter(name));
    assert_eq!(demand.resource_metadata.as_deref(), says("resource_metadata"));
    assert_eq!(demand.error.is_some(), says("error").is_some());
    let binds = ours.iter().any(|it| it.scheme == "dpop");
    assert_eq!(demand.dpop != DpopRequirement::Unspecified, binds);
}

fn is_name(name: &str) -> bool {
    let is_token = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&byte)
    };
    !name.is_empty() && name.bytes().all(is_token)
}

fn serialize(challenges: &[RawChallenge]) -> String {
    let mut text = String::new();
    for RawChallenge { scheme, parameters } in challenges {
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(scheme);
        for (index, (name, value)) in parameters.iter().enumerate() {
            let before = if index == 0 { " " } else { ", " };
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            write!(text, "{before}{name}=\"{value}\"").expect("a text takes everything");
        }
    }
    text
}
