//! Calls through our own peer. A result stays raw, as it does where it is only passed on, or is decoded.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Deserialize;
use switchboard_wire::message::Payload;
use switchboard_wire::network::{Network, Proxies, Settings, Target};
use switchboard_wire::peer::{Connection, Peer};
use switchboard_wire::process::{self, Keeping, Process, Program, Search};
use switchboard_wire::streamable::HttpLink;
use tokio::runtime::Builder;
use url::Url;

use super::question::{Cost, Question, Transport, share};
use crate::failure::Failure;

/// What becomes of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
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
pub fn run(question: &Question, kept: Kept) -> Result<Cost, Failure> {
    let fail = |error: Failing| Failure::client("switchboard", error);
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| fail(error.into()))?;
    let (connection, process) = runtime.block_on(async {
        let (connection, process) = match question.transport {
            Transport::Stdio => over_stdio(question)?,
            Transport::Http => (over_http(question.address()?)?, None),
        };
        hello(&connection.peer).await.map_err(fail)?;
        Ok::<_, Failure>((connection, process))
    })?;
    let Connection { peer, events, task } = connection;
    let cost = question.measure(|calls| {
        runtime.block_on(async {
            let callers = (0..question.in_flight).map(|number| {
                let calls = share(calls, question.in_flight, number);
                tokio::spawn(some(peer.clone(), question.size, calls, kept))
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
            process.stop(Search::Later).await;
        }
    });
    cost
}

type Failing = Box<dyn std::error::Error + Send + Sync>;

fn over_stdio(question: &Question) -> Result<(Connection, Option<Process>), Failure> {
    let (command, args) = question.target.split_first().ok_or(Failure::Question)?;
    let program =
        Program { command: command.clone(), args: args.to_vec(), env: Vec::new(), cwd: None };
    let started = process::start(&program, &Keeping::default());
    let (link, process) = started.map_err(|error| Failure::client("switchboard", error))?;
    Ok((Peer::start(link), Some(process)))
}

fn over_http(address: &str) -> Result<Connection, Failure> {
    let fail = |error: Failing| Failure::client("switchboard", error);
    let settings = Settings {
        user_agent: "swb-bench".to_owned(),
        proxies: Proxies::default(),
        extra_ca: Vec::new(),
        identity: None,
        connect_timeout: Duration::from_secs(5),
    };
    let network = Network::new(&settings).map_err(|error| fail(error.into()))?;
    let address = Url::parse(address).map_err(|error| fail(error.into()))?;
    Ok(Peer::start(HttpLink::new(network, Target::new(address))))
}

async fn hello(peer: &Peer) -> Result<(), Failing> {
    let params = r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"swb","version":"1"}}"#;
    let params = Payload::from_json(Bytes::from_static(params.as_bytes()));
    peer.call("initialize").params(params).await?;
    peer.notify("notifications/initialized", None).await?;
    Ok(())
}

async fn some(peer: Peer, size: usize, calls: usize, kept: Kept) -> Result<Vec<Duration>, Failing> {
    let mut times = Vec::with_capacity(calls);
    for _ in 0..calls {
        let start = Instant::now();
        let params = format!("{{\"name\":\"echo\",\"arguments\":{{\"size\":{size}}}}}");
        let params = Payload::from_json(Bytes::from(params));
        let result = peer.call("tools/call").params(params).await?;
        match kept {
            Kept::Raw => {
                std::hint::black_box(result.as_bytes());
            }
            Kept::Decoded => {
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
