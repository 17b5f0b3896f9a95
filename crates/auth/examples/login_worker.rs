//! One of several processes that share a login: calls a server again and again, and stops at the first sign
//! that somebody would have to sign in. For the soak test.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use switchboard_auth::fetch::Online;
use switchboard_auth::keeper::{Keeper, Wanting};
use switchboard_auth::refresh::{Refresher, Trust};
use switchboard_auth::vault::folder::{FolderVault, Wanted};
use switchboard_wire::network::{Network, Proxies, Settings, Target};
use switchboard_wire::peer::Peer;
use switchboard_wire::streamable::HttpLink;
use tokio::time::interval;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, server, seconds] = arguments.as_slice() else {
        return Err("usage: login_worker FOLDER SERVER SECONDS".into());
    };
    let network = Network::new(&Settings {
        user_agent: std::process::id().to_string(),
        proxies: Proxies::default(),
        extra_ca: Vec::new(),
        identity: None,
        connect_timeout: Duration::from_secs(5),
    })?;
    let (vault, _) = FolderVault::open(Path::new(folder), Wanted::File, None).await?;
    let server = url::Url::parse(server)?;
    let trust = Trust { server: server.clone(), typed: vec![], proxies: vec![], key: None };
    let fetch = Arc::new(Online::new(network.clone()));
    let refresher = Refresher::new(Arc::new(vault), fetch, trust);
    let keeper = Arc::new(Keeper::new(refresher.clone(), ""));
    let target = Target::new(server).authorize(keeper.clone());
    let connection = Peer::start(HttpLink::new(network, target));
    let end = Instant::now() + Duration::from_secs(seconds.parse()?);
    let mut pace = interval(Duration::from_millis(50));
    let (mut good, mut bad) = (0, 0);
    while Instant::now() < end {
        pace.tick().await;
        match connection.peer.call("tools/list").await {
            Ok(_) => good += 1,
            Err(_) => bad += 1,
        }
        if let Some(Wanting::Login { .. }) = keeper.wanting() {
            println!("a login is wanted after {good} good calls");
            return Ok(ExitCode::FAILURE);
        }
    }
    refresher.close().await;
    println!("{good} good calls, {bad} bad ones");
    Ok(ExitCode::SUCCESS)
}
