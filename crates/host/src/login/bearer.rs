//! The `Authorization` header with a bearer token that a setting or a file holds. No error contains the token.

use std::collections::{BTreeMap, BTreeSet};

use http::{HeaderMap, HeaderValue, header};
use switchboard_config::template::Template;

use crate::failure::error_chain;
use crate::sources::host_env::HostEnv;
use crate::sources::secrets;

/// The header with the token of a setting. Blocks while a secret is fetched.
pub(super) fn template_header(
    setting: &str,
    token: &Template,
    env: &HostEnv,
) -> Result<HeaderMap, String> {
    let mut unset = BTreeSet::new();
    let variables: BTreeMap<String, String> = env.variables.clone();
    let text = token.expand(&variables.into_iter().collect(), &mut unset);
    if let Some(name) = unset.first() {
        return Err(format!("`{setting}` names {name}, which is not set"));
    }
    let token = secrets::reveal_text(&text, &env.home)
        .map_err(|error| format!("`{setting}`: {}", error_chain(&error)))?;
    bearer_header(setting, token.reveal())
}

/// The header with a token. Line breaks around it do not count.
pub(super) fn bearer_header(setting: &str, token: &str) -> Result<HeaderMap, String> {
    let token = token.trim();
    if token.is_empty() {
        return Err(format!("`{setting}` is empty"));
    }
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| format!("`{setting}` cannot be sent as a header"))?;
    value.set_sensitive(true);
    Ok(HeaderMap::from_iter([(header::AUTHORIZATION, value)]))
}
