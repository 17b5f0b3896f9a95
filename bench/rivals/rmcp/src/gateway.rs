//! A gateway on the official Rust SDK, as one would write it from its documentation: a server in front of a client.
//! `rival-rmcp-gateway http|stdio http|stdio COMMAND…|URL`: how clients come in, and how the server is reached.

use std::env;
use std::error::Error;
use std::sync::Arc;

use axum::Router;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RunningService, ServiceError};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess, stdio};
use rmcp::{ErrorData, Peer, RoleClient, RoleServer, ServerHandler, ServiceExt};
use tokio::net::TcpListener;
use tokio::process::Command;

type Failure = Box<dyn Error + Send + Sync>;

/// Passes on what it is asked. All clients share one connection to the server, as they do with ours.
#[derive(Clone)]
struct Gateway(Peer<RoleClient>);

impl ServerHandler for Gateway {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.0.list_tools(request).await.map_err(failed)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.0.call_tool_once(request).await.map_err(failed)
    }
}

fn failed(error: ServiceError) -> ErrorData {
    match error {
        ServiceError::McpError(error) => error,
        other => ErrorData::internal_error(other.to_string(), None),
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [front, back, target @ ..] = words.as_slice() else {
        return Err("expected: http|stdio http|stdio COMMAND…|URL".into());
    };
    let client = connect(back, target).await?;
    let gateway = Gateway(client.peer().clone());
    if front == "stdio" {
        gateway.serve(stdio()).await?.waiting().await?;
        return Ok(());
    }
    let sessions = Arc::new(LocalSessionManager::default());
    let config = StreamableHttpServerConfig::default();
    let service = StreamableHttpService::new(move || Ok(gateway.clone()), sessions, config);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    println!("http://{address}/mcp");
    axum::serve(listener, Router::new().route_service("/mcp", service)).await?;
    Ok(())
}

async fn connect(
    back: &str,
    target: &[String],
) -> Result<RunningService<RoleClient, ()>, Failure> {
    let (first, rest) = target.split_first().ok_or("nothing to connect to")?;
    if back == "http" {
        return Ok(().serve(StreamableHttpClientTransport::from_uri(first.as_str())).await?);
    }
    let mut command = Command::new(first);
    command.args(rest);
    Ok(().serve(TokioChildProcess::new(command)?).await?)
}
