//! Measures the pool: `cargo run --release --example pool_speed`. Prints figures and judges none of them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::json;
use switchboard::built_in;
use switchboard::catalogue::Item;
use switchboard::config::entry::ToolFilter;
use switchboard::pool::argument_check::check;
use switchboard::pool::naming::Origin;
use switchboard::pool::{Pool, Rules, Source};
use switchboard::wire::message::Payload;

const VERBS: [&str; 10] =
    ["read", "write", "list", "create", "delete", "search", "update", "move", "copy", "watch"];
const THINGS: [&str; 10] =
    ["file", "issue", "pullRequest", "branch", "message", "event", "page", "table", "row", "user"];

fn tools(server: usize, count: usize) -> Vec<Item> {
    let one = |at: usize| {
        let (verb, thing) = (VERBS[at % 10], THINGS[at / 10 % 10]);
        let name = format!("{verb}_{thing}_{}", at / 100);
        let definition = json!({
            "name": name,
            "title": format!("{verb} a {thing}"),
            "description": format!(
                "Lets you {verb} any {thing} of workspace w{server}. Returns what was found as text, one {thing} a \
                 line, with its owner and the time of the last change. Fails where the {thing} is locked."
            ),
            "inputSchema": {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "type": "object",
                "properties": {
                    format!("{thing}Id"): {"type": "string", "description": "which one is meant"},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "how many at most"},
                    "order": {"type": "string", "enum": ["up", "down"], "default": "up"},
                    "labels": {"type": "array", "items": {"type": "string"}},
                },
                "required": [format!("{thing}Id")],
                "additionalProperties": false,
            },
            "annotations": {"readOnlyHint": verb == "read"},
        });
        Item { name, raw: Payload::of(&definition).expect("it is JSON") }
    };
    (0..count).map(one).collect()
}

fn timed<T>(what: &str, rounds: usize, mut act: impl FnMut() -> T) {
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            let made = black_box(act());
            let took = start.elapsed();
            drop(made);
            took
        })
        .collect();
    times.sort_unstable();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)];
    println!("{what}: least {:?}, p50 {:?}, p99 {:?}", at(0), at(50), at(99));
}

fn main() {
    let servers: Vec<(String, Vec<Item>)> =
        (0..100).map(|it| (format!("server{it}"), tools(it, 100))).collect();
    let bytes: usize = servers.iter().flat_map(|it| &it.1).map(|it| it.raw.as_bytes().len()).sum();
    println!("100 servers with 100 tools each, {bytes} bytes of definitions");
    let filter = ToolFilter::default();
    let rules = Rules { hidden: &|_, _| false, built_in: built_in::all() };
    let assemble = |before: &Pool| {
        let sources = servers.iter().map(|(server, tools)| Source {
            server,
            origin: Origin::Configured,
            tools,
            filter: &filter,
        });
        before.next(sources, &rules)
    };
    let empty = Pool::default();
    timed("assembled from nothing", 50, || assemble(&empty));
    let pool = assemble(&empty);
    timed("assembled again without a change", 50, || assemble(&pool));
    timed("assembled from nothing and indexed", 10, || {
        let pool = assemble(&empty);
        drop(pool.search("x", 1));
        pool
    });
    let queries = [
        "read file",
        "create issue labels",
        "s",
        "workspace",
        "the of a what was",
        "updatePullRequest limit order",
        "w7 delete",
    ];
    for query in queries {
        timed(&format!("search `{query}`"), 1000, || pool.search(query, 10));
    }
    timed("nearest", 100, || pool.nearest("mcp__server42__reed_file_0", 3).len());
    let tool = pool.find("mcp__server42__read_file_0").expect("it was made above");
    let arguments = json!({"fileId": "a", "limit": 5, "labels": ["x", "y"]});
    timed("first check", 1, || check(tool, &arguments).is_ok());
    timed("check", 10_000, || check(tool, &arguments).is_ok());
    println!("kept apart: {}", pool.quarantined().len());
}
