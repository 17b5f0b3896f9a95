//! A server on the official SDK, without our own code, that passes the official suite. It runs behind the gateway
//! when the suite tests that.
//!
//! `conformance_upstream (--stdio | --http 127.0.0.1:0) [--era both|legacy|modern]`

mod change_notifier;
mod client_input;
mod era;
mod fixture_server;
mod fixtures;
mod interrupted_streams;
mod sealed_state;
mod skills;
mod task_fixtures;
mod tool_fixtures;

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

use era::{SupportedEras, WithoutDiscover, reject_modern_versions};
use fixture_server::FixtureServer;
use interrupted_streams::{InterruptingSessions, SSE_RETRY};

const USAGE: &str =
    "usage: conformance_upstream (--stdio | --http HOST:PORT) [--era both|legacy|modern]";
/// Origins that browsers may connect from.
const ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

enum Transport {
    Stdio,
    Http(String),
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let Some((listen_on, era)) = parse_arguments(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let server = FixtureServer::new(era);
    let ended = match listen_on {
        Transport::Stdio => serve_stdio(server, era).await,
        Transport::Http(address) => serve_http(server, era, &address).await,
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse_arguments(arguments: &[String]) -> Option<(Transport, SupportedEras)> {
    let (mut listen_on, mut era) = (None, SupportedEras::Both);
    let mut remaining = arguments.iter();
    while let Some(argument) = remaining.next() {
        match argument.as_str() {
            "--stdio" => listen_on = Some(Transport::Stdio),
            "--http" => listen_on = Some(Transport::Http(remaining.next()?.clone())),
            "--era" => era = SupportedEras::parse(remaining.next()?)?,
            _ => return None,
        }
    }
    Some((listen_on?, era))
}

async fn serve_stdio(server: FixtureServer, era: SupportedEras) -> Result<(), Box<dyn Error>> {
    match era {
        SupportedEras::Both | SupportedEras::Modern => {
            drop(server.serve(stdio()).await?.waiting().await?)
        }
        SupportedEras::Legacy => {
            drop(WithoutDiscover(server).serve(stdio()).await?.waiting().await?)
        }
    }
    Ok(())
}

async fn serve_http(
    server: FixtureServer,
    era: SupportedEras,
    at: &str,
) -> Result<(), Box<dyn Error>> {
    let mut config = StreamableHttpServerConfig::default()
        .with_sse_retry(Some(SSE_RETRY))
        .with_allowed_origins(ORIGINS)
        .enforce_origin_validation();
    if era == SupportedEras::Modern {
        config =
            config.with_legacy_session_mode(false).with_stateless_protocol_metadata_required(true);
    }
    let sessions = Arc::new(InterruptingSessions::new());
    let service =
        StreamableHttpService::new(move || Ok(server.for_new_connection()), sessions, config);
    let mut router = Router::new().route_service("/mcp", service);
    if era == SupportedEras::Legacy {
        router = router.layer(from_fn(reject_modern_versions));
    }
    let listener = TcpListener::bind(at).await?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}
