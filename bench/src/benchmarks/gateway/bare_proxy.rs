//! The smallest possible HTTP gateway: hyper on both sides, connections that are reused, and bodies that are not
//! parsed. Runs in a process of its own, with as many threads as `swb` has.

use std::convert::Infallible;
use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

use crate::failure::Failure;

/// The argument that makes this program the proxy.
pub const SUBCOMMAND: &str = "__proxy";

/// The number of threads of `swb`.
const THREADS: usize = 2;

type Sender = Client<HttpConnector, Incoming>;
type BoxError = Box<dyn Error + Send + Sync>;

/// Serves until it is killed; prints its address first. Takes the address of the upstream.
pub fn run(words: &[OsString]) -> Result<(), Failure> {
    let [target] = words else { return Err(Failure::InvalidArguments) };
    let fail = |error: BoxError| Failure::client("bare proxy", error);
    let target: Uri = target.to_string_lossy().parse().map_err(|error| fail(Box::new(error)))?;
    let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    let runtime = runtime.map_err(|error| fail(error.into()))?;
    runtime.block_on(serve(target)).map_err(|error| fail(error.into()))
}

async fn serve(target: Uri) -> io::Result<()> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Sender = Client::builder(TokioExecutor::new()).build(connector);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("http://{}/mcp", listener.local_addr()?);
    io::stdout().flush()?;
    loop {
        let (stream, _) = listener.accept().await?;
        // Ends with its client, or with this process.
        tokio::spawn(serve_connection(stream, client.clone(), target.clone()));
    }
}

async fn serve_connection(stream: TcpStream, client: Sender, target: Uri) {
    let _slower_then = stream.set_nodelay(true);
    let service = service_fn(move |request| forward(client.clone(), target.clone(), request));
    let _it_broke = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

type ProxiedResponse = Response<BoxBody<Bytes, hyper::Error>>;

async fn forward(
    client: Sender,
    target: Uri,
    mut request: Request<Incoming>,
) -> Result<ProxiedResponse, Infallible> {
    let host = target.authority().and_then(|it| HeaderValue::from_str(it.as_str()).ok());
    *request.uri_mut() = target;
    if let Some(host) = host {
        request.headers_mut().insert(header::HOST, host);
    }
    Ok(match client.request(request).await {
        Ok(response) => response.map(BodyExt::boxed),
        Err(_) => {
            let nothing = Empty::new().map_err(|never| match never {}).boxed();
            let mut response = Response::new(nothing);
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            response
        }
    })
}
