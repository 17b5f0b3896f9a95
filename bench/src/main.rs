//! `swb-bench`: measures Switchboard next to its peers. It reports, and fails only when it could not measure.
//! This file picks the benchmark; each benchmark is a file of its own.

mod calls;
mod face;
mod facts;
mod failure;
mod fleet;
mod gateway;
mod hot;
mod instructions;
mod list;
mod measure;
mod pipeline;
mod pool;
mod scene;
mod start;
mod subject;
mod table;
mod wire;
mod workplace;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use failure::Failure;
use workplace::Workplace;

const HELP: &str = "\
Measures Switchboard next to its peers

Usage: cargo xtask bench <WHAT>

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
  instructions [--bless]
                 instructions of the hot paths next to the record, which fails where they grew; --bless writes the
                 record; `cargo xtask instructions` builds this program as the record wants it
  install-peers  install the other programs into bench/.peers, with npm
  help           this text";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[OsString]) -> Result<(), Failure> {
    let (what, rest) = match arguments.split_first() {
        Some((what, rest)) => (what.to_string_lossy(), rest),
        None => ("help".into(), arguments),
    };
    match what.as_ref() {
        "list" => list::run(&Workplace::from_environment()?),
        "calls" => calls::run(&Workplace::from_environment()?, rest),
        "face" => face::run(&Workplace::from_environment()?),
        "fleet" => fleet::run(&Workplace::from_environment()?),
        "gateway" => gateway::run(&Workplace::from_environment()?, rest),
        "pool" => pool::run(&Workplace::from_environment()?),
        "start" => start::run(&Workplace::from_environment()?),
        "wire" => wire::run(&Workplace::from_environment()?),
        "install-peers" => subject::install_peers(&Workplace::from_environment()?),
        "instructions" => instructions::run(&Workplace::from_environment()?, rest),
        hot::WORD => hot::run(rest),
        measure::WORD => measure::run_here(rest),
        calls::client::WORD => calls::client::run(rest),
        calls::echo::WORD => match rest {
            [kind] => calls::echo::run(&kind.to_string_lossy()),
            [] | [_, _, ..] => Err(Failure::Call),
        },
        gateway::LOAD => gateway::load_only(rest),
        gateway::bare_proxy::WORD => gateway::bare_proxy::run(rest),
        "help" | "--help" | "-h" => {
            println!("{HELP}");
            Ok(())
        }
        unknown => Err(Failure::UnknownWord(unknown.to_owned())),
    }
}
