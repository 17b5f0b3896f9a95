//! `cargo xtask`: the project's own chores, one word each.
//! This file only picks the chore; the chores live in the files it names.

pub mod chores;
mod failure;
pub mod install;
mod steps;
mod workspace;

use std::env;
use std::process::ExitCode;

use failure::Failure;
use steps::{Step, StepSummary};
use workspace::Workspace;

const HELP: &str = "\
Switchboard's own chores

Usage: cargo xtask <CHORE> [ARGUMENTS...]

Chores:
  test [FILTER...]  format, lints, spelling, licences, two minutes of faults, then every test; FILTER goes to nextest,
                    and leaves the faults out
  check             the same
  tidy              only the walls: who may use what, and where
  servers           install the servers of other people that tests talk to
  conformance [client] [WORD...]
                    install and run the official client suite; only scenarios that hold a WORD, where there are any
  conformance server [--upstream-only | --url URL] [--subject PART] [WORD...]
                    the same for the server suite: against the gateway, against what stands behind it, or elsewhere;
                    only servers whose title in the table holds PART
  faults [--seconds N] [--seed N]
                    break what `swb` stands on while it works, and judge what became of every call; needs Linux
                    and root, or leave to make namespaces
  docs              write the reference pages and the outputs shown in docs again
  pictures          take the pictures of the screen in docs again
  fuzz [TARGET...] [--seconds N]
                    made-up inputs for every target in `fuzz`, or for these, 10 seconds each or N
  bench [WHAT...]   measure; WHAT goes to the bench program
  instructions [--bless | PART...]
                    count what the hot paths take, and fail where it is more than was recorded; --bless records;
                    only those whose names hold a PART, where there are any
  walk [--again] [--keep] [--quick]
                    what a newcomer does, in a bare Debian root: the README's commands and the first steps; needs root;
                    --quick leaves the tests out, --keep keeps the root, --again goes on in one that was kept
  help              this text

Missing tools are installed by `test`.";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match chore(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            failure.exit_code()
        }
    }
}

fn chore(arguments: &[String]) -> Result<(), Failure> {
    let (name, rest) = match arguments.split_first() {
        Some((name, rest)) => (name.as_str(), rest),
        None => ("help", arguments),
    };
    match name {
        "test" | "check" => chores::test::run(&Workspace::from_environment()?, rest),
        "tidy" => chores::tidy::run(&Workspace::from_environment()?.root),
        "servers" => {
            let folder = install::servers::prepare(&Workspace::from_environment()?)?;
            println!("servers: {}", folder.display());
            Ok(())
        }
        "conformance" => chores::conformance::run(&Workspace::from_environment()?, rest),
        "faults" => chores::faults::run(&Workspace::from_environment()?, rest),
        "docs" => docs(&Workspace::from_environment()?, rest),
        "pictures" => pictures(&Workspace::from_environment()?, rest),
        "fuzz" => chores::fuzz::run(&Workspace::from_environment()?, rest),
        "bench" => bench(&Workspace::from_environment()?, rest),
        "instructions" => chores::instructions::run(&Workspace::from_environment()?, rest),
        "walk" => Ok(chores::walk::run(&Workspace::from_environment()?, rest)?),
        "help" | "--help" | "-h" => {
            println!("{HELP}");
            Ok(())
        }
        unknown => Err(Failure::UnknownChore(unknown.to_owned())),
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
    let mut bench = workspace.cargo("run --release --package swb-bench --locked --");
    bench.args(rest);
    steps::run_all(vec![Step::new("bench", bench, StepSummary::PrintsOwn)])?;
    Ok(())
}
