//! Who may connect to the gateway over HTTP: tokens of a file, tokens of an issuer, or every client.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use switchboard::auth::fetch::HttpFetcher;
use switchboard::auth::resource_server::{Authenticator, JwtPolicy, JwtVerifier, TokenFile};
use switchboard::auth::scopes::Scopes;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::output::report;
use crate::runtime::network;

/// How often the file of tokens is looked at.
const TOKEN_FILE_POLL: Duration = Duration::from_secs(2);

/// Who may come in.
#[derive(Debug)]
pub enum ClientAuth {
    /// Everybody who can reach us.
    Anonymous,
    /// Those whose tokens are in a file.
    TokenFile(TokenFile),
    /// Those whose tokens an issuer signed.
    OAuth(String),
}

/// Makes the authenticator, and the token file that must be read again when it changes.
pub fn authenticator(
    invocation: &Invocation,
    client_auth: ClientAuth,
    url: &str,
) -> Result<(Authenticator, Option<Arc<TokenFile>>), Failure> {
    match client_auth {
        ClientAuth::Anonymous => Ok((Authenticator::disabled(), None)),
        ClientAuth::TokenFile(list) => {
            let list = Arc::new(list);
            Ok((Authenticator::TokenFile(list.clone()), Some(list)))
        }
        ClientAuth::OAuth(issuer) => {
            let terms = JwtPolicy {
                issuer,
                resource: url.to_owned(),
                audiences: Vec::new(),
                scopes: Scopes::default(),
            };
            let check = JwtVerifier::new(
                terms,
                Arc::new(HttpFetcher::new(network::outbound_network(invocation)?)),
                &[],
            );
            let check =
                check.map_err(|error| Failure::new(Exit::Usage, &format!("--oauth: {error}")))?;
            Ok((Authenticator::Jwt(Box::new(check)), None))
        }
    }
}

/// Reads the file of tokens again when it changed. A broken one is said, and the last good one holds.
pub async fn reload_token_file(list: Option<Arc<TokenFile>>) {
    let Some(list) = list else { return std::future::pending().await };
    let mut last_error = String::new();
    loop {
        tokio::time::sleep(TOKEN_FILE_POLL).await;
        let reading = list.clone();
        let refreshed = tokio::task::spawn_blocking(move || reading.reload()).await;
        let now = match refreshed {
            Ok(Err(error)) => format!("{error}"),
            Ok(Ok(_)) | Err(_) => String::new(),
        };
        if now != last_error && !now.is_empty() {
            report::print_stderr(&format!("{now}; the tokens that were read last still count\n"));
        }
        last_error = now;
    }
}

/// Reads a file of tokens.
pub fn read_token_file(path: &Path) -> Result<ClientAuth, Failure> {
    TokenFile::open(path).map(ClientAuth::TokenFile).map_err(|error| {
        Failure::new(Exit::Usage, &format!("--token-file: {error}")).caused_by(error.kind)
    })
}
