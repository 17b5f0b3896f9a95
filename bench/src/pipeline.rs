//! What a call costs on its way through the host: resolved, checked, permitted, bounded and recorded, next to the
//! same call over a client alone. The server is in this process, so that nothing else takes time.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use switchboard::address::Around;
use switchboard::calling::{Desk, ToolCall};
use switchboard::config::permission::{Effect, Rules, ToolRule};
use switchboard::connection::state::Persistence;
use switchboard::engine::{Host, Options};
use switchboard::in_process::InProcess;
use switchboard::load;
use switchboard::places::Places;
use switchboard::rulebook::Rulebook;
use switchboard::wire::client::Client;
use switchboard::wire::dial::{self, Address, Line, Terms};
use switchboard::wire::handshake::Hint;
use switchboard::wire::introduction::Offer;
use switchboard::wire::process::Keeping;
use switchboard_wire::memory::MemoryLink;
use switchboard_wire::message::{Payload, RemoteError};
use switchboard_wire::peer::{Connection, Event, Peer};
use tokio::runtime::Builder;
use tokio::task::JoinHandle;

use crate::effort;
use crate::failure::Failure;
use crate::plot::{Lines, Role, Series, Stop};
use crate::report::Picture;
use crate::table;
use crate::workplace::Workplace;

const REPETITIONS: usize = 7;
const CALLS: u32 = 20_000;
const BUDGET: Duration = Duration::from_micros(5);
/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// With how many rules the way of a call is measured.
const RULES: [usize; 4] = [2, 10, 100, 1_000];

/// What the way of a call cost.
pub struct Way {
    /// It in Markdown.
    pub text: String,
    /// How it grows with the number of rules.
    pub picture: Picture,
    /// Its budget.
    pub budget: Vec<String>,
}

/// Measures.
pub fn measured(workplace: &Workplace) -> Result<Way, Failure> {
    let failed = |error: io::Error| Failure::file(&workplace.report("pool.md"), error);
    let folder = tempfile::tempdir().map_err(failed)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let (mut raw, mut through) = (Vec::new(), Vec::new());
    runtime.block_on(async {
        let linked = Linked::open(folder.path(), 2).await.map_err(failed)?;
        let line = line().await;
        for _ in 0..effort::repetitions(REPETITIONS) {
            raw.push(alone(&line.client).await);
            through.push(by_host(&linked).await);
        }
        linked.close().await;
        Ok::<(), Failure>(())
    })?;
    let growth = runtime.block_on(by_rules()).map_err(failed)?;
    Ok(report(median(raw), median(through), &growth))
}

/// How long a call takes with so many rules, in the order of [`RULES`]. All take turns.
async fn by_rules() -> io::Result<Vec<Duration>> {
    let mut hosts = Vec::new();
    for count in RULES {
        let folder = tempfile::tempdir()?;
        hosts.push((Linked::open(folder.path(), count).await?, folder, Vec::new()));
    }
    for _ in 0..effort::repetitions(REPETITIONS) {
        for (linked, _, times) in &mut hosts {
            times.push(by_host(linked).await);
        }
    }
    let mut medians = Vec::new();
    for (linked, _folder, times) in hosts {
        linked.close().await;
        medians.push(median(times));
    }
    Ok(medians)
}

/// A host with a server in this process.
pub struct Linked {
    /// The host.
    pub host: Host,
    /// The desk that its calls go over.
    pub desk: Desk,
    task: JoinHandle<()>,
}

impl Linked {
    /// A host in this folder with so many rules.
    pub async fn open(folder: &Path, count: usize) -> io::Result<Linked> {
        let (host, task) = Host::start(options(folder))?;
        let places = Places::below(folder);
        let desk = Desk { rules: Rulebook::new(rules(count)), ..Desk::new(&host, &places)? };
        connect(&host).await;
        Ok(Linked { host, desk, task })
    }

    /// One call, all the way.
    pub async fn call(&self) {
        let call = ToolCall {
            caller: "bench".to_owned(),
            exposed: "mcp__linked__echo".to_owned(),
            arguments: arguments(),
            patience: PATIENCE,
            progress: None,
        };
        let yielded = self.host.call(&self.desk, call).await.expect("it answers");
        assert_eq!(yielded.parts.len(), 1);
    }

    /// Ends everything.
    pub async fn close(self) {
        self.host.stop().await;
        drop(self.host);
        let _panicked = self.task.await;
    }
}

/// A server in this process that has one tool.
async fn attended(link: MemoryLink) {
    serve(Peer::start(link)).await;
}

async fn serve(mut connection: Connection) {
    while let Some(event) = connection.events.recv().await {
        let Event::Request(request) = event else { continue };
        match answer(&request.method, request.params.as_ref()) {
            Some(answer) => request.answer(answer).await,
            None => {
                let (code, message) = (-32601, "there is no such method".to_owned());
                request.refuse(RemoteError { code, message, data: None }).await;
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
    Payload::of(&answer).ok()
}

fn options(folder: &Path) -> Options {
    let around = Around { working_folder: folder.to_owned(), ..Around::default() };
    let mut options = Options::new(Places::below(folder), around);
    options.persistence = Persistence::Once;
    options.in_process.insert("linked".to_owned(), InProcess::new(attended));
    options
}

async fn connect(host: &Host) {
    let servers = r#"{"mcpServers": {"linked": {"type": "sdk", "name": "linked"}}}"#;
    host.apply(&load::of_program("bench", servers)).await;
    host.settled().await;
    let pool = host.settled_pool().await;
    assert!(pool.find("mcp__linked__echo").is_some(), "{:?}", host.snapshot());
}

/// So many rules, the last of which allows the server. The others are about other servers: names and patterns.
pub fn rules(count: usize) -> Rules {
    let mut rules = Rules::default();
    let mut add = |effect, rule: &str| {
        rules.add_for_session(effect, ToolRule::parse(rule).expect("a rule"));
    };
    for at in 1..count {
        match at % 4 {
            0 => add(Effect::Allow, &format!("mcp__server{at}")),
            1 => add(Effect::Deny, &format!("mcp__server{at}__delete")),
            2 => add(Effect::Ask, &format!("mcp__server{at}__write_*")),
            _ => add(Effect::Allow, &format!("mcp__server{at}__list_things")),
        }
    }
    add(Effect::Allow, "mcp__linked");
    rules
}

/// The same server over a client alone.
async fn line() -> Line {
    let offer = Offer {
        name: "swb-bench".to_owned(),
        title: "bench".to_owned(),
        version: "1".to_owned(),
        abilities: Vec::new(),
    };
    let keeping = Keeping::default();
    let terms = Terms { offer, hint: Hint::Legacy, within: PATIENCE, keeping, network: None };
    dial::dial(&Address::Linked(Arc::new(|link| Box::pin(attended(link)))), &terms)
        .await
        .expect("it is in this process")
}

/// What the server is asked with.
pub fn arguments() -> Json {
    json!({"text": "x".repeat(60)})
}

async fn alone(client: &Client) -> Duration {
    let start = Instant::now();
    for _ in 0..CALLS {
        let params = json!({"name": "echo", "arguments": arguments()});
        let params = Payload::of(&params).expect("JSON");
        let request = client.request("tools/call").params(params).within_of_progress(PATIENCE);
        request.send().await.expect("it answers");
    }
    start.elapsed() / CALLS
}

async fn by_host(linked: &Linked) -> Duration {
    let start = Instant::now();
    for _ in 0..CALLS {
        linked.call().await;
    }
    start.elapsed() / CALLS
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn picture(raw: Duration, growth: &[Duration]) -> Picture {
    let title = "The way of a call through the host, by the number of rules";
    let micros = |time: &Duration| Some(time.as_secs_f64() * 1e6);
    let series = vec![
        Series::new("Host::call", Role::Ours, growth.iter().map(micros).collect()),
        Series::new("a client alone", Role::Floor, RULES.map(|_| micros(&raw)).to_vec()),
    ];
    let (across, upwards, stops) = ("rules", "µs a call", RULES.map(Stop::of).to_vec());
    Picture::new("pipeline", title, Lines { title, across, upwards, stops, series }.draw())
}

fn report(raw: Duration, through: Duration, growth: &[Duration]) -> Way {
    let micros = |time: Duration| format!("{:.2}", time.as_secs_f64() * 1e6);
    let more = through.saturating_sub(raw);
    let rows = [
        vec!["a client alone".to_owned(), micros(raw)],
        vec!["`Host::call`".to_owned(), micros(through)],
        vec!["what the way costs".to_owned(), micros(more)],
    ];
    let verdict = if more <= BUDGET { "met" } else { "**missed**" };
    let picture = picture(raw, growth);
    let by_rules = RULES.iter().zip(growth);
    let by_rules: Vec<_> =
        by_rules.map(|(rules, time)| vec![rules.to_string(), micros(*time)]).collect();
    let text = format!(
        "## The way of a call\n\n\
         Medians of {REPETITIONS} interleaved repetitions of {CALLS} calls, one after the other, with 100 bytes of\n\
         parameters, to a server in the same process: resolved, checked, permitted by a rule, sent, bounded, recorded.\n\n{}\n\
         Budget: at most 5 µs more than the client alone: {verdict}.\n\n\
         With more rules, of which the last one is about this server:\n\n{}\n{}",
        table::markdown(&["", "µs a call"], &[], &rows),
        table::markdown(&["rules", "µs a call"], &[], &by_rules),
        picture.link(),
    );
    let budget = vec![
        "the way of a call through the host, over a client alone".to_owned(),
        format!("≤ {} µs", BUDGET.as_micros()),
        format!("{} µs", micros(more)),
        verdict.to_owned(),
    ];
    Way { text, picture, budget }
}
