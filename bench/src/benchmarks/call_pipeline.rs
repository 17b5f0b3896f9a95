//! The cost of a call through the host (resolve, validate, permit, truncate, record), next to the same call over a
//! client alone. The server is in this process, so that nothing else takes time.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use switchboard::config::permission::{PermissionEffect, PermissionRules, ToolRule};
use switchboard::connection::{InProcessServer, RetryPolicy};
use switchboard::permission::ActiveRules;
use switchboard::request::RequestOptions;
use switchboard::sources::{Paths, loader};
use switchboard::wire::client::Client;
use switchboard::wire::client::handshake::EraHint;
use switchboard::wire::connect;
use switchboard::wire::connect::{Address, ConnectOptions, Connection};
use switchboard::wire::process::child::ProcessOptions;
use switchboard::wire::protocol::capabilities::ClientDescription;
use switchboard::{CallContext, Host, HostEnv, HostOptions, ToolCall};
use switchboard_wire::jsonrpc::message::{Payload, RpcError};
use switchboard_wire::peer::{Peer, PeerEvent, SpawnedPeer};
use switchboard_wire::transport::in_memory::InMemoryTransport;
use tokio::runtime::Builder;
use tokio::task::JoinHandle;

use crate::effort;
use crate::failure::Failure;
use crate::output::plot::{Lines, Role, Series, Tick};
use crate::output::report::Picture;
use crate::output::table;
use crate::workspace::Workspace;

const REPETITIONS: usize = 7;
const CALLS: u32 = 20_000;
const BUDGET: Duration = Duration::from_micros(5);
/// The timeout of every wait.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// The numbers of rules with which a call is measured.
const RULE_COUNTS: [usize; 4] = [2, 10, 100, 1_000];

/// The cost of a call through the host.
pub struct PipelineCost {
    /// The section of the report, in Markdown.
    pub text: String,
    /// The plot of the cost by number of rules.
    pub picture: Picture,
    /// The row of the budget.
    pub budget: Vec<String>,
}

/// Runs the benchmark.
pub fn measure(workspace: &Workspace) -> Result<PipelineCost, Failure> {
    let failed = |error: io::Error| Failure::file(&workspace.report_path("pool.md"), error);
    let folder = tempfile::tempdir().map_err(failed)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let (mut raw, mut through) = (Vec::new(), Vec::new());
    runtime.block_on(async {
        let in_process_host = InProcessHost::open(folder.path(), 2).await.map_err(failed)?;
        let line = connect_client().await;
        for _ in 0..effort::repetitions(REPETITIONS) {
            raw.push(time_client_calls(&line.client).await);
            through.push(time_host_calls(&in_process_host).await);
        }
        in_process_host.close().await;
        Ok::<(), Failure>(())
    })?;
    let growth = runtime.block_on(times_by_rule_count()).map_err(failed)?;
    Ok(report(median(raw), median(through), &growth))
}

/// The time of a call for each of `RULE_COUNTS`. All take turns.
async fn times_by_rule_count() -> io::Result<Vec<Duration>> {
    let mut hosts = Vec::new();
    for count in RULE_COUNTS {
        let folder = tempfile::tempdir()?;
        hosts.push((InProcessHost::open(folder.path(), count).await?, folder, Vec::new()));
    }
    for _ in 0..effort::repetitions(REPETITIONS) {
        for (in_process_host, _, times) in &mut hosts {
            times.push(time_host_calls(in_process_host).await);
        }
    }
    let mut medians = Vec::new();
    for (in_process_host, _folder, times) in hosts {
        in_process_host.close().await;
        medians.push(median(times));
    }
    Ok(medians)
}

/// A host with an in-process server.
pub struct InProcessHost {
    /// The host.
    pub host: Host,
    /// The context of its calls.
    pub context: CallContext,
    task: JoinHandle<()>,
}

impl InProcessHost {
    /// A host in this folder with this number of rules.
    pub async fn open(folder: &Path, count: usize) -> io::Result<InProcessHost> {
        let (host, task) = Host::start(options(folder))?;
        let places = Paths::in_dir(folder);
        let context = CallContext {
            rules: ActiveRules::new(rules(count)),
            ..CallContext::new(host.watch_pool(), &places)?
        };
        connect(&host).await;
        Ok(InProcessHost { host, context, task })
    }

    /// Makes one call through the whole pipeline.
    pub async fn call(&self) {
        let call = ToolCall {
            caller: "bench".to_owned(),
            call_id: None,
            exposed_name: "mcp__linked__echo".to_owned(),
            arguments: arguments(),
            options: RequestOptions::new(TIMEOUT),
        };
        let output = self.host.call_with(&self.context, call).await.expect("it answers");
        assert_eq!(output.blocks.len(), 1);
    }

    /// Shuts the host down.
    pub async fn close(self) {
        self.host.shutdown().await;
        drop(self.host);
        let _panicked = self.task.await;
    }
}

/// An in-process server with one tool.
async fn serve_in_memory(link: InMemoryTransport) {
    serve(Peer::spawn(link)).await;
}

async fn serve(mut connection: SpawnedPeer) {
    while let Some(event) = connection.events.recv().await {
        let PeerEvent::Request(request) = event else { continue };
        match answer(&request.method, request.params.as_ref()) {
            Some(answer) => request.respond(answer).await,
            None => {
                let (code, message) = (-32601, "there is no such method".to_owned());
                request.reject(RpcError { code, message, data: None }).await;
            }
        }
    }
}

fn answer(method: &str, params: Option<&Payload>) -> Option<Payload> {
    let asked = || params.and_then(|it| it.decode::<Json>().ok()).unwrap_or_default();
    let text = "x".repeat(60);
    let answer = match method {
        "initialize" => json!({
            "protocolVersion": asked()["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "linked", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{
            "name": "echo",
            "inputSchema": {
                "type": "object",
                "properties": {"text": {"type": "string"}},
                "required": ["text"],
            },
        }]}),
        "tools/call" => json!({"content": [{"type": "text", "text": text}]}),
        _ => return None,
    };
    Payload::encode(&answer).ok()
}

fn options(folder: &Path) -> HostOptions {
    let host_env = HostEnv { working_folder: folder.to_owned(), ..HostEnv::default() };
    let mut options = HostOptions::new(Paths::in_dir(folder), host_env);
    options.retry_policy = RetryPolicy::NoRetry;
    options.in_process.insert("linked".to_owned(), InProcessServer::new(serve_in_memory));
    options
}

async fn connect(host: &Host) {
    let servers = r#"{"mcpServers": {"linked": {"type": "sdk", "name": "linked"}}}"#;
    host.apply(&loader::from_program("bench", servers)).await;
    host.settled().await;
    let pool = host.settled_pool().await;
    assert!(pool.find("mcp__linked__echo").is_some(), "{:?}", host.snapshot());
}

/// This number of rules, the last of which allows the server. The others match other servers by name and pattern.
pub fn rules(count: usize) -> PermissionRules {
    let mut rules = PermissionRules::default();
    let mut add = |effect, rule: &str| {
        rules.add_for_session(effect, ToolRule::parse(rule).expect("a rule"));
    };
    for at in 1..count {
        match at % 4 {
            0 => add(PermissionEffect::Allow, &format!("mcp__server{at}")),
            1 => add(PermissionEffect::Deny, &format!("mcp__server{at}__delete")),
            2 => add(PermissionEffect::Ask, &format!("mcp__server{at}__write_*")),
            _ => add(PermissionEffect::Allow, &format!("mcp__server{at}__list_things")),
        }
    }
    add(PermissionEffect::Allow, "mcp__linked");
    rules
}

/// A client of the same server, without a host.
async fn connect_client() -> Connection {
    let client_info = ClientDescription {
        legacy_capabilities: None,
        name: "swb-bench".to_owned(),
        title: "bench".to_owned(),
        version: "1".to_owned(),
        capabilities: Vec::new(),
    };
    let keeping = ProcessOptions::default();
    let connect_options = ConnectOptions {
        client: client_info,
        era_hint: EraHint::Legacy,
        timeout: TIMEOUT,
        process_options: keeping,
        http_client: None,
    };
    connect::connect(
        &Address::InProcess(Arc::new(|link| Box::pin(serve_in_memory(link)))),
        &connect_options,
    )
    .await
    .expect("it is in this process")
}

/// The arguments of every call.
pub fn arguments() -> Json {
    json!({"text": "x".repeat(60)})
}

async fn time_client_calls(client: &Client) -> Duration {
    let start = Instant::now();
    for _ in 0..CALLS {
        let params = json!({"name": "echo", "arguments": arguments()});
        let params = Payload::encode(&params).expect("JSON");
        let request = client.request("tools/call").params(params).progress_timeout(TIMEOUT);
        request.send().await.expect("it answers");
    }
    start.elapsed() / CALLS
}

async fn time_host_calls(in_process_host: &InProcessHost) -> Duration {
    let start = Instant::now();
    for _ in 0..CALLS {
        in_process_host.call().await;
    }
    start.elapsed() / CALLS
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn picture(raw: Duration, growth: &[Duration]) -> Picture {
    let title = "A call through the host, by the number of rules";
    let micros = |time: &Duration| Some(time.as_secs_f64() * 1e6);
    let series = vec![
        Series::new("Host::call", Role::Ours, growth.iter().map(micros).collect()),
        Series::new("a client alone", Role::Baseline, RULE_COUNTS.map(|_| micros(&raw)).to_vec()),
    ];
    let (across, upwards, stops) = ("rules", "µs a call", RULE_COUNTS.map(Tick::of).to_vec());
    Picture::new(
        "pipeline",
        title,
        Lines { title, x_axis: across, y_axis: upwards, ticks: stops, series }.draw(),
    )
}

fn report(raw: Duration, through: Duration, growth: &[Duration]) -> PipelineCost {
    let micros = |time: Duration| format!("{:.2}", time.as_secs_f64() * 1e6);
    let more = through.saturating_sub(raw);
    let rows = [
        vec!["a client alone".to_owned(), micros(raw)],
        vec!["`Host::call`".to_owned(), micros(through)],
        vec!["cost of the host".to_owned(), micros(more)],
    ];
    let verdict = if more <= BUDGET { "met" } else { "**missed**" };
    let picture = picture(raw, growth);
    let by_rules = RULE_COUNTS.iter().zip(growth);
    let by_rules: Vec<_> =
        by_rules.map(|(rules, time)| vec![rules.to_string(), micros(*time)]).collect();
    let text = format!(
        "## A call through the host\n\n\
         Medians of {REPETITIONS} interleaved repetitions of {CALLS} calls, one after the other, with 100 bytes of\n\
         parameters, to a server in the same process: resolved, checked, permitted by a rule, sent, bounded, recorded.\n\n{}\n\
         Budget: at most 5 µs more than the client alone: {verdict}.\n\n\
         With more rules; only the last one matches this server:\n\n{}\n{}",
        table::markdown(&["", "µs a call"], &[], &rows),
        table::markdown(&["rules", "µs a call"], &[], &by_rules),
        picture.link(),
    );
    let budget = vec![
        "a call through the host, over a client alone".to_owned(),
        format!("≤ {} µs", BUDGET.as_micros()),
        format!("{} µs", micros(more)),
        verdict.to_owned(),
    ];
    PipelineCost { text, picture, budget }
}
