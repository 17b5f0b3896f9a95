//! Compares the instructions of each hot path with the record, independently of the load of the machine.
//! `counting` counts, `record` reads and writes the record, and `hot_paths` has the paths.

mod counting;
mod record;

use std::ffi::OsString;

use crate::benchmarks::hot_paths;
use crate::benchmarks::hot_paths::HotPath;
use crate::failure::Failure;
use crate::output::table;
use crate::output::table::thousands;
use crate::workspace::Workspace;
use counting::Count;
use record::{Record, Toolchain};

/// How much more a path may take than was recorded, and how much less before that is worth recording.
const ALLOWANCE: f64 = 0.05;
/// How far the two least counts of a path may lie apart.
const SPREAD: f64 = 0.01;
/// The most rounds for a path whose counts differ. Threads that wake each other add instructions at random, so the
/// least counts are the ones that repeat.
const MAX_ROUNDS: usize = 5;

/// What a count is next to the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    AsRecorded,
    Less,
    More,
    Unsteady,
}

/// Counts and compares, or counts and records.
pub fn run(workspace: &Workspace, words: &[OsString]) -> Result<(), Failure> {
    let (options, parts): (Vec<&OsString>, Vec<&OsString>) =
        words.iter().partition(|it| it.to_string_lossy().starts_with('-'));
    let is_blessing = match options.as_slice() {
        [] => false,
        // All or nothing: a record is of one program.
        [word] if *word == "--bless" && parts.is_empty() => true,
        [other, ..] => return Err(Failure::UnknownArgument(other.to_string_lossy().into_owned())),
    };
    let all = select_paths(&parts)?;
    let toolchain = Toolchain::current(workspace)?;
    let recorded_counts = if is_blessing { None } else { Some(Record::read(workspace)?) };
    if let Some(recorded_counts) = &recorded_counts {
        recorded_counts.covers(hot_paths::ALL)?;
    }
    // A second time where it matters: what is recorded, and what is about to be found wrong.
    let counts = counting::count_all(workspace, &all)?;
    let is_doubtful =
        |path: &&HotPath| match (&recorded_counts, counts.iter().find(|it| it.name == path.name)) {
            (Some(recorded_counts), Some(count)) => {
                verdict(count, recorded_counts) != Verdict::AsRecorded
            }
            (None, _) | (_, None) => true,
        };
    let doubtful: Vec<&HotPath> = all.into_iter().filter(is_doubtful).collect();
    let counts = count_until_steady(workspace, doubtful, counts)?;
    let unsteady = counts.iter().filter(|it| it.spread() >= SPREAD).count();
    let Some(recorded_counts) = recorded_counts else {
        print!("{}", counts_table(&counts, None));
        return match unsteady {
            0 => Record::from_counts(toolchain, &counts).write(workspace),
            count => Err(Failure::InstructionsChanged(count)),
        };
    };
    print!("{}", counts_table(&counts, Some(&recorded_counts)));
    if toolchain != recorded_counts.toolchain {
        println!(
            "\nNothing is judged: the record was made with {}, and this is {}.\n\
             `cargo xtask instructions --bless` records anew.",
            recorded_counts.toolchain, toolchain
        );
        return Ok(());
    }
    let verdicts: Vec<Verdict> = counts.iter().map(|it| verdict(it, &recorded_counts)).collect();
    if verdicts.contains(&Verdict::Less) {
        println!(
            "\nSome take less than was recorded: `cargo xtask instructions --bless` keeps it."
        );
    }
    let wrong = verdicts.iter().filter(|it| matches!(it, Verdict::More | Verdict::Unsteady));
    match wrong.count() {
        0 => Ok(()),
        count => {
            let folder = counting::folder(workspace);
            println!("\nWhere they go: `callgrind_annotate {}/NAME.out`", folder.display());
            Err(Failure::InstructionsChanged(count))
        }
    }
}

/// Counts some paths again, at least once and until their counts repeat or there were too many rounds.
fn count_until_steady(
    workspace: &Workspace,
    mut paths: Vec<&HotPath>,
    mut counts: Vec<Count>,
) -> Result<Vec<Count>, Failure> {
    for _ in 1..MAX_ROUNDS {
        let repeats = counting::count_all(workspace, &paths)?;
        counts = counts.into_iter().map(|it| it.with_repeats(&repeats)).collect();
        paths.retain(|path| counts.iter().any(|it| it.name == path.name && it.spread() >= SPREAD));
        if paths.is_empty() {
            break;
        }
    }
    Ok(counts)
}

/// The paths whose names hold one of these parts; all where there are none.
fn select_paths(parts: &[&OsString]) -> Result<Vec<&'static HotPath>, Failure> {
    let parts: Vec<String> = parts.iter().map(|it| it.to_string_lossy().into_owned()).collect();
    let holds = |path: &&HotPath| {
        parts.is_empty() || parts.iter().any(|part| path.name.contains(part.as_str()))
    };
    let chosen: Vec<&HotPath> = hot_paths::ALL.iter().filter(holds).collect();
    match chosen.is_empty() {
        true => Err(Failure::UnknownArgument(parts.join(" "))),
        false => Ok(chosen),
    }
}

fn verdict(count: &Count, recorded_counts: &Record) -> Verdict {
    let Some(recorded) = recorded_counts.instructions_of(count.name) else { return Verdict::More };
    match count.least() {
        _ if count.spread() >= SPREAD => Verdict::Unsteady,
        now if now > recorded * (1.0 + ALLOWANCE) => Verdict::More,
        now if now < recorded * (1.0 - ALLOWANCE) => Verdict::Less,
        _ => Verdict::AsRecorded,
    }
}

/// The table of all counts. Without a record they are judged by nothing but themselves.
fn counts_table(counts: &[Count], recorded_counts: Option<&Record>) -> String {
    let row = |count: &Count| {
        let recorded = recorded_counts.and_then(|it| it.instructions_of(count.name));
        let difference = recorded.map(|it| (count.least() / it - 1.0) * 100.0);
        let verdict = recorded_counts.map(|it| match verdict(count, it) {
            Verdict::AsRecorded => "",
            Verdict::Less => "less: bless to keep it",
            Verdict::More => "**more**",
            Verdict::Unsteady => "**not the same twice**",
        });
        vec![
            count.name.to_owned(),
            recorded.map_or("–".to_owned(), thousands),
            thousands(count.least()),
            difference.map_or("–".to_owned(), |it| format!("{it:+.1} %")),
            match count.counts.len() {
                1 => "–".to_owned(),
                _ => format!("{:.2} %", count.spread() * 100.0),
            },
            verdict.unwrap_or_default().to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = counts.iter().map(row).collect();
    let header = ["instructions", "before", "now", "difference", "spread", ""];
    table::markdown(&header, &[5], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(instructions: f64) -> Record {
        let toolchain = Toolchain::default();
        Record::from_counts(toolchain, &[Count { name: "it", counts: vec![instructions] }])
    }

    #[track_caller]
    fn check(counts: &[f64], expected: Verdict) {
        let count = Count { name: "it", counts: counts.to_vec() };
        assert_eq!(verdict(&count, &recorded(1_000.0)), expected, "{counts:?}");
    }

    #[test]
    fn counts_may_grow_by_five_percent_at_most() {
        check(&[1_050.0, 1_050.0], Verdict::AsRecorded);
        check(&[1_051.0, 1_051.0], Verdict::More);
        check(&[950.0, 950.0], Verdict::AsRecorded);
        check(&[949.0, 949.0], Verdict::Less);
    }

    #[test]
    fn name_parts_select_paths_and_unmatched_parts_are_an_error() {
        let names = |part: &str| {
            let part = OsString::from(part);
            let chosen = select_paths(&[&part]).ok()?;
            Some(chosen.iter().map(|it| it.name).collect::<Vec<_>>())
        };
        assert_eq!(names("permission-100-"), Some(vec!["permission-100-rules"]));
        assert_eq!(names("nothing"), None);
        assert_eq!(select_paths(&[]).expect("all").len(), hot_paths::ALL.len());
    }

    #[test]
    fn counts_that_differ_between_rounds_are_rejected() {
        check(&[1_000.0, 1_009.0], Verdict::AsRecorded);
        check(&[1_000.0, 1_010.0], Verdict::Unsteady);
        check(&[900.0, 1_000.0], Verdict::Unsteady);
        check(&[1_000.0, 1_100.0, 1_009.0], Verdict::AsRecorded);
    }

    #[test]
    fn the_table_names_before_and_now_and_the_difference() {
        let count = Count { name: "it", counts: vec![1_234.0, 1_240.0] };
        let table = counts_table(&[count], Some(&recorded(1_000.0)));
        assert!(
            table.ends_with("| it | 1,000 | 1,234 | +23.4 % | 0.49 % | **more** |\n"),
            "{table}"
        );
    }
}
