//! The connectors of an account: their list, the servers and rules that it defines, and the file that keeps it for starts
//! without a network. Fetching the list is left to `login::connectors`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use switchboard_config::entry::name::ServerName;
use switchboard_config::entry::server::sha256;
use switchboard_config::file::layer::{FileShape, Layer, Naming};
use switchboard_config::permission::{PermissionEffect, PermissionRules};
use switchboard_config::scope::Scope;
use switchboard_config::settings::connector_account::ConnectorAccount;
use switchboard_config::source::{Origin, Source};
use url::Url;

use crate::sources::paths::Paths;
use crate::sources::text_file;
use crate::sources::text_file::{AllowedFiles, FileContent};

/// The prefix of every connector's name.
const PREFIX: &str = "claude.ai ";
/// The maximum number of connectors in a list.
pub(crate) const MAX_CONNECTORS: usize = 500;
/// The maximum number of tools of one connector with a policy. A connector with more is left out: without its last
/// policies it could do what the organisation forbids.
const MAX_POLICIES: usize = 2_000;
const MAX_NAME_CHARS: usize = 80;
/// No server can have a tool with a longer name.
const MAX_TOOL_BYTES: usize = 4096;
/// The name that stands for every tool of a connector.
const EVERY_TOOL: &str = "*";
const MAX_URL_BYTES: usize = 4096;
const MAX_REASON_CHARS: usize = 300;
/// The path of the list, where the URL of the API has none.
const LIST_PATH: &str = "/v1/mcp_servers";
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
    /// What the account's organisation says about its tools.
    #[serde(default)]
    pub policies: Vec<ToolPolicy>,
}

/// What an organisation says about one tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolPolicy {
    /// The tool's name.
    pub tool: String,
    /// What it says.
    pub policy: OrganisationPolicy,
}

/// What an organisation says about a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OrganisationPolicy {
    /// Every call needs a prompt, in every mode.
    Ask,
    /// It cannot be used.
    Blocked,
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

/// What is known about the account without asking it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountSummary {
    /// The URL of its API.
    pub api_url: String,
    /// When it listed its connectors, in seconds since 1970; `None` if it never did.
    pub listed_at: Option<u64>,
    /// How many connectors it listed.
    pub connectors: usize,
    /// How many of them cannot be used.
    pub skipped: usize,
    /// Why the last request for the list failed, where it did.
    pub failure: Option<ListFailure>,
    /// What disables the connectors, where something does.
    pub disabled_by: Option<Origin>,
}

impl AccountSummary {
    /// The time since something happened, `at` in seconds since 1970.
    pub fn age_of(at: u64) -> Duration {
        Duration::from_secs(unix_now().saturating_sub(at))
    }
}

/// A failed request for the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListFailure {
    /// When it failed, in seconds since 1970.
    pub at: u64,
    /// The kind of failure.
    pub kind: ListFailureKind,
    /// The reason, for people. Untrusted and not escaped.
    pub reason: String,
}

/// The kinds of failed requests for the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ListFailureKind {
    /// The account does not accept its own login or token any more.
    SessionRefused,
    /// No user is signed in.
    NotSignedIn,
    /// The account could not be reached, or did not answer with a list.
    Unavailable,
}

impl ListFailureKind {
    /// The identifier for programs.
    pub fn id(self) -> &'static str {
        match self {
            ListFailureKind::SessionRefused => "session-refused",
            ListFailureKind::NotSignedIn => "not-signed-in",
            ListFailureKind::Unavailable => "unavailable",
        }
    }
}

/// The content of the cache file.
#[derive(Default, Serialize, Deserialize)]
struct CachedAccount {
    /// Zero if the account never listed its connectors.
    at: u64,
    connectors: Vec<Connector>,
    #[serde(default)]
    skipped: usize,
    #[serde(default)]
    failure: Option<ListFailure>,
}

/// A connector as the API writes it.
pub(crate) struct ApiConnector {
    id: String,
    name: String,
    url: String,
    policies: Vec<ToolPolicy>,
}

impl ApiConnector {
    /// Reads what is needed of an item, under any of the names that are known for it; `None` without a name or a URL, or
    /// with more policies than are kept.
    pub(crate) fn read(item: &Json) -> Option<ApiConnector> {
        let text = |names: &[&str]| {
            let texts = names.iter().filter_map(|name| item.get(*name)?.as_str());
            texts.map(str::to_owned).find(|it| !it.is_empty())
        };
        let policies = ["tool_policies", "toolPolicies", "tools"]
            .iter()
            .filter_map(|name| item.get(*name))
            .find(|it| !it.is_null())
            .map(read_policies)
            .unwrap_or_default();
        Some(ApiConnector {
            id: text(&["id", "uuid"]).unwrap_or_default(),
            name: text(&["display_name", "displayName", "name"])?,
            url: text(&["url"])?,
            policies: Some(policies).filter(|it| it.len() <= MAX_POLICIES)?,
        })
    }
}

/// Reads an object of policies by tool, a list of tools with policies, or one policy for every tool.
fn read_policies(policies: &Json) -> Vec<ToolPolicy> {
    let read = |tool: &str, word: &Json| {
        let policy = read_policy(word)?;
        let can_exist = !tool.is_empty() && tool.len() <= MAX_TOOL_BYTES;
        can_exist.then(|| ToolPolicy { tool: tool.to_owned(), policy })
    };
    match policies {
        Json::Object(by_tool) => {
            by_tool.iter().filter_map(|(tool, word)| read(tool, word)).collect()
        }
        Json::Array(tools) => tools
            .iter()
            .filter_map(|tool| {
                let name = ["name", "tool_name", "tool"].iter().find_map(|it| tool.get(*it))?;
                read(name.as_str()?, policy_member(tool)?)
            })
            .collect(),
        Json::String(_) => read(EVERY_TOOL, policies).into_iter().collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) => Vec::new(),
    }
}

fn policy_member(item: &Json) -> Option<&Json> {
    ["policy", "permission"].iter().find_map(|it| item.get(*it))
}

/// What a value says; `None` if it allows. What we do not know may restrict, so it asks.
fn read_policy(value: &Json) -> Option<OrganisationPolicy> {
    let word = match value {
        Json::Null => return None,
        Json::String(word) => word.as_str(),
        Json::Object(_) => match policy_member(value) {
            Some(Json::String(word)) => word.as_str(),
            Some(_) | None => return Some(OrganisationPolicy::Ask),
        },
        Json::Bool(_) | Json::Number(_) | Json::Array(_) => return Some(OrganisationPolicy::Ask),
    };
    match word.to_ascii_lowercase().as_str() {
        "allow" | "allowed" | "always_allow" | "" => None,
        "blocked" | "block" | "deny" | "denied" => Some(OrganisationPolicy::Blocked),
        _ => Some(OrganisationPolicy::Ask),
    }
}

impl ConnectorList {
    /// The time since the account listed them.
    pub fn age(&self) -> Duration {
        AccountSummary::age_of(self.listed_at)
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

    /// The rules of the account's organisation. They count like those of an administrator, and are about the tools of
    /// the account's own connectors only.
    pub fn organisation_rules(&self) -> PermissionRules {
        let source =
            Source::program(Scope::Connectors, "the organisation of your connector account");
        let mut rules = PermissionRules::default();
        for connector in &self.connectors {
            let server = rule_server(&connector.name);
            for ToolPolicy { tool, policy } in &connector.policies {
                let effect = match policy {
                    OrganisationPolicy::Ask => PermissionEffect::Ask,
                    OrganisationPolicy::Blocked => PermissionEffect::Deny,
                };
                // An asterisk stands for any text, and so at least for itself.
                let tool: Vec<String> = tool.split('*').map(rule_text).collect();
                rules.add_of_organisation(effect, (&server, &tool.join(EVERY_TOOL)), &source);
            }
        }
        rules
    }

    /// The same list, marked as cached for this reason.
    pub(crate) fn with_stale_reason(mut self, reason: String) -> ConnectorList {
        self.stale_reason = Some(reason);
        self
    }

    /// The text of the cache file.
    pub(crate) fn to_cache_text(&self) -> Option<String> {
        cache_text(&CachedAccount {
            at: self.listed_at,
            connectors: self.connectors.clone(),
            skipped: self.skipped,
            failure: None,
        })
    }
}

/// Every character that tool names cannot contain is an underscore in rules.
fn rule_text(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.chars().map(|c| if allowed(c) { c } else { '_' }).collect()
}

/// The name of a connector's server in rules: like that of its tools in the pool.
fn rule_server(name: &str) -> String {
    let plain = rule_text(name);
    plain.split('_').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_")
}

fn cache_text(cached: &CachedAccount) -> Option<String> {
    serde_json::to_string(cached).ok().map(|text| text + "\n")
}

/// Reads the cache file of an account; empty where there is none. Blocks.
fn read_cache(paths: &Paths, account: &ConnectorAccount) -> CachedAccount {
    let found = text_file::read_text(&cache_path(paths, account), AllowedFiles::RegularOnly);
    let Ok(FileContent::Text(text)) = found else { return CachedAccount::default() };
    serde_json::from_str(&text).unwrap_or_default()
}

/// The cached list of an account; `None` where there is none. Reads a file; blocks.
pub fn cached_connectors(paths: &Paths, account: &ConnectorAccount) -> Option<ConnectorList> {
    read_account(paths, account).0
}

/// The cached list of an account, and what is known about the account. Reads a file; blocks.
pub(crate) fn read_account(
    paths: &Paths,
    account: &ConnectorAccount,
) -> (Option<ConnectorList>, AccountSummary) {
    let CachedAccount { at, connectors, skipped, failure } = read_cache(paths, account);
    let mut summary = AccountSummary {
        api_url: account.api_url.clone(),
        listed_at: None,
        connectors: 0,
        skipped: 0,
        failure,
        disabled_by: None,
    };
    let Some(sites) = AccountSites::of(account).filter(|_| at > 0) else { return (None, summary) };
    let listed = connectors.into_iter().map(|it| ApiConnector {
        id: it.id,
        name: it.name,
        url: it.url,
        policies: it.policies,
    });
    let (connectors, unusable) = usable_connectors(listed, &sites);
    summary.listed_at = Some(at);
    summary.connectors = connectors.len();
    summary.skipped = skipped.saturating_add(unusable);
    let list =
        ConnectorList { connectors, skipped: summary.skipped, listed_at: at, stale_reason: None };
    (Some(list), summary)
}

/// The text of the cache file after a failed request: the list before, and why there is no newer one. Blocks.
pub(crate) fn text_after_failure(
    paths: &Paths,
    account: &ConnectorAccount,
    (kind, reason): (ListFailureKind, &str),
) -> Option<String> {
    let reason = reason.chars().take(MAX_REASON_CHARS).collect();
    let failure = Some(ListFailure { at: unix_now(), kind, reason });
    cache_text(&CachedAccount { failure, ..read_cache(paths, account) })
}

/// The text of the cache file after a logout: no list.
pub(crate) fn text_after_logout() -> Option<String> {
    let reason = "you are not signed in to your connector account".to_owned();
    let failure = ListFailure { at: unix_now(), kind: ListFailureKind::NotSignedIn, reason };
    cache_text(&CachedAccount { failure: Some(failure), ..CachedAccount::default() })
}

/// The cache file of an account.
pub(crate) fn cache_path(paths: &Paths, account: &ConnectorAccount) -> PathBuf {
    let key = sha256(account.api_url.as_bytes());
    paths.connectors().join(format!("{}.json", &key[..32]))
}

/// Where the connectors of an account are: the only origins that get its token.
pub(crate) struct AccountSites {
    api: Url,
    /// The proxy's URL, with `{id}` for the id of a connector.
    proxy: Option<String>,
    origins: Arc<[url::Origin]>,
}

impl AccountSites {
    /// The sites of an account; `None` if the URL of its API is invalid.
    pub(crate) fn of(account: &ConnectorAccount) -> Option<AccountSites> {
        let mut api = Url::parse(&account.api_url).ok()?;
        if api.path() == "/" {
            api.set_path(LIST_PATH);
        }
        let parsed = |it: &String| Url::parse(&it.replace("{id}", "id")).ok();
        let proxy = account.proxy_url.as_ref().filter(|it| parsed(it).is_some()).cloned();
        let origins = std::iter::once(api.origin())
            .chain(proxy.as_ref().and_then(parsed).map(|it| it.origin()))
            .collect();
        Some(AccountSites { api, proxy, origins })
    }

    /// The URL of the list: that of the API, or the usual path at a URL without one.
    pub(crate) fn api(&self) -> &Url {
        &self.api
    }

    /// The origins that get the account's token.
    pub(crate) fn origins(&self) -> &Arc<[url::Origin]> {
        &self.origins
    }

    /// The URL at which a connector is reached; `None` where that would be at another site.
    fn reachable_url(&self, id: &str, listed: &str) -> Option<String> {
        let url = Url::parse(listed).ok().filter(|it| it.username().is_empty())?;
        if listed.len() > MAX_URL_BYTES || !matches!(url.scheme(), "http" | "https") {
            return None;
        }
        if self.origins.contains(&url.origin()) {
            return Some(listed.to_owned());
        }
        // The URL of a vendor, which the proxy reaches for us.
        let proxy = self.proxy.as_ref().filter(|it| !id.is_empty() || !it.contains("{id}"))?;
        let id: String = url::form_urlencoded::byte_serialize(id.as_bytes()).collect();
        let mut proxied = Url::parse(&proxy.replace("{id}", &id)).ok()?;
        proxied.query_pairs_mut().append_pair("mcp_url", listed);
        self.origins.contains(&proxied.origin()).then(|| proxied.into())
    }
}

/// The connectors that are reached at the account's sites, each under a unique name, and the number of those that cannot
/// be used.
pub(crate) fn usable_connectors(
    listed: impl Iterator<Item = ApiConnector>,
    sites: &AccountSites,
) -> (Vec<Connector>, usize) {
    let (mut usable, mut skipped) = (Vec::<Connector>::new(), 0);
    for ApiConnector { id, name, url, policies } in listed {
        let id: String = id.chars().filter(|c| !c.is_control()).take(MAX_NAME_CHARS).collect();
        let url = sites.reachable_url(&id, &url).filter(|_| usable.len() < MAX_CONNECTORS);
        let is_taken = |name: &str| usable.iter().any(|it| it.name == name);
        let name = server_name(&name, is_taken);
        match (name, url) {
            (Some(name), Some(url)) => usable.push(Connector { id, name, url, policies }),
            (_, _) => skipped += 1,
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

    use switchboard_config::settings::connector_account::AccountLogin;

    use super::*;
    use crate::sources::secrets;

    fn sites(proxy_url: Option<&str>) -> AccountSites {
        let source = Source::program(Scope::User, "a test");
        AccountSites::of(&ConnectorAccount {
            api_url: "https://api.example/v1".to_owned(),
            token: None,
            login: AccountLogin::default(),
            proxy_url: proxy_url.map(str::to_owned),
            manage_url: None,
            origin: Origin { source, position: None },
        })
        .expect("a URL")
    }

    fn listed((id, name, url): &(&str, &str, &str)) -> ApiConnector {
        let item = json!({"id": id, "display_name": name, "url": url, "other": [1]});
        ApiConnector::read(&item).expect("a name and a URL")
    }

    fn list_of(connectors: Vec<Connector>) -> ConnectorList {
        ConnectorList { connectors, skipped: 0, listed_at: 0, stale_reason: None }
    }

    #[test]
    fn names_are_made_fit_and_unique_and_other_origins_are_left_out() {
        let home = "https://api.example/p?mcp_url=x";
        let connectors = [
            ("", "Slack", home),
            ("", "claude.ai Slack", home),
            ("", "a\u{1b}:b__ _c ", home),
            ("", "\n", home),
            ("", "Away", "https://elsewhere.example/p"),
            ("", "Other port", "https://api.example:8443/p"),
            ("", "User", "https://me@api.example/p"),
        ];
        let (connectors, skipped) = usable_connectors(connectors.iter().map(listed), &sites(None));
        let names: Vec<String> = connectors.into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["claude.ai Slack", "claude.ai Slack 2", "claude.ai a b_ _c"]);
        assert_eq!(skipped, 4);
    }

    #[test]
    fn the_url_of_a_vendor_is_reached_through_the_proxy_and_no_id_leads_elsewhere() {
        let sites = sites(Some("https://proxy.example/v1/{id}"));
        let vendor = "https://mcp.vendor.example/a?b=c";
        let url = |id: &str, url: &str| sites.reachable_url(id, url);
        assert_eq!(
            url("x1", vendor).as_deref(),
            Some(
                "https://proxy.example/v1/x1?mcp_url=https%3A%2F%2Fmcp.vendor.example%2Fa%3Fb%3Dc"
            )
        );
        assert_eq!(url("", vendor), None);
        let hostile = url("../../@evil.example/?", vendor).expect("a URL");
        assert!(hostile.starts_with("https://proxy.example/v1/..%2F..%2F%40evil.example%2F%3F?"));
        assert_eq!(url("x1", "file:///etc/passwd"), None);
        let home = "https://api.example/p";
        assert_eq!(url("x1", home).as_deref(), Some(home));
    }

    #[test]
    fn an_item_is_read_leniently() {
        let read = |item: Json| ApiConnector::read(&item).map(|it| (it.id, it.name, it.url));
        let expected = Some(("".to_owned(), "A".to_owned(), "https://a.b/".to_owned()));
        assert_eq!(read(json!({"name": "A", "url": "https://a.b/"})), expected);
        assert_eq!(
            read(json!({"id": 4, "display_name": "A", "name": "B", "url": "https://a.b/"})),
            expected
        );
        for item in
            [json!({"url": "u"}), json!({"name": "A"}), json!({"name": 1, "url": "u"}), json!(3)]
        {
            assert_eq!(read(item), None);
        }
    }

    #[test]
    fn a_policy_is_read_in_both_shapes_and_an_unknown_word_asks() {
        let check = |policies: Json| {
            let read = read_policies(&policies).into_iter();
            read.map(|it| format!("{}: {:?}", it.tool, it.policy)).collect::<Vec<_>>()
        };
        let by_tool = json!({"a": "ask", "b": "blocked", "c": "allow", "d": "sometimes", "e": 4});
        assert_eq!(check(by_tool), ["a: Ask", "b: Blocked", "d: Ask", "e: Ask"]);
        let nested = json!({"a": {"policy": "blocked"}, "b": {"mode": "x"}, "c": null, "d": ["x"], "": "ask"});
        assert_eq!(check(nested), ["a: Blocked", "b: Ask", "d: Ask"]);
        assert_eq!(check(json!({"A": "BLOCKED", "B": "Allow"})), ["A: Blocked"]);
        let listed = json!([{"name": "a", "policy": "ask"}, {"tool_name": "b", "permission": "blocked"}, {"name": "c"}, 3]);
        assert_eq!(check(listed), ["a: Ask", "b: Blocked"]);
        assert_eq!(check(json!("blocked")), ["*: Blocked"]);
        assert_eq!(check(json!("allow")), [""; 0]);
        assert_eq!(check(json!(true)), [""; 0]);
    }

    #[test]
    fn no_policy_of_an_organisation_is_lost() {
        let read = |policies: Json| {
            ApiConnector::read(
                &json!({"name": "A", "url": "https://a.b/", "tool_policies": policies}),
            )
            .map(|it| it.policies.len())
        };
        let many = |count: usize| -> Json {
            (0..count)
                .map(|it| (format!("t{it}"), json!("blocked")))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        assert_eq!(read(many(MAX_POLICIES)), Some(MAX_POLICIES));
        assert_eq!(
            read(many(MAX_POLICIES + 1)),
            None,
            "a connector without its last policies is none"
        );
        assert_eq!(read(json!({"x".repeat(MAX_TOOL_BYTES): "blocked"})), Some(1));
        assert_eq!(read(Json::Null), Some(0));
        let second = json!({"name": "A", "url": "https://a.b/", "tool_policies": null, "tools": [{"name": "a", "policy": "ask"}]});
        assert_eq!(ApiConnector::read(&second).expect("a connector").policies.len(), 1);
    }

    #[test]
    fn an_organisation_rules_only_about_its_own_connectors() {
        let policy = |tool: &str, policy| ToolPolicy { tool: tool.to_owned(), policy };
        let connector = Connector {
            id: String::new(),
            name: "claude.ai My  (Mail)".to_owned(),
            url: String::new(),
            policies: vec![
                policy("send", OrganisationPolicy::Ask),
                policy("mcp__other/*", OrganisationPolicy::Blocked),
                policy("*", OrganisationPolicy::Blocked),
            ],
        };
        let rules = list_of(vec![connector]).organisation_rules();
        let shown: Vec<String> =
            rules.entries().iter().map(|it| format!("{} {}", it.effect, it.rule)).collect();
        assert_eq!(
            shown,
            [
                "ask mcp__claude_ai_My_Mail__send",
                "deny mcp__claude_ai_My_Mail__mcp__other_*",
                "deny mcp__claude_ai_My_Mail__*",
            ]
        );
    }

    #[test]
    fn the_age_of_a_list_is_shown_where_it_has_one() {
        let source = |age: u64| {
            let listing = ConnectorList { listed_at: unix_now() - age, ..list_of(Vec::new()) };
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
        let listing = list_of(vec![Connector { id, name, url: url.clone(), policies: Vec::new() }]);
        let layer = listing.layer();
        let entry = layer.definitions[0].entry.clone().expect("a good entry");
        let name = ServerName::for_connector("claude.ai X").expect("a name");
        let variables = BTreeMap::from([("HOME".to_owned(), "canary".to_owned())]);
        let spec = entry.expand(name, &variables.into_iter().collect(), &mut BTreeSet::new());
        let written = spec.transport.url().expect("a URL");
        assert_eq!(secrets::reveal_text(written, "/".as_ref()).expect("plain").reveal(), url);
    }
}
