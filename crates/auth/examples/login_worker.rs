//! One of several processes that share a login: calls a server repeatedly and stops when a user would have to
//! sign in. For the soak test.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use switchboard_auth::fetch::HttpFetcher;
use switchboard_auth::token_provider::refresher::{Refresher, TrustSettings};
use switchboard_auth::token_provider::{RequiredAction, TokenProvider};
use switchboard_auth::token_store::file_store::{FileTokenStore, StoragePreference};
use switchboard_wire::http::client::{HttpClient, HttpSettings, ProxySettings, Target};
use switchboard_wire::peer::Peer;
use switchboard_wire::transport::streamable_http::StreamableHttpTransport;
use tokio::time::interval;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, server, seconds] = arguments.as_slice() else {
        return Err("usage: login_worker FOLDER SERVER SECONDS".into());
    };
    let network = HttpClient::new(&HttpSettings {
        user_agent: std::process::id().to_string(),
        proxies: ProxySettings::default(),
        extra_ca: Vec::new(),
        identity: None,
        connect_timeout: Duration::from_secs(5),
    })?;
    let (store, _) = FileTokenStore::open(Path::new(folder), StoragePreference::File, None).await?;
    let server = url::Url::parse(server)?;
    let trust = TrustSettings {
        server: server.clone(),
        trusted_urls: vec![],
        proxies: vec![],
        signing_key: None,
    };
    let fetch = Arc::new(HttpFetcher::new(network.clone()));
    let refresher = Refresher::new(Arc::new(store), fetch, trust);
    let provider = Arc::new(TokenProvider::new(refresher.clone(), ""));
    let target = Target::new(server).authorize(provider.clone());
    let connection = Peer::spawn(StreamableHttpTransport::new(network, target));
    let end = Instant::now() + Duration::from_secs(seconds.parse()?);
    let mut pace = interval(Duration::from_millis(50));
    let (mut good, mut bad) = (0, 0);
    while Instant::now() < end {
        pace.tick().await;
        match connection.peer.call("tools/list").await {
            Ok(_) => good += 1,
            Err(_) => bad += 1,
        }
        if let Some(RequiredAction::SignIn { .. }) = provider.required_action() {
            println!("a login is wanted after {good} good calls");
            return Ok(ExitCode::FAILURE);
        }
    }
    refresher.close().await;
    println!("{good} good calls, {bad} bad ones");
    Ok(ExitCode::SUCCESS)
}
