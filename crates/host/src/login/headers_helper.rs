//! `headersHelper`: a user's command that prints the headers of a server's requests, as a JSON object of strings.
//! Caching them and reacting to a refusal are left to `dynamic_headers`.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use switchboard_config::entry::server::{ServerSpec, TransportConfig};
use thiserror::Error;
use tokio::time::timeout;
use url::Url;

use crate::login::dynamic_headers::{DynamicHeaders, HeaderSource, HeadersFuture};
use crate::sources::child_env::is_credential;
use crate::sources::desired_server::DesiredServer;
use crate::sources::host_env::HostEnv;
use crate::sources::shell_command::{CommandOutput, ShellCommand};

/// The timeout of the command.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum size of its output.
const MAX_OUTPUT_BYTES: u64 = 64 * 1024;
/// How long its headers are used.
const HEADERS_TTL: Duration = Duration::from_secs(5 * 60);
/// The maximum number of headers.
const MAX_HEADERS: usize = 64;
/// The maximum length of the error line that is shown, in characters.
const MAX_ERROR_CHARS: usize = 200;
/// Values shorter than this are not masked in the error line, because they would mask ordinary words.
const MIN_SECRET_BYTES: usize = 6;

/// A command that prints headers.
struct HeadersHelper {
    command: String,
    /// Names the helper in error messages.
    label: String,
    folder: PathBuf,
    variables: BTreeMap<String, String>,
}

/// Why a command's headers cannot be used. Its output is never part of the text.
#[derive(Debug, Error)]
enum HelperError {
    #[error("it cannot be run: {0}")]
    Run(#[from] io::Error),
    #[error("it took longer than {} seconds", TIMEOUT.as_secs())]
    Timeout,
    #[error("it printed more than {MAX_OUTPUT_BYTES} bytes")]
    OutputTooLarge,
    #[error("it ended with {status}{stderr_line}")]
    Failed { status: ExitStatus, stderr_line: String },
    #[error("it did not print a JSON object of texts (line {line}, column {column})")]
    InvalidOutput { line: usize, column: usize },
    #[error("it printed more than {MAX_HEADERS} headers")]
    TooManyHeaders,
    #[error("what it printed cannot be sent as headers")]
    InvalidHeader,
}

/// The headers of the helper that an entry names; `None` where it names none.
pub(crate) fn for_server(
    desired: &DesiredServer,
    url: &Url,
    env: &HostEnv,
) -> Option<DynamicHeaders> {
    let command = command(&desired.spec)?;
    let mut variables = env.variables.clone();
    for (name, value) in [
        ("SWITCHBOARD_MCP_SERVER_NAME", desired.name()),
        ("SWITCHBOARD_MCP_SERVER_URL", url.as_str()),
    ] {
        variables.insert(name.to_owned(), value.to_owned());
    }
    let helper = HeadersHelper {
        command: command.to_owned(),
        label: format!("`headersHelper` of `{}` (scope {})", desired.name(), desired.scope.id()),
        folder: env.of_server(&desired.spec).working_folder.clone(),
        variables,
    };
    Some(DynamicHeaders::new(helper, HEADERS_TTL))
}

/// The command that an entry names.
pub(crate) fn command(spec: &ServerSpec) -> Option<&str> {
    let helper = match &spec.transport {
        TransportConfig::Http(remote)
        | TransportConfig::Sse(remote)
        | TransportConfig::Ws(remote)
        | TransportConfig::ConnectorProxy(remote) => remote.headers_helper.as_ref(),
        TransportConfig::Stdio(_)
        | TransportConfig::SseIde(_)
        | TransportConfig::WsIde(_)
        | TransportConfig::Sdk { .. } => None,
    };
    helper.map(|it| it.as_str())
}

impl HeaderSource for HeadersHelper {
    fn produce(&self) -> HeadersFuture<'_> {
        Box::pin(async move {
            let output = self.run().await;
            let headers = output.and_then(|output| parse_headers(&output));
            headers.map_err(|error| format!("{}: {error}", self.label))
        })
    }
}

impl HeadersHelper {
    async fn run(&self) -> Result<String, HelperError> {
        let command = ShellCommand {
            command: &self.command,
            input: "",
            folder: &self.folder,
            variables: Some(&self.variables),
            max_bytes: MAX_OUTPUT_BYTES,
        };
        let CommandOutput { status, stdout: output, stderr } =
            timeout(TIMEOUT, command.run()).await.map_err(|_| HelperError::Timeout)??;
        if output.len() as u64 > MAX_OUTPUT_BYTES {
            return Err(HelperError::OutputTooLarge);
        }
        match status.success() {
            true => Ok(output),
            false => {
                Err(HelperError::Failed { status, stderr_line: self.last_error_line(&stderr) })
            }
        }
    }

    /// The last line of standard error, with everything that may be a secret masked.
    fn last_error_line(&self, stderr: &str) -> String {
        let Some(line) = stderr.lines().rev().find(|line| !line.trim().is_empty()) else {
            return String::new();
        };
        let mut text = line.trim().to_owned();
        let credentials = self.variables.iter().filter(|(name, value)| is_credential(name, value));
        let credentials = credentials.filter(|(name, _)| !name.starts_with("SWITCHBOARD_MCP_"));
        let arguments =
            self.command.split(|c: char| c.is_whitespace() || "\"'=".contains(c)).skip(1);
        let mut secrets: Vec<&str> = credentials.map(|(_, value)| value.as_str()).collect();
        secrets.extend(arguments);
        secrets.retain(|it| it.len() >= MIN_SECRET_BYTES);
        // The longest first, because one may be a part of another.
        secrets.sort_by_key(|it| std::cmp::Reverse(it.len()));
        for secret in secrets {
            text = text.replace(secret, "…");
        }
        let shown = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        format!(": {}", shown.take(MAX_ERROR_CHARS).collect::<String>())
    }
}

fn parse_headers(output: &str) -> Result<HeaderMap, HelperError> {
    let object: BTreeMap<String, String> = serde_json::from_str(output).map_err(|error| {
        HelperError::InvalidOutput { line: error.line(), column: error.column() }
    })?;
    if object.len() > MAX_HEADERS {
        return Err(HelperError::TooManyHeaders);
    }
    let mut headers = HeaderMap::new();
    for (name, value) in object {
        // The error shows neither: a command that swaps them prints a secret as a name.
        let name = HeaderName::try_from(name).map_err(|_| HelperError::InvalidHeader)?;
        let mut value = HeaderValue::try_from(value).map_err(|_| HelperError::InvalidHeader)?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn helper(command: &str) -> HeadersHelper {
        let path = std::env::var("PATH").unwrap_or_default();
        let pairs = [("PATH", path.as_str()), ("X_TOKEN", "canary-1"), ("HOME", "homely")];
        let variables = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        HeadersHelper {
            command: command.to_owned(),
            label: "`headersHelper`".to_owned(),
            folder: "/".into(),
            variables: variables.into(),
        }
    }

    #[tokio::test]
    async fn the_command_sees_the_users_environment_and_prints_headers() {
        let headers = helper(r#"printf '{"A": "%s", "B": "2"}' "$X_TOKEN""#).produce().await;
        let headers = headers.expect("headers");
        assert_eq!(
            (&headers["a"], &headers["b"]),
            (&"canary-1".parse().unwrap(), &"2".parse().unwrap())
        );
        assert!(!format!("{headers:?}").contains("canary"));
    }

    #[tokio::test]
    async fn every_failure_is_reported_without_a_secret() {
        for (command, expected) in [
            ("echo no", "it did not print a JSON object of texts (line 1, column 2)"),
            (r#"echo '{"A": 1}'"#, "it did not print a JSON object of texts (line 1, column 7)"),
            (r#"echo '{"canary 1": "x"}'"#, "what it printed cannot be sent as headers"),
            (r#"printf '{"A": "canary\\n1"}'"#, "what it printed cannot be sent as headers"),
            ("yes canary | head -c 70000", "it printed more than 65536 bytes"),
            (
                "echo first >&2; echo \"is $X_TOKEN good at $HOME?\" >&2; exit 3",
                "it ended with exit status: 3: is … good at homely?",
            ),
            (
                "log() { echo \"bad: $1\" >&2; exit 1; }; log canary-two",
                "it ended with exit status: 1: bad: …",
            ),
        ] {
            let error = helper(command).produce().await.expect_err("it fails");
            assert_eq!(error, format!("`headersHelper`: {expected}"), "{command}");
        }
    }
}
