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

Usage: cargo xtask bench [--quick] [WHAT]

Without WHAT everything is measured in turn, and docs/benchmarks/README.md says which budgets are met.
With --quick everything is done once and little of it, to see that it works: figures mean nothing, and no page is kept.

What:
  list           `swb list` against its budgets, and next to other programs' lists;
                 SWB_BIN names a program to measure instead of building one
  calls [stdio|http]
                 what one call costs through our own peer, next to the official SDKs' clients;
                 installs those into bench/.peers; one transport alone is printed and not kept
  face           what a person at the terminal feels: from a key to the screen, the first frame, and what the
                 screen costs while nothing happens; SWB_BIN as above
  fleet          fifty servers at once, and what `swb` needs while ten are connected and nothing happens;
                 SWB_BIN as above
  gateway [http|stdio|memory]
                 what passing calls on costs, next to a bare proxy and to other gateways; installs those into
                 bench/.peers; SWB_BIN as above; one part alone is printed and not kept
  pool           what a pool of 10,000 tools costs, and what a call costs on its way through the host
  start          from nothing to the first answer, next to the same
  wire           what one call costs through our own peer, inside one process
  instructions [--bless | PART...]
                 instructions of the hot paths, or of those whose names hold a PART, next to the record, which fails where they grew; --bless writes the
                 record; `cargo xtask instructions` builds this program as the record wants it
  install-peers  install the other programs into bench/.peers, with npm
  help           this text";

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
    /// What its page is about.
    about: &'static str,
    run: fn(&Workspace, &[OsString]) -> Result<Report, Failure>,
}

/// All of them, in the order in which they are run: what happens in this process comes last, because the memory that it
/// takes would count as the peak of every program that is started after it.
const BENCHMARKS: &[Benchmark] = &[
    Benchmark {
        name: "calls",
        about: "a call to another process, next to the official SDKs, by its size",
        run: benchmarks::calls::run,
    },
    Benchmark {
        name: "start",
        about: "from nothing to the first answer, and to many servers",
        run: |it, _| benchmarks::start::run(it),
    },
    Benchmark {
        name: "list",
        about: "the command line, next to other programs",
        run: |it, _| benchmarks::list::run(it),
    },
    Benchmark {
        name: "fleet",
        about: "fifty servers at once, and what idle ones hold",
        run: |it, _| benchmarks::fleet::run(it),
    },
    Benchmark {
        name: "gateway",
        about: "passing calls on, next to a bare proxy and other gateways, by the number of clients",
        run: benchmarks::gateway::run,
    },
    Benchmark {
        name: "face",
        about: "what a person at the terminal feels",
        run: |it, _| benchmarks::ui::run(it),
    },
    Benchmark {
        name: "wire",
        about: "a call inside one process",
        run: |it, _| benchmarks::wire::run(it),
    },
    Benchmark {
        name: "pool",
        about: "catalogue, search and the way of a call through the host, by their sizes",
        run: |it, _| benchmarks::pool::run(it),
    },
];
