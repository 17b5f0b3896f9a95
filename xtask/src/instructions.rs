//! Counts the instructions of the hot paths, next to the record in `bench/instructions.json`.
//! Counting and comparing is the bench program's; this file sees to valgrind and to the build that the record is about.

use crate::failure::Failure;
use crate::run::{self, Closing, Step};
use crate::servers::Runtime;
use crate::tools::ToolError;
use crate::workshop::Workshop;

const VALGRIND: Runtime =
    Runtime { needed: "valgrind", check: &["valgrind", "--version"], packages: &["valgrind"] };

/// Counts and compares; `words` go to the bench program as they are.
pub fn run(workshop: &Workshop, words: &[String]) -> Result<(), Failure> {
    VALGRIND.prepare(workshop)?;
    run::all(vec![step(workshop, words)])?;
    Ok(())
}

/// Makes sure that instructions can be counted, where there is valgrind at all.
pub fn prepare(workshop: &Workshop) -> Result<(), ToolError> {
    match cfg!(target_os = "linux") {
        true => VALGRIND.prepare(workshop),
        false => Ok(()),
    }
}

/// The step among all checks. Valgrind runs on Linux; elsewhere there is none, and that is said.
pub fn among_checks(workshop: &Workshop) -> Option<Step> {
    if cfg!(target_os = "linux") {
        return Some(step(workshop, &[]));
    }
    eprintln!("==> instructions: not counted on this system; that takes Linux");
    None
}

/// Where cargo keeps parts of a build to save time, it also divides code otherwise, and that changes counts.
fn step(workshop: &Workshop, words: &[String]) -> Step {
    let mut bench =
        workshop.cargo("run --profile guard --package swb-bench --locked -- instructions");
    bench.args(words).env("CARGO_INCREMENTAL", "0");
    Step::new("instructions", bench, Closing::Timed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn what_is_counted_is_what_the_record_is_about() {
        let step = step(&Workshop::at(Path::new(".")), &["--bless".to_owned()]);
        assert_eq!(
            step.line(),
            "cargo run --profile guard --package swb-bench --locked -- instructions --bless"
        );
    }
}
