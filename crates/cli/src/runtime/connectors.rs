//! The connectors of an account and the session of this program, as the environment and the settings want them. Refreshes
//! the list beside the work of a run, so that no command waits for an account that does not answer.

use std::path::Path;
use std::time::Duration;

use switchboard::Host;
use switchboard::auth::secret::Secret;
use switchboard::login::{ConnectorsError, SessionIngressOptions, SessionTokenSource};
use switchboard::sources::{AccountSummary, ListFailure, ListFailureKind};
use url::Url;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::output::account_text;

/// The variable with a URL of the origin that gets the session's token.
const SESSION_URL: &str = "SWB_SESSION_URL";
/// The variables with the token of the session, ours first.
const SESSION_TOKENS: [&str; 2] = ["SWB_SESSION_TOKEN", "CLAUDE_CODE_SESSION_ACCESS_TOKEN"];
/// The variables with the path of a file with the token, ours first.
const SESSION_FILES: [&str; 2] = ["SWB_SESSION_TOKEN_FILE", "CLAUDE_SESSION_INGRESS_TOKEN_FILE"];
/// How long the list may take, beside or after the work.
const LIST_TIMEOUT: Duration = Duration::from_secs(3);
/// How old a list is that a short run waits for a newer one.
const STALE_AFTER: Duration = Duration::from_secs(3600);
/// How long no run waits after a request that failed.
const FAILURE_PAUSE: Duration = Duration::from_secs(3600);

/// The token of the session that this program runs in, and its origin; `None` where nothing names the origin.
pub fn session_ingress(invocation: &Invocation) -> Result<Option<SessionIngressOptions>, Failure> {
    let variables = &invocation.env.variables;
    let set = |name: &str| variables.get(name).filter(|it| !it.is_empty()).cloned();
    let setting = invocation.providers().session_ingress.as_ref();
    let url = match (set(SESSION_URL), setting) {
        (Some(text), _) => {
            let url = Url::parse(&text).ok().filter(is_encrypted_or_local);
            let message =
                format!("{SESSION_URL} must be an `https://` URL, or one of this machine");
            url.ok_or_else(|| Failure::new(Exit::Usage, &message))?
        }
        (None, Some(setting)) => match Url::parse(&setting.url) {
            Ok(url) => url,
            Err(_) => return Ok(None),
        },
        (None, None) => return Ok(None),
    };
    let [own_token, other_token] = SESSION_TOKENS.map(set);
    let [own_file, other_file] = SESSION_FILES.map(set);
    let in_file = |path: String| {
        SessionTokenSource::File(invocation.env.working_folder.join(Path::new(&path)))
    };
    let in_setting = setting.and_then(|it| it.token.clone()).map(SessionTokenSource::Setting);
    let token = own_file
        .map(in_file)
        .or_else(|| own_token.map(|it| SessionTokenSource::Value(Secret::new(it))))
        .or(in_setting)
        .or_else(|| other_file.map(in_file))
        .or_else(|| other_token.map(|it| SessionTokenSource::Value(Secret::new(it))));
    Ok(token.map(|token| SessionIngressOptions { url, token }))
}

fn is_encrypted_or_local(url: &Url) -> bool {
    let is_local = matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"));
    match url.scheme() {
        "https" | "wss" => true,
        "http" | "ws" => is_local,
        _ => false,
    }
}

/// How a run refreshes the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectorRefresh {
    /// Not at all: there is no account, or connectors are disabled.
    Skip,
    /// Beside the work, and not longer.
    Beside,
    /// Beside the work and a few seconds longer: there is no list yet, or an old one.
    ToTheEnd,
}

/// How long the run works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunLength {
    /// It runs one command.
    Short,
    /// It stays.
    Long,
}

impl ConnectorRefresh {
    /// The refresh of a run. A run waits only where that is likely to help.
    pub fn plan(invocation: &Invocation, length: RunLength) -> ConnectorRefresh {
        let Some(summary) = &invocation.providers().connectors else {
            return ConnectorRefresh::Skip;
        };
        let is_older = |at: u64, limit: Duration| AccountSummary::age_of(at) > limit;
        let failed_recently =
            summary.failure.as_ref().is_some_and(|it| !is_older(it.at, FAILURE_PAUSE));
        let is_stale = summary.listed_at.is_none_or(|at| is_older(at, STALE_AFTER));
        match length {
            _ if summary.disabled_by.is_some() => ConnectorRefresh::Skip,
            RunLength::Short if is_stale && !failed_recently => ConnectorRefresh::ToTheEnd,
            RunLength::Short | RunLength::Long => ConnectorRefresh::Beside,
        }
    }
}

/// Refreshes the cached list. Returns a warning if that failed for another reason than the last time.
pub async fn refresh(invocation: &Invocation, host: &Host) -> Option<String> {
    let error = host.refresh_connectors(LIST_TIMEOUT).await.err()?;
    let known = invocation.providers().connectors.as_ref()?.failure.as_ref();
    let is_known = match &error {
        ConnectorsError::NoAccount => true,
        ConnectorsError::NotSignedIn => is_kind(known, ListFailureKind::NotSignedIn),
        ConnectorsError::TokenRefused => is_kind(known, ListFailureKind::SessionRefused),
        ConnectorsError::Token(_)
        | ConnectorsError::TokenUnavailable(_)
        | ConnectorsError::Fetch(_)
        | ConnectorsError::Timeout(_)
        | ConnectorsError::InvalidResponse(_) => is_kind(known, ListFailureKind::Unavailable),
    };
    (!is_known).then(|| account_text::refresh_warning(invocation.known_account(), &error))
}

fn is_kind(known: Option<&ListFailure>, kind: ListFailureKind) -> bool {
    known.is_some_and(|it| it.kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_encrypted_and_local_urls_get_the_sessions_token() {
        let check = |url: &str| is_encrypted_or_local(&Url::parse(url).expect("a URL"));
        for url in ["https://a.example/", "wss://a.example/", "http://127.0.0.1:1/", "ws://[::1]/"]
        {
            assert!(check(url), "{url}");
        }
        for url in ["http://a.example/", "ws://a.example/", "ftp://127.0.0.1/"] {
            assert!(!check(url), "{url}");
        }
    }
}
