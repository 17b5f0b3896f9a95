//! How HTTP clients of a gateway authenticate: tokens from a file, tokens of an issuer, or not at all.

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

/// How often the token file is checked for changes.
const TOKEN_FILE_POLL: Duration = Duration::from_secs(2);

/// How clients authenticate.
#[derive(Debug)]
pub enum ClientAuth {
    /// No authentication.
    Anonymous,
    /// Client certificates only.
    Certificate,
    /// Tokens from a file.
    TokenFile(TokenFile),
    /// JWTs of this issuer.
    OAuth(String),
}

/// The authenticator, and the token file to reload if there is one.
pub fn authenticator(
    invocation: &Invocation,
    client_auth: ClientAuth,
    url: &str,
) -> Result<(Authenticator, Option<Arc<TokenFile>>), Failure> {
    match client_auth {
        ClientAuth::Anonymous => Ok((Authenticator::disabled(), None)),
        ClientAuth::Certificate => Ok((Authenticator::ClientCertificate, None)),
        ClientAuth::TokenFile(file) => {
            let file = Arc::new(file);
            Ok((Authenticator::TokenFile(file.clone()), Some(file)))
        }
        ClientAuth::OAuth(issuer) => {
            let policy = jwt_policy(issuer, url);
            let verifier = JwtVerifier::new(
                policy,
                Arc::new(HttpFetcher::new(network::outbound_network(invocation)?)),
                &[],
            );
            let verifier = verifier
                .map_err(|error| Failure::new(Exit::Usage, &format!("--oauth: {error}")))?;
            Ok((Authenticator::Jwt(Box::new(verifier)), None))
        }
    }
}

fn jwt_policy(issuer: String, url: &str) -> JwtPolicy {
    let (audiences, scopes) = (Vec::new(), Scopes::default());
    JwtPolicy { issuer, resource: url.to_owned(), audiences, scopes }
}

/// Checks the URLs of an issuer and of the gateway.
pub fn check(invocation: &Invocation, client_auth: &ClientAuth, url: &str) -> Result<(), Failure> {
    match client_auth {
        ClientAuth::OAuth(issuer) => {
            let policy = jwt_policy(issuer.clone(), url);
            let fetcher = Arc::new(HttpFetcher::new(network::outbound_network(invocation)?));
            JwtVerifier::new(policy, fetcher, &[])
                .map(drop)
                .map_err(|error| Failure::new(Exit::Usage, &format!("--oauth: {error}")))
        }
        ClientAuth::Anonymous | ClientAuth::Certificate | ClientAuth::TokenFile(_) => Ok(()),
    }
}

/// Reloads the token file when it changes. An invalid file is reported, and the last valid one stays in use.
pub async fn reload_token_file(file: Option<Arc<TokenFile>>) {
    let Some(file) = file else { return std::future::pending().await };
    let mut last_error = String::new();
    loop {
        tokio::time::sleep(TOKEN_FILE_POLL).await;
        let reader = file.clone();
        let refreshed = tokio::task::spawn_blocking(move || reader.reload()).await;
        let now = match refreshed {
            Ok(Err(error)) => format!("{error}"),
            Ok(Ok(_)) | Err(_) => String::new(),
        };
        if now != last_error && !now.is_empty() {
            report::print_stderr(&format!("{now}; the tokens that were read last stay in use\n"));
        }
        last_error = now;
    }
}

/// Reads a token file.
pub fn read_token_file(path: &Path) -> Result<ClientAuth, Failure> {
    TokenFile::open(path).map(ClientAuth::TokenFile).map_err(|error| {
        Failure::new(Exit::Usage, &format!("--token-file: {error}")).caused_by(error.kind)
    })
}
