//! The bearer token of the session that this program runs in, which stands in for a login at the servers of one origin.
//! It is read again when a server refuses it. It is sent to that origin and nowhere else.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use switchboard_auth::secret::Secret;
use switchboard_config::entry::server::{ServerSpec, TransportConfig};
use switchboard_config::template::Template;
use switchboard_wire::http::client::Authorize;
use url::Url;

use crate::login::bearer::{bearer_header, template_header};
use crate::login::dynamic_headers::{
    DynamicHeaders, HeaderSource, HeadersFuture, OriginBound, http_origin,
};
use crate::sources::host_env::HostEnv;
use crate::sources::text_file;
use crate::sources::text_file::{AllowedFiles, FileContent};

/// How long a token is used before it is read again: short, because the service that runs the session renews it at any time.
const TOKEN_TTL: Duration = Duration::from_secs(5);
const MAX_TOKEN_BYTES: usize = 64 * 1024;

/// The token of the session, and the only origin that gets it.
#[derive(Debug, Clone)]
pub struct SessionIngressOptions {
    /// A URL of the origin.
    pub url: Url,
    /// Where the token is.
    pub token: SessionTokenSource,
}

/// Where the token of the session is.
#[derive(Clone)]
pub enum SessionTokenSource {
    /// In a file, which is read again when a server refuses the token.
    File(PathBuf),
    /// It is known.
    Value(Secret),
    /// Where the settings say.
    Setting(Template),
}

impl fmt::Debug for SessionTokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionTokenSource(…)")
    }
}

/// The token of the session.
pub(crate) struct SessionToken {
    authorizer: Arc<OriginBound>,
    headers: Arc<DynamicHeaders>,
}

impl SessionToken {
    pub(crate) fn new(options: &SessionIngressOptions, env: &HostEnv) -> SessionToken {
        let source = SessionSource { token: options.token.clone(), env: env.clone() };
        let headers = Arc::new(DynamicHeaders::new(source, TOKEN_TTL));
        let origins = Arc::from([http_origin(&options.url)]);
        let authorizer = Arc::new(OriginBound { origins, inner: headers.clone() });
        SessionToken { authorizer, headers }
    }

    /// Whether the token stands in for a login at this server: over HTTP or a WebSocket, at the session's origin, and
    /// without credentials in its entry.
    pub(crate) fn is_for(&self, spec: &ServerSpec) -> bool {
        let remote = match &spec.transport {
            TransportConfig::Http(remote) | TransportConfig::Ws(remote) => remote,
            TransportConfig::Sse(_)
            | TransportConfig::ConnectorProxy(_)
            | TransportConfig::Stdio(_)
            | TransportConfig::SseIde(_)
            | TransportConfig::WsIde(_)
            | TransportConfig::Sdk { .. } => return false,
        };
        let has_credentials = remote.headers_helper.is_some()
            || remote.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        // A secret is never part of a URL's host, so the origin is known without fetching any.
        let url = Url::parse(&remote.url.to_unresolved_string());
        !has_credentials && url.is_ok_and(|it| self.authorizer.is_for(&it))
    }

    /// Authorizes the requests to the session's origin.
    pub(crate) fn authorize(&self) -> Arc<dyn Authorize> {
        self.authorizer.clone()
    }

    /// Why there is no token.
    pub(crate) fn last_error(&self) -> Option<String> {
        self.headers.last_error()
    }
}

struct SessionSource {
    token: SessionTokenSource,
    env: HostEnv,
}

impl HeaderSource for SessionSource {
    fn produce(&self) -> HeadersFuture<'_> {
        Box::pin(async move {
            let (token, env) = (self.token.clone(), self.env.clone());
            let reading = tokio::task::spawn_blocking(move || read_token(&token, &env)).await;
            reading.unwrap_or_else(|_| Err("the token could not be read".to_owned()))
        })
    }
}

/// Blocks while a file is read or a secret is fetched.
fn read_token(token: &SessionTokenSource, env: &HostEnv) -> Result<HeaderMap, String> {
    let path = match token {
        SessionTokenSource::Value(token) => {
            return bearer_header("the session's token", token.reveal());
        }
        SessionTokenSource::Setting(token) => {
            return template_header("sessionIngress.token", token, env);
        }
        SessionTokenSource::File(path) => path,
    };
    match text_file::read_text(path, AllowedFiles::RegularOnly) {
        Ok(FileContent::Text(text)) if text.len() <= MAX_TOKEN_BYTES => {
            bearer_header("the session's token file", &text)
        }
        Ok(FileContent::Text(_)) => Err("the session's token file is too large".to_owned()),
        Ok(FileContent::Absent) => Err("the session's token file does not exist".to_owned()),
        Err(why) => Err(format!("the session's token file {why}")),
    }
}
