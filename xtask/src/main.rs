//! `cargo xtask`: the project's development commands.
//! This file selects the command; each command is a module of its own.

pub mod commands;
mod failure;
pub mod install;
mod steps;
mod workspace;

use std::env;
use std::process::ExitCode;

use failure::Failure;
use install::servers;
use steps::{Step, StepSummary};
use workspace::Workspace;

const HELP: &str = "\
Development commands of Switchboard

Usage: cargo xtask <COMMAND> [ARGUMENTS...]

Commands:
  test [FILTER...]  check format, lints, spelling, licences and documentation, run the examples in the documentation,
                    fuzz, count instructions, inject faults for two minutes, then run every test; FILTER goes to nextest
                    and skips the fuzz, instruction and fault steps
  check             the same as test
  tidy              check only the repository rules: which code may use what, and where
  servers           install the third-party MCP servers used by the tests
  conformance [client] [WORD...]
                    install and run the official client suite; with WORDs, only scenarios whose names contain one
  conformance server [--upstream-only | --url URL] [--subject PART] [WORD...]
                    run the server suite against the gateway, its upstream servers alone, or a URL; with --subject,
                    only servers whose title in the table contains PART
  faults [--seconds N] [--seed N]
                    inject faults while `swb` runs and check the outcome of every call; needs Linux, and root or
                    permission to create namespaces
  docs              regenerate the reference pages and the command output shown in the docs
  pictures          regenerate the screenshots in the docs
  fuzz [TARGET...] [--seconds N]
                    run every fuzz target, or the named ones, for 10 or N seconds each
  bench [NAME...]   run benchmarks; the arguments go to the bench program
  instructions [--bless | PART...]
                    count the instructions of the hot paths and fail if a count exceeds the record; --bless updates
                    the record; with PARTs, only paths whose names contain one
  walk [--again] [--keep] [--quick]
                    run the commands of the README and the first steps in a minimal Debian root; needs root;
                    --quick skips the tests, --keep keeps the root, --again reuses a kept root
  help              print this text

`test` installs missing tools.";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match run_command(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            failure.exit_code()
        }
    }
}

fn run_command(arguments: &[String]) -> Result<(), Failure> {
    let (name, rest) = match arguments.split_first() {
        Some((name, rest)) => (name.as_str(), rest),
        None => ("help", arguments),
    };
    match name {
        "test" | "check" => commands::test::run(&Workspace::from_environment()?, rest),
        "tidy" => commands::tidy::run(&Workspace::from_environment()?.root),
        "servers" => {
            let folder = install::servers::prepare(&Workspace::from_environment()?)?;
            println!("servers: {}", folder.display());
            Ok(())
        }
        "conformance" => commands::conformance::run(&Workspace::from_environment()?, rest),
        "faults" => commands::faults::run(&Workspace::from_environment()?, rest),
        "docs" => docs(&Workspace::from_environment()?, rest),
        "pictures" => pictures(&Workspace::from_environment()?, rest),
        "fuzz" => commands::fuzz::run(&Workspace::from_environment()?, rest),
        "bench" => bench(&Workspace::from_environment()?, rest),
        "instructions" => commands::instructions::run(&Workspace::from_environment()?, rest),
        "walk" => Ok(commands::walk::run(&Workspace::from_environment()?, rest)?),
        "help" | "--help" | "-h" => {
            println!("{HELP}");
            Ok(())
        }
        unknown => Err(Failure::UnknownCommand(unknown.to_owned())),
    }
}

fn docs(workspace: &Workspace, rest: &[String]) -> Result<(), Failure> {
    let mut nextest = workspace.cargo("nextest run --package swb --locked -E");
    nextest.arg("test(docs)").args(rest).env("SWB_BLESS", "1");
    steps::run_all(vec![Step::new("docs", nextest, StepSummary::PrintsOwn)])?;
    Ok(())
}

fn pictures(workspace: &Workspace, rest: &[String]) -> Result<(), Failure> {
    let mut nextest = workspace.cargo("nextest run --workspace --locked -E");
    nextest.arg("test(screen_golden)").args(rest).env("SWB_PICTURES", "1");
    steps::run_all(vec![Step::new("pictures", nextest, StepSummary::PrintsOwn)])?;
    Ok(())
}

fn bench(workspace: &Workspace, rest: &[String]) -> Result<(), Failure> {
    servers::prepare(workspace)?;
    let mut bench = workspace.cargo("run --profile dist --package swb-bench --locked --");
    bench.args(rest);
    steps::run_all(vec![Step::new("bench", bench, StepSummary::PrintsOwn)])?;
    Ok(())
}
