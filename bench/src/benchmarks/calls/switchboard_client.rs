//! Calls through our own peer. A result stays raw, as it does where it is only passed on, or is decoded.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Deserialize;
use switchboard_wire::http::client::{HttpClient, HttpSettings, ProxySettings, Target};
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::{Peer, SpawnedPeer};
use switchboard_wire::process::child;
use switchboard_wire::process::child::{DescendantSearch, Process, ProcessOptions, Program};
use switchboard_wire::transport::streamable_http::StreamableHttpTransport;
use tokio::runtime::Builder;
use url::Url;

use super::load_request::{CallCost, LoadRequest, Transport, share};
use crate::failure::Failure;

/// What becomes of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultHandling {
    /// It stays as it came.
    Raw,
    /// It is read into types.
    Decoded,
}

#[derive(Deserialize)]
struct CallResult {
    content: Vec<Content>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Content {
    Text { text: String },
}

/// Makes the calls and says what they cost.
pub fn run(question: &LoadRequest, handling: ResultHandling) -> Result<CallCost, Failure> {
    let fail = |error: BoxError| Failure::client("switchboard", error);
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| fail(error.into()))?;
    let (connection, process) = runtime.block_on(async {
        let (connection, process) = match question.transport {
            Transport::Stdio => over_stdio(question)?,
            Transport::Http => (over_http(question.address()?)?, None),
        };
        initialize(&connection.peer).await.map_err(fail)?;
        Ok::<_, Failure>((connection, process))
    })?;
    let SpawnedPeer { peer, events, task } = connection;
    let cost = question.measure(|calls| {
        runtime.block_on(async {
            let callers = (0..question.in_flight).map(|number| {
                let calls = share(calls, question.in_flight, number);
                tokio::spawn(make_calls(peer.clone(), question.size, calls, handling))
            });
            let mut times = Vec::with_capacity(calls);
            for caller in callers.collect::<Vec<_>>() {
                let some = caller.await.map_err(|error| fail(error.into()))?;
                times.extend(some.map_err(fail)?);
            }
            Ok(times)
        })
    });
    drop((peer, events));
    runtime.block_on(async {
        let _statistics = task.await;
        if let Some(process) = process {
            process.stop(DescendantSearch::Deferred).await;
        }
    });
    cost
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

fn over_stdio(question: &LoadRequest) -> Result<(SpawnedPeer, Option<Process>), Failure> {
    let (command, args) = question.target.split_first().ok_or(Failure::InvalidRequest)?;
    let program =
        Program { command: command.clone(), args: args.to_vec(), env: Vec::new(), cwd: None };
    let started = child::spawn(&program, &ProcessOptions::default());
    let (link, process) = started.map_err(|error| Failure::client("switchboard", error))?;
    Ok((Peer::spawn(link), Some(process)))
}

fn over_http(address: &str) -> Result<SpawnedPeer, Failure> {
    let fail = |error: BoxError| Failure::client("switchboard", error);
    let settings = HttpSettings {
        user_agent: "swb-bench".to_owned(),
        proxies: ProxySettings::default(),
        extra_ca: Vec::new(),
        identity: None,
        connect_timeout: Duration::from_secs(5),
    };
    let network = HttpClient::new(&settings).map_err(|error| fail(error.into()))?;
    let address = Url::parse(address).map_err(|error| fail(error.into()))?;
    Ok(Peer::spawn(StreamableHttpTransport::new(network, Target::new(address))))
}

async fn initialize(peer: &Peer) -> Result<(), BoxError> {
    let params = r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"swb","version":"1"}}"#;
    let params = Payload::from_json(Bytes::from_static(params.as_bytes()));
    peer.call("initialize").params(params).await?;
    peer.notify("notifications/initialized", None).await?;
    Ok(())
}

async fn make_calls(
    peer: Peer,
    size: usize,
    calls: usize,
    handling: ResultHandling,
) -> Result<Vec<Duration>, BoxError> {
    let mut times = Vec::with_capacity(calls);
    for _ in 0..calls {
        let start = Instant::now();
        let params = format!("{{\"name\":\"echo\",\"arguments\":{{\"size\":{size}}}}}");
        let params = Payload::from_json(Bytes::from(params));
        let result = peer.call("tools/call").params(params).await?;
        match handling {
            ResultHandling::Raw => {
                std::hint::black_box(result.as_bytes());
            }
            ResultHandling::Decoded => {
                let result: CallResult = result.decode()?;
                for Content::Text { text } in &result.content {
                    std::hint::black_box(text);
                }
            }
        }
        times.push(start.elapsed());
    }
    Ok(times)
}
