//! Identifies a server by the command it runs or the URL it connects to, because two names may stand for the
//! same server.

use std::fmt;

use serde_json::Value as Json;
use url::Url;

use super::server::ServerSpec;
use super::transport::TransportConfig;
use crate::template::ExpandedText;

/// `stdio:` and the arguments as JSON, or `url:` and the URL. It has no `Debug` output, because arguments and
/// URLs may contain secrets.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Signature(String);

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signature(…)")
    }
}

impl Signature {
    /// Returns the signature of a server; `None` for one inside the embedding program.
    pub fn of(spec: &ServerSpec) -> Option<Signature> {
        if let Some(argv) = argv(&spec.transport) {
            let argv: Json = argv.into();
            return Some(Signature(format!("stdio:{argv}")));
        }
        let url = spec.transport.url()?.to_unresolved_string();
        let url = match Url::parse(&url) {
            Ok(url) => proxied_url(&url).unwrap_or(url).to_string(),
            Err(_) => url,
        };
        Some(Signature(format!("url:{url}")))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns the command and its arguments, if the transport starts a program.
pub fn argv(transport: &TransportConfig<ExpandedText>) -> Option<Vec<String>> {
    match transport {
        TransportConfig::Stdio(stdio) => Some(
            std::iter::once(&stdio.command)
                .chain(&stdio.args)
                .map(ExpandedText::to_unresolved_string)
                .collect(),
        ),
        TransportConfig::Sse(_)
        | TransportConfig::Http(_)
        | TransportConfig::Ws(_)
        | TransportConfig::SseIde(_)
        | TransportConfig::WsIde(_)
        | TransportConfig::Sdk { .. }
        | TransportConfig::ConnectorProxy(_) => None,
    }
}

/// Returns the vendor's URL in the URL of a proxied connector: the value of `mcp_url`.
pub fn proxied_url(url: &Url) -> Option<Url> {
    inner_urls(url).into_iter().next()
}

/// Returns every URL inside a URL, recursively: a rule that denies one of them also denies this URL.
pub fn all_proxied_urls(url: &Url) -> Vec<Url> {
    const MAX_DEPTH: usize = 4;
    let mut found = Vec::new();
    let mut level = vec![url.clone()];
    for _ in 0..MAX_DEPTH {
        level = level.iter().flat_map(inner_urls).collect();
        found.extend(level.iter().cloned());
    }
    found
}

fn inner_urls(url: &Url) -> Vec<Url> {
    url.query_pairs()
        .filter(|(key, _)| key == "mcp_url")
        .filter_map(|(_, inner)| Url::parse(&inner).ok().filter(Url::has_host))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::name::{ReservedNames, ServerName};
    use crate::entry::server::{CommonOptions, ProgramBinding, StartFolder};
    use crate::entry::transport::{RemoteConfig, StdioConfig};

    fn spec(transport: TransportConfig<ExpandedText>) -> ServerSpec {
        let name = ServerName::parse("s", ReservedNames::Refused).expect("a plain name");
        ServerSpec {
            name,
            transport,
            common: CommonOptions::default(),
            base_folder: None,
            start_folder: StartFolder::default(),
            program: ProgramBinding::default(),
        }
    }

    fn remote(url: &str) -> ServerSpec {
        let url = ExpandedText::plain(url);
        spec(TransportConfig::Http(RemoteConfig {
            url,
            headers: Vec::new(),
            headers_helper: None,
            oauth: None,
            tls: None,
        }))
    }

    #[test]
    fn a_program_is_identified_by_its_arguments_not_by_its_environment() {
        let stdio = |env: &[(&str, &str)]| {
            spec(TransportConfig::Stdio(StdioConfig {
                command: ExpandedText::plain("npx"),
                args: vec![ExpandedText::plain("-y"), ExpandedText::plain("a b")],
                env: env.iter().map(|(k, v)| ((*k).to_owned(), ExpandedText::plain(v))).collect(),
                cwd: None,
            }))
        };
        let signature = Signature::of(&stdio(&[])).expect("it has one");
        assert_eq!(signature.as_str(), r#"stdio:["npx","-y","a b"]"#);
        assert_eq!(Some(signature), Signature::of(&stdio(&[("A", "b")])));
    }

    #[test]
    fn a_proxied_url_is_unwrapped_to_the_vendors() {
        let proxied =
            "https://proxy.example/v1?id=7&mcp_url=https%3A%2F%2Fmcp.vendor.example%2Fsse";
        assert_eq!(
            Signature::of(&remote(proxied)),
            Signature::of(&remote("https://mcp.vendor.example/sse"))
        );
        let invalid = "https://proxy.example/v1?mcp_url=nonsense";
        assert_eq!(Signature::of(&remote(invalid)).map(|it| it.0), Some(format!("url:{invalid}")));
    }

    #[test]
    fn spellings_of_one_url_have_one_signature() {
        assert_eq!(
            Signature::of(&remote("HTTPS://H.example:443")),
            Signature::of(&remote("https://h.example/"))
        );
        assert_ne!(
            Signature::of(&remote("https://h.example/a")),
            Signature::of(&remote("https://h.example/A"))
        );
    }
}
