//! A server that passes the official suite by itself, written on the official SDK and on none of our own code: what
//! stands behind the gateway when the suite tests it.
//!
//! `conformance_upstream (--stdio | --http 127.0.0.1:0) [--era both|legacy|modern]`

mod client_questions;
mod cut_streams;
mod fixture_lists;
mod fixture_server;
mod forced_era;
mod sealed_state;
mod skill_shelf;
mod task_fixtures;
mod tool_fixtures;
mod town_crier;

use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn;
use rmcp::ServiceExt;
use rmcp::transport::stdio;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;

use cut_streams::{COME_BACK, CutStreams};
use fixture_server::FixtureServer;
use forced_era::{Era, Undiscovered, refuse_the_new};

const USAGE: &str =
    "usage: conformance_upstream (--stdio | --http HOST:PORT) [--era both|legacy|modern]";
/// Pages that a browser may have loaded and that may still talk to us.
const ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

enum Way {
    StandardStreams,
    Http(String),
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let Some((way, era)) = parsed(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let server = FixtureServer::new(era);
    let ended = match way {
        Way::StandardStreams => serve_streams(server, era).await,
        Way::Http(address) => serve_http(server, era, &address).await,
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parsed(arguments: &[String]) -> Option<(Way, Era)> {
    let (mut way, mut era) = (None, Era::Both);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--stdio" => way = Some(Way::StandardStreams),
            "--http" => way = Some(Way::Http(words.next()?.clone())),
            "--era" => era = Era::parse(words.next()?)?,
            _ => return None,
        }
    }
    Some((way?, era))
}

async fn serve_streams(server: FixtureServer, era: Era) -> Result<(), Box<dyn Error>> {
    match era {
        Era::Both | Era::Modern => drop(server.serve(stdio()).await?.waiting().await?),
        Era::Legacy => drop(Undiscovered(server).serve(stdio()).await?.waiting().await?),
    }
    Ok(())
}

async fn serve_http(server: FixtureServer, era: Era, at: &str) -> Result<(), Box<dyn Error>> {
    let mut config = StreamableHttpServerConfig::default()
        .with_sse_retry(Some(COME_BACK))
        .with_allowed_origins(ORIGINS)
        .enforce_origin_validation();
    if era == Era::Modern {
        config =
            config.with_legacy_session_mode(false).with_stateless_protocol_metadata_required(true);
    }
    let sessions = Arc::new(CutStreams::new());
    let service = StreamableHttpService::new(move || Ok(server.for_another()), sessions, config);
    let mut router = Router::new().route_service("/mcp", service);
    if era == Era::Legacy {
        router = router.layer(from_fn(refuse_the_new));
    }
    let listener = TcpListener::bind(at).await?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}
