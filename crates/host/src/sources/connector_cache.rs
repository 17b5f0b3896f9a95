//! The connectors of an account: their list, the servers that it defines, and the file that keeps it for starts without
//! a network. Fetching the list is left to `login::connectors`.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use switchboard_config::entry::name::ServerName;
use switchboard_config::entry::server::sha256;
use switchboard_config::file::layer::{FileShape, Layer, Naming};
use switchboard_config::scope::Scope;
use switchboard_config::settings::connector_account::ConnectorAccount;
use switchboard_config::source::Source;
use url::Url;

use crate::sources::paths::Paths;
use crate::sources::text_file;
use crate::sources::text_file::{AllowedFiles, FileContent};

/// The prefix of every connector's name.
const PREFIX: &str = "claude.ai ";
/// The maximum number of connectors in a list.
pub(crate) const MAX_CONNECTORS: usize = 500;
const MAX_NAME_CHARS: usize = 80;
const MAX_URL_BYTES: usize = 4096;
const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// A connector as the account lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connector {
    /// The account's id for it.
    pub id: String,
    /// The name of its server here.
    pub name: String,
    /// Its URL at the account's proxy.
    pub url: String,
}

/// The connectors of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectorList {
    /// The connectors that can be used.
    pub connectors: Vec<Connector>,
    /// How many listed connectors cannot be used.
    pub skipped: usize,
    /// When the account listed them, in seconds since 1970.
    pub listed_at: u64,
    /// Why this is a cached list, where it is one.
    pub stale_reason: Option<String>,
}

/// The content of the cache file.
#[derive(Serialize, Deserialize)]
struct CachedConnectors {
    at: u64,
    connectors: Vec<Connector>,
}

/// A connector as the API writes it.
#[derive(Deserialize)]
pub(crate) struct ApiConnector {
    #[serde(default)]
    id: String,
    name: String,
    url: String,
}

impl ConnectorList {
    /// The time since the account listed them.
    pub fn age(&self) -> Duration {
        Duration::from_secs(unix_now().saturating_sub(self.listed_at))
    }

    /// A configuration layer with one server for each connector.
    pub fn layer(&self) -> Layer {
        let entry = |it: &Connector| {
            // `$$` is a literal `$`: an account's URL must not expand variables or secrets of this machine.
            let url = it.url.replace('$', "$$");
            (it.name.clone(), json!({"type": "connector-proxy", "url": url}))
        };
        let servers: serde_json::Map<String, Json> = self.connectors.iter().map(entry).collect();
        let text = json!({"mcpServers": servers}).to_string();
        let name = match self.age().as_secs() {
            0..HOUR => "your connector account".to_owned(),
            age @ HOUR..DAY => format!("your connector account (listed {} h ago)", age / HOUR),
            age => format!("your connector account (listed {} days ago)", age / DAY),
        };
        let source = Source::program(Scope::Connectors, &name);
        Layer::read(&source, &text, Naming::Plain, FileShape::Wrapped)
    }

    /// The same list, marked as cached for this reason.
    pub(crate) fn with_stale_reason(mut self, reason: String) -> ConnectorList {
        self.stale_reason = Some(reason);
        self
    }

    /// The text of the cache file.
    pub(crate) fn to_cache_text(&self) -> Option<String> {
        let cached = CachedConnectors { at: self.listed_at, connectors: self.connectors.clone() };
        serde_json::to_string(&cached).ok().map(|text| text + "\n")
    }
}

/// The cached list of an account; `None` where there is none. Reads a file; blocks.
pub fn cached_connectors(paths: &Paths, account: &ConnectorAccount) -> Option<ConnectorList> {
    let Ok(FileContent::Text(text)) =
        text_file::read_text(&cache_path(paths, account), AllowedFiles::RegularOnly)
    else {
        return None;
    };
    let CachedConnectors { at, connectors } = serde_json::from_str(&text).ok()?;
    let origin = Url::parse(&account.api_url).ok()?.origin();
    let listed =
        connectors.into_iter().map(|it| ApiConnector { id: it.id, name: it.name, url: it.url });
    let (connectors, skipped) = usable_connectors(listed, &origin);
    Some(ConnectorList { connectors, skipped, listed_at: at, stale_reason: None })
}

/// The cache file of an account.
pub(crate) fn cache_path(paths: &Paths, account: &ConnectorAccount) -> PathBuf {
    let key = sha256(account.api_url.as_bytes());
    paths.connectors().join(format!("{}.json", &key[..32]))
}

/// The connectors at `origin`, each under a unique name, and the number of those that cannot be used.
pub(crate) fn usable_connectors(
    listed: impl Iterator<Item = ApiConnector>,
    origin: &url::Origin,
) -> (Vec<Connector>, usize) {
    let (mut usable, mut skipped) = (Vec::<Connector>::new(), 0);
    for ApiConnector { id, name, url } in listed {
        let is_same_origin = url.len() <= MAX_URL_BYTES
            && Url::parse(&url).is_ok_and(|it| it.origin() == *origin && it.username().is_empty());
        let is_taken = |name: &str| usable.iter().any(|it| it.name == name);
        let name = server_name(&name, is_taken);
        match name.filter(|_| is_same_origin && usable.len() < MAX_CONNECTORS) {
            Some(name) => {
                let id = id.chars().filter(|c| !c.is_control()).take(MAX_NAME_CHARS).collect();
                usable.push(Connector { id, name, url });
            }
            None => skipped += 1,
        }
    }
    (usable, skipped)
}

/// The name of the server for a connector with this display name; `None` where no valid name can be made.
fn server_name(display_name: &str, is_taken: impl Fn(&str) -> bool) -> Option<String> {
    let display_name = display_name.strip_prefix(PREFIX).unwrap_or(display_name);
    let plain = |c: char| if c.is_control() || c == ':' { ' ' } else { c };
    let clean: String = display_name.chars().map(plain).take(MAX_NAME_CHARS).collect();
    let mut clean = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    while clean.contains("__") {
        clean = clean.replace("__", "_");
    }
    let is_readable = clean.chars().any(char::is_alphanumeric);
    let numbered = (2..=MAX_CONNECTORS).map(|number| format!("{PREFIX}{clean} {number}"));
    let mut names = std::iter::once(format!("{PREFIX}{clean}")).chain(numbered);
    let name = names.find(|name| !is_taken(name)).filter(|_| is_readable)?;
    ServerName::for_connector(&name).ok().map(|it| it.as_str().to_owned())
}

/// The current time, in seconds since 1970.
pub(crate) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::sources::secrets;

    fn check(connectors_listed: &[(&str, &str)]) -> (Vec<String>, usize) {
        let origin = Url::parse("https://api.example/v1").expect("a URL").origin();
        let one = |(name, url): &(&str, &str)| {
            let (name, url) = ((*name).to_owned(), (*url).to_owned());
            ApiConnector { id: String::new(), name, url }
        };
        let (connectors, skipped) = usable_connectors(connectors_listed.iter().map(one), &origin);
        (connectors.into_iter().map(|it| it.name).collect(), skipped)
    }

    #[test]
    fn names_are_made_fit_and_unique_and_other_origins_are_left_out() {
        let home = "https://api.example/p?mcp_url=x";
        let (names, skipped) = check(&[
            ("Slack", home),
            ("claude.ai Slack", home),
            ("a\u{1b}:b__ _c ", home),
            ("\n", home),
            ("Away", "https://elsewhere.example/p"),
            ("Other port", "https://api.example:8443/p"),
            ("User", "https://me@api.example/p"),
        ]);
        assert_eq!(names, ["claude.ai Slack", "claude.ai Slack 2", "claude.ai a b_ _c"]);
        assert_eq!(skipped, 4);
    }

    #[test]
    fn the_age_of_a_list_is_shown_where_it_has_one() {
        let source = |age: u64| {
            let at = unix_now() - age;
            let listing = ConnectorList {
                connectors: Vec::new(),
                skipped: 0,
                listed_at: at,
                stale_reason: None,
            };
            listing.layer().source.to_string()
        };
        assert_eq!(source(60), "your connector account");
        assert_eq!(source(2 * HOUR + 5), "your connector account (listed 2 h ago)");
        assert_eq!(source(3 * DAY + 5), "your connector account (listed 3 days ago)");
    }

    #[test]
    fn an_account_names_no_variable_and_no_secret_of_this_machine() {
        let url = "https://api.example/p?a=${HOME}&b=${command:id}".to_owned();
        let (id, name) = (String::new(), "claude.ai X".to_owned());
        let connectors = vec![Connector { id, name, url: url.clone() }];
        let listing = ConnectorList { connectors, skipped: 0, listed_at: 0, stale_reason: None };
        let layer = listing.layer();
        let entry = layer.definitions[0].entry.clone().expect("a good entry");
        let name = ServerName::for_connector("claude.ai X").expect("a name");
        let variables = BTreeMap::from([("HOME".to_owned(), "canary".to_owned())]);
        let spec = entry.expand(name, &variables.into_iter().collect(), &mut BTreeSet::new());
        let written = spec.transport.url().expect("a URL");
        assert_eq!(secrets::reveal_text(written, "/".as_ref()).expect("plain").reveal(), url);
    }
}
