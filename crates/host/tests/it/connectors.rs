//! An account's connectors: listed, cached, reached with the account's token, and matched by rules on their exposed
//! names.

use std::sync::Arc;

use serde_json::json;
use switchboard::auth::secret::Secret;
use switchboard::config::merge::{MergeInputs, ScopeFilter, resolve};
use switchboard::config::permission::{
    PermissionEffect, PermissionMode, PermissionRules, ToolRule,
};
use switchboard::config::scope::Scope;
use switchboard::config::settings::connector_account::{AccountLogin, ConnectorAccount};
use switchboard::config::source::{Origin, Source};
use switchboard::config::template::{Environment, Template};
use switchboard::connection::Status;
use switchboard::login::ConnectorsError;
use switchboard::permission::ActiveRules;
use switchboard::sources::Paths;
use switchboard::sources::loader::{LoadOptions, SettingSources, load};
use switchboard::sources::{ConnectorList, cached_connectors};
use switchboard::{CallContext, ToolCallError};
use tempfile::TempDir;
use testkit::connector_account::Connector;
use testkit::{ConnectorService, Script, ScriptedServer};

use crate::support::{TestHost, cause, is_connected, remote};

fn started(names: &[&str]) -> ConnectorService {
    let connectors: Vec<Connector> = names.iter().map(|it| Connector::new(it)).collect();
    ConnectorService::start(&connectors, 2).expect("it starts")
}

fn account(url: &str, token: Option<&str>) -> ConnectorAccount {
    let source = Source::file(Scope::User, "settings.json");
    ConnectorAccount {
        api_url: url.to_owned(),
        token: token.map(Template::parse),
        login: AccountLogin::default(),
        proxy_url: None,
        manage_url: None,
        origin: Origin { source, position: None },
    }
}

/// A host that uses an account whose token is in a file.
fn host_with_account(folder: &Arc<TempDir>, url: &str, token: &str) -> TestHost {
    let path = folder.path().join("token");
    std::fs::write(&path, token).expect("written");
    let account = account(url, Some(&format!("${{file:{}}}", path.display())));
    TestHost::in_folder(folder.clone(), |options| options.login.account = Some(account))
}

fn folder() -> Arc<TempDir> {
    Arc::new(tempfile::tempdir().expect("a temp folder"))
}

async fn apply(test_host: &TestHost, listing: &ConnectorList) {
    let layers = vec![listing.layer()];
    test_host.host.apply(&resolve(MergeInputs { layers, ..MergeInputs::default() })).await;
}

fn names(listing: &ConnectorList) -> Vec<&str> {
    listing.connectors.iter().map(|it| it.name.as_str()).collect()
}

#[tokio::test]
async fn connectors_are_listed_in_pages_and_cached_for_offline_starts() {
    let account_server = started(&["Slack", "My Files", "Slack"]);
    let folder = folder();
    let test_host =
        host_with_account(&folder, &account_server.url(), &account_server.bearer_token());
    let listing = test_host.host.connectors().await.expect("a list");
    let expected = ["claude.ai Slack", "claude.ai My Files", "claude.ai Slack 2"];
    assert_eq!((names(&listing), listing.skipped), (expected.to_vec(), 0));
    assert_eq!(listing.stale_reason, None);
    test_host.stop().await;
    let url = account_server.url();
    drop(account_server);
    let test_host = host_with_account(&folder, &url, "whatever");
    let again = test_host.host.connectors().await.expect("what is remembered");
    assert_eq!(names(&again), expected);
    assert!(again.age().as_secs() < 60 && again.listed_at == listing.listed_at);
    assert!(again.stale_reason.as_deref().is_some_and(|it| it.contains("could not be reached")));
    let paths = Paths::in_dir(&folder.path().canonicalize().expect("it is there"));
    assert!(cached_connectors(&paths, &account(&url, None)).is_some());
    // A configuration load alone sees them too.
    let settings = json!({"connectorAccount": {"apiUrl": url}}).to_string();
    std::fs::create_dir_all(&paths.config).expect("a folder");
    std::fs::write(paths.user_settings(), settings).expect("written");
    let loaded = load(&LoadOptions {
        working_folder: folder.path().canonicalize().expect("it is there"),
        paths: paths.clone(),
        environment: Environment::default(),
        dynamic: Vec::new(),
        settings: None,
        rules: PermissionRules::default(),
        setting_sources: SettingSources::default(),
        scope_filter: ScopeFilter::All,
        sdk_entries: switchboard::config::merge::SdkEntries::OfProgramLayers,
        connectors: switchboard::sources::loader::ConnectorUse::Allowed,
        plugins: Vec::new(),
        embedded: Vec::new(),
        fallback: None,
    });
    let servers = loaded.effective.servers.iter().map(|it| (it.name.as_str(), it.scope()));
    let mut seen = expected.map(|it| (it, Scope::Connectors));
    seen.sort_unstable();
    assert_eq!(servers.collect::<Vec<_>>(), seen);
    assert!(cached_connectors(&paths, &account("https://other.example/", None)).is_none());
    test_host.stop().await;
}

#[tokio::test]
async fn a_connector_is_reached_with_the_accounts_token_and_a_newer_one_after_a_rejection() {
    let account_server = started(&["Slack"]);
    let folder = folder();
    let test_host =
        host_with_account(&folder, &account_server.url(), &account_server.bearer_token());
    let listing = test_host.host.connectors().await.expect("a list");
    apply(&test_host, &listing).await;
    assert!(is_connected(&*test_host.view("claude.ai Slack").await));
    let pool = test_host.host.settled_pool().await;
    assert!(pool.find("mcp__claude_ai_Slack__echo").is_some());
    std::fs::write(folder.path().join("token"), account_server.rotate_token()).expect("written");
    test_host
        .call_idempotent("claude.ai Slack", "echo", json!({"text": "a"}))
        .await
        .expect("let in again");
    test_host.stop().await;
}

#[tokio::test]
async fn a_rejected_token_is_reported_and_never_shown() {
    let account_server = started(&["Slack"]);
    let folder = folder();
    let test_host =
        host_with_account(&folder, &account_server.url(), &account_server.bearer_token());
    let listing = test_host.host.connectors().await.expect("a list");
    test_host.stop().await;
    let test_host = host_with_account(&folder, &account_server.url(), "canary");
    let stale = test_host.host.connectors().await.expect("what is remembered");
    let refused = "the token of your connector account is refused";
    assert_eq!(stale.stale_reason.as_deref(), Some(refused));
    apply(&test_host, &listing).await;
    let view = test_host.view("claude.ai Slack").await;
    assert!(matches!(view.status, Status::SessionRefused(_)), "{view:#?}");
    assert!(cause(&view).evidence.iter().any(|it| it.text() == refused), "{view:#?}");
    assert!(!format!("{view:?}{:?}", test_host.host).contains("canary"));
    test_host.stop().await;
}

#[tokio::test]
async fn a_stored_login_is_used_if_the_settings_name_no_token() {
    let account_server = started(&["Slack"]);
    let (url, folder) = (account_server.url(), folder());
    let open = || {
        let account = account(&url, None);
        TestHost::in_folder(folder.clone(), |options| options.login.account = Some(account))
    };
    let test_host = open();
    let error = test_host.host.connectors().await.expect_err("nothing is stored");
    assert!(matches!(error, ConnectorsError::NotSignedIn), "{error:?}");
    let token = Secret::new(account_server.bearer_token());
    test_host.host.store_account_token(token, None).await.expect("stored");
    test_host.stop().await;
    let test_host = open();
    let listing = test_host.host.connectors().await.expect("a list");
    apply(&test_host, &listing).await;
    assert!(is_connected(&*test_host.view("claude.ai Slack").await));
    test_host.stop().await;
}

#[tokio::test]
async fn the_token_is_sent_only_to_the_accounts_origin() {
    let account_server = started(&[]);
    let elsewhere = ScriptedServer::http(Script::both());
    let test_host =
        host_with_account(&folder(), &account_server.url(), &account_server.bearer_token());
    let servers = [("claude.ai Away", remote("connector-proxy", elsewhere.url()))];
    test_host.apply_in(Scope::Connectors, &servers).await;
    assert!(is_connected(&*test_host.view("claude.ai Away").await));
    let requests = elsewhere.requests();
    assert!(!requests.is_empty());
    assert!(requests.iter().all(|it| it.header("authorization").is_none()));
    test_host.stop().await;
    let without_account = TestHost::new();
    let error = without_account.host.connectors().await.expect_err("there is no account");
    assert!(matches!(error, ConnectorsError::NoAccount), "{error:?}");
    without_account.stop().await;
}

#[tokio::test]
async fn a_rule_on_a_connectors_exposed_name_hides_and_denies_it() {
    let server = ScriptedServer::http(Script::both());
    let test_host = TestHost::new();
    let servers = [("claude.ai My  (Mail)", remote("http", server.url()))];
    test_host.apply_in(Scope::Connectors, &servers).await;
    test_host.settled().await;
    let exposed = "mcp__claude_ai_My_Mail__echo";
    assert!(test_host.host.settled_pool().await.find(exposed).is_some());
    let mut rules = PermissionRules::default();
    rules.add_for_session(
        PermissionEffect::Deny,
        ToolRule::parse("mcp__claude_ai_My_Mail").expect("a rule"),
    );
    let mut allowing = PermissionRules::default();
    allowing.add_for_session(PermissionEffect::Allow, ToolRule::parse(exposed).expect("a rule"));
    let context = |rules: &PermissionRules| CallContext {
        rules: ActiveRules::new(rules.clone()),
        mode: PermissionMode::Default,
        ..test_host.permissive_context(test_host.host.watch_pool())
    };
    let call = |context: CallContext| {
        let test_host = &test_host;
        async move { test_host.call_exposed(&context, exposed, json!({"text": "a"})).await }
    };
    assert!(call(context(&allowing)).await.is_ok());
    let refused = call(context(&rules)).await;
    assert!(matches!(refused, Err(ToolCallError::Denied { .. })), "{refused:?}");
    let listed = test_host
        .call_exposed(
            &context(&rules),
            "ListMcpResources",
            json!({"server": "claude.ai My  (Mail)"}),
        )
        .await
        .expect("a result");
    assert!(listed.is_error, "{listed:?}");
    test_host.host.set_rules(rules).await;
    assert!(test_host.host.settled_pool().await.find(exposed).is_none());
    test_host.stop().await;
}
