//! `swb-faults`: injects faults while Switchboard runs, and checks the outcome of every call.
//! This file reads the arguments; `run` executes the run, `verdict` judges it.

pub mod environment;
mod failure;
mod fault;
mod gateway_client;
mod injector;
mod load;
mod random;
mod run;
mod servers;
mod shared_host_injector;
mod stdio_session;
mod swb_process;
pub mod verdict;

use std::env;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use failure::Failure;
use run::RunOptions;

const USAGE: &str = "usage: cargo xtask faults [--seconds N] [--seed N]";
/// The default duration, in seconds.
const DEFAULT_SECONDS: u64 = 120;
/// The minimum duration: shorter runs do not inject every kind of fault.
const MIN_SECONDS: u64 = 10;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ended = match words[..] {
        [environment::relay::SUBCOMMAND] => return environment::relay::run(),
        [environment::sandbox::INSIDE_ARGUMENT, ref rest @ ..] => {
            parse_options(rest).and_then(run_inside)
        }
        ref rest => parse_options(rest).and_then(|wish| {
            let words = ["--seconds", &wish.seconds.to_string(), "--seed", &wish.seed.to_string()];
            environment::sandbox::enter_namespaces(&words.map(str::to_owned))
        }),
    };
    ended.unwrap_or_else(|failure| {
        failure.print();
        ExitCode::FAILURE
    })
}

fn parse_options(words: &[&str]) -> Result<RunOptions, Failure> {
    let by_chance = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |it| it.as_secs());
    let mut wish = RunOptions { seconds: DEFAULT_SECONDS, seed: by_chance };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let number = words.next().and_then(|it| it.parse().ok());
        match (*word, number) {
            ("--seconds", Some(seconds @ MIN_SECONDS..)) => wish.seconds = seconds,
            ("--seed", Some(seed)) => wish.seed = seed,
            _ => {
                let what = format!(
                    "`{word}` is not a valid argument; the minimum is {MIN_SECONDS} seconds\n{USAGE}"
                );
                return Err(Failure::new(what));
            }
        }
    }
    Ok(wish)
}

fn run_inside(wish: RunOptions) -> Result<ExitCode, Failure> {
    println!("{} seconds of faults, seed {}", wish.seconds, wish.seed);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::from_io("no runtime", error))?;
    let history = runtime.block_on(run::run(wish))?;
    println!("\n{}", verdict::report::render(&history));
    let violations = verdict::checker::find_violations(&history);
    if violations.is_empty() {
        println!("no violations: every call was answered once or failed with a reason");
        return Ok(ExitCode::SUCCESS);
    }
    println!("what `swb` said:\n{}", history.stderr);
    println!("{} complaints (seed {}):", violations.len(), wish.seed);
    violations.iter().for_each(|it| println!("  {it}"));
    Ok(ExitCode::FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_and_seed_are_read_from_the_arguments() {
        let said = parse_options(&["--seed", "7", "--seconds", "600"]).unwrap();
        assert_eq!(said, RunOptions { seconds: 600, seed: 7 });
        assert_eq!(parse_options(&[]).unwrap().seconds, DEFAULT_SECONDS);
        for words in [&["--seconds", "3"][..], &["--seed"], &["--sed", "7"], &["--seconds", "x"]] {
            assert!(parse_options(words).is_err(), "{words:?}");
        }
    }
}
