//! `swb-bench`: measures Switchboard next to its peers. It reports, and fails only when it could not measure.
//! This file picks the benchmark; each benchmark is a file of its own.

pub mod benchmarks;
pub mod child_server;
pub mod config_counts;
mod echo_server;
mod effort;
mod failure;
mod machine;
mod measured_program;
pub mod output;
mod process_cost;
pub mod process_stats;
mod sandbox;
mod workspace;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use effort::Effort;
use failure::Failure;
use output::report::Report;
use workspace::Workspace;

const HELP: &str = "\
Measures Switchboard next to its peers

Usage: cargo xtask bench [--quick] [NAME]

Without a NAME, all benchmarks run in turn, and docs/benchmarks/README.md lists which budgets are met.
With --quick, each benchmark runs briefly, to check that it works: its figures mean nothing, and no page is written.

Names:
  list           the cost of `swb list`, next to its budgets and to other programs;
                 SWB_BIN names a program to measure instead of building one
  calls [stdio|http]
                 the cost of a call through our client, next to the clients of the official SDKs;
                 installs those into bench/.peers; one transport alone is printed and not written to the page
  ui             the terminal UI: latency from key to screen, the first frame, and the cost while idle; SWB_BIN as above
  embedding      sessions that a program runs: start with twenty servers, next to `claude` if it is on the search path, and
                 calls of tools that the program hosts; SWB_BIN as above
  fleet          fifty servers at once, and the resources of `swb` with ten idle servers; SWB_BIN as above
  gateway [http|stdio|memory]
                 the cost of relayed calls, next to a bare proxy and to other gateways; installs those into
                 bench/.peers; SWB_BIN as above; one part alone is printed and not written to the page
  limits         the latency of fifty clients of the gateway beside an abusive one; SWB_BIN as above
  scale          two replicas of the gateway behind HAProxy with a store, next to one without; needs `redis-server` and
                 `haproxy`; SWB_BIN as above
  share          the shared host: a second `swb call`, the memory of ten sessions, the cost of a call, a start race;
                 installs mcp-proxy into bench/.peers; SWB_BIN as above
  computer       pictures, clicks and typing of the computer server on a virtual screen; needs Xvfb, openbox, xterm and zenity
  browser        the browser server next to @playwright/mcp and chrome-devtools-mcp, with twelve jobs; installs those into
                 bench/.peers; SWB_BIN as above
  pool           the cost of a pool of 10,000 tools, and of a call through the host
  start          the time from start to the first response, next to the clients of the official SDKs
  wire           the cost of a call through our client, inside one process
  instructions [--bless | PART...]
                 count the instructions of the hot paths, or of those whose names contain a PART, and fail if a count
                 exceeds the record; --bless updates the record; `cargo xtask instructions` builds this program with
                 the settings of the record
  install-peers  install the other programs into bench/.peers, with npm
  help           print this text";

fn main() -> ExitCode {
    let (options, arguments): (Vec<OsString>, Vec<OsString>) =
        env::args_os().skip(1).partition(|it| it == "--quick");
    if !options.is_empty() {
        Effort::Quick.choose();
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[OsString]) -> Result<(), Failure> {
    let Some((what, rest)) = arguments.split_first() else {
        return benchmarks::all::run(&Workspace::from_environment()?);
    };
    match what.to_string_lossy().as_ref() {
        "instructions" => benchmarks::instructions::run(&Workspace::from_environment()?, rest),
        "install-peers" => measured_program::install_other_hosts(&Workspace::from_environment()?),
        benchmarks::hot_paths::SUBCOMMAND => benchmarks::hot_paths::run(rest),
        process_cost::SUBCOMMAND => process_cost::run_as_parent(rest),
        benchmarks::pool::growth::SUBCOMMAND => benchmarks::pool::growth::run_in_child(rest),
        benchmarks::calls::client::SUBCOMMAND => benchmarks::calls::client::run(rest),
        echo_server::SUBCOMMAND => match rest {
            [kind] => echo_server::run(&kind.to_string_lossy()),
            [] | [_, _, ..] => Err(Failure::InvalidArguments),
        },
        benchmarks::gateway::LOAD_SUBCOMMAND => benchmarks::gateway::load_only(rest),
        benchmarks::limits::attack::SUBCOMMAND => benchmarks::limits::attack::run(rest),
        benchmarks::gateway::bare_proxy::SUBCOMMAND => benchmarks::gateway::bare_proxy::run(rest),
        "help" | "--help" | "-h" => {
            println!("{HELP}");
            Ok(())
        }
        name => {
            let known = BENCHMARKS.iter().find(|it| it.name == name);
            let known = known.ok_or_else(|| Failure::UnknownArgument(name.to_owned()))?;
            let workspace = Workspace::from_environment()?;
            (known.run)(&workspace, rest)?.save(&workspace)
        }
    }
}

/// A benchmark that has a page.
struct Benchmark {
    name: &'static str,
    /// The subject of its page.
    about: &'static str,
    run: fn(&Workspace, &[OsString]) -> Result<Report, Failure>,
}

/// All benchmarks in the order of a run. Those that run in this process come last, because their memory would count as
/// the peak of every program that is started after them.
const BENCHMARKS: &[Benchmark] = &[
    Benchmark {
        name: "calls",
        about: "a call to another process, next to the official SDKs, by its size",
        run: benchmarks::calls::run,
    },
    Benchmark {
        name: "start",
        about: "from start to the first response, and to many servers",
        run: |it, _| benchmarks::start::run(it),
    },
    Benchmark {
        name: "list",
        about: "the command line, next to other programs",
        run: |it, _| benchmarks::list::run(it),
    },
    Benchmark {
        name: "fleet",
        about: "fifty servers at once, and the cost of idle ones",
        run: |it, _| benchmarks::fleet::run(it),
    },
    Benchmark {
        name: "gateway",
        about: "relayed calls, next to a bare proxy and other gateways, by the number of clients",
        run: benchmarks::gateway::run,
    },
    Benchmark {
        name: "limits",
        about: "fifty clients of the gateway beside an abusive one",
        run: |it, _| benchmarks::limits::run(it),
    },
    Benchmark {
        name: "scale",
        about: "replicas behind a load balancer with a store: rate, failures of each part, size of a fleet",
        run: |it, _| benchmarks::scale::run(it),
    },
    Benchmark {
        name: "share",
        about: "one host for all sessions: a second call, memory, the cost of a call, a start race",
        run: |it, _| benchmarks::share::run(it),
    },
    Benchmark {
        name: "browser",
        about: "the browser server, next to those of Playwright and Chrome DevTools",
        run: |it, _| benchmarks::browser::run(it),
    },
    Benchmark {
        name: "embedding",
        about: "a session that a program runs: its start, and calls of tools that the program hosts",
        run: |it, _| benchmarks::embedding::run(it),
    },
    Benchmark {
        name: "ui",
        about: "the terminal UI: latency of keys, first frame, idle cost",
        run: |it, _| benchmarks::ui::run(it),
    },
    Benchmark {
        name: "wire",
        about: "a call inside one process",
        run: |it, _| benchmarks::wire::run(it),
    },
    Benchmark {
        name: "pool",
        about: "catalogue, search and a call through the host, by their sizes",
        run: |it, _| benchmarks::pool::run(it),
    },
    Benchmark {
        name: "computer",
        about: "pictures, clicks and typing of the computer server on a virtual screen",
        run: |it, _| benchmarks::computer::run(it),
    },
];
