//! Counts instructions with valgrind. A path runs a number of times and three times as often: the common part, the
//! start of the program and the path's set-up, cancels out in the difference.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::benchmarks::hot_paths;
use crate::benchmarks::hot_paths::HotPath;
use crate::child_server::own_program;
use crate::failure::Failure;
use crate::workspace::Workspace;

/// How many times as often the longer run goes a path.
const LONG_RUN_FACTOR: usize = 3;

/// What was counted for one path: instructions each time it is gone, once for each round.
#[derive(Debug, Clone)]
pub struct Count {
    /// The path's name.
    pub name: &'static str,
    /// One figure for each round.
    pub counts: Vec<f64>,
}

impl Count {
    /// The same, counted once more.
    pub fn with_repeats(mut self, again: &[Count]) -> Count {
        let again = again.iter().filter(|it| it.name == self.name);
        self.counts.extend(again.flat_map(|it| it.counts.iter().copied()));
        self
    }

    /// The least of all rounds.
    pub fn least(&self) -> f64 {
        self.counts.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// How far the two least rounds lie apart, as a part of the least. 0 after one round.
    pub fn spread(&self) -> f64 {
        let mut counts = self.counts.clone();
        counts.sort_by(f64::total_cmp);
        match counts.as_slice() {
            [least, next, ..] => next / least - 1.0,
            [_] | [] => 0.0,
        }
    }
}

/// Where valgrind puts what it counted for each function.
pub fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("callgrind")
}

/// Counts these paths once, as many at a time as there are cores: counts do not depend on how busy those are.
pub fn count_all(workspace: &Workspace, paths: &[&HotPath]) -> Result<Vec<Count>, Failure> {
    let (folder, program) = (folder(workspace), own_program()?);
    fs::create_dir_all(&folder).map_err(|error| Failure::file(&folder, error))?;
    let next = AtomicUsize::new(0);
    let work = || {
        let mut counts = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = paths.get(index) else { return Ok(counts) };
            counts.push((index, count(path, &program, &folder)?));
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let done: Vec<Result<Vec<(usize, Count)>, Failure>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|it| it.join().expect("a worker does not panic")).collect()
    });
    let mut counts: Vec<(usize, Count)> = Vec::new();
    for part in done {
        counts.extend(part?);
    }
    counts.sort_by_key(|(index, _)| *index);
    Ok(counts.into_iter().map(|(_, count)| count).collect())
}

fn count(path: &HotPath, program: &Path, folder: &Path) -> Result<Count, Failure> {
    let longer = path.times * LONG_RUN_FACTOR;
    let [less, more] =
        [path.times, longer].map(|times| run_callgrind(path, times, program, folder));
    let (less, more) = (less?, more?);
    let more = more.checked_sub(less).ok_or_else(|| {
        let stderr = format!("{less} instructions for less, {more} for more\n");
        Failure::NotCounted { name: path.name, stderr }
    })?;
    eprintln!("counted {}", path.name);
    Ok(Count { name: path.name, counts: vec![more as f64 / (longer - path.times) as f64] })
}

/// How many instructions the program takes from its start to its end.
fn run_callgrind(
    path: &HotPath,
    times: usize,
    program: &Path,
    folder: &Path,
) -> Result<u64, Failure> {
    let valgrind = PathBuf::from("valgrind");
    let mut command = Command::new(&valgrind);
    let kept = format!("--callgrind-out-file={}/{}.out", folder.display(), path.name);
    command.arg("--tool=callgrind").arg(kept).arg(program);
    command.args([hot_paths::SUBCOMMAND, path.name, &times.to_string()]);
    let output = command.output();
    let output =
        output.map_err(|error| Failure::NotStarted { program: valgrind.clone(), error })?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(Failure::Failed { program: valgrind, status: output.status, stderr });
    }
    collected(&stderr).ok_or(Failure::NotCounted { name: path.name, stderr })
}

/// The sum that valgrind names at its end.
fn collected(stderr: &str) -> Option<u64> {
    let line = stderr.lines().find_map(|line| line.split_once("Collected : "))?;
    line.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_parsed_from_valgrinds_output() {
        let stderr = "==7== Events    : Ir\n==7== Collected : 123456\n==7== \n";
        assert_eq!(collected(stderr), Some(123_456));
        assert_eq!(collected("==7== Events    : Ir\n"), None);
    }

    #[test]
    fn the_spread_is_a_part_of_the_least() {
        let count = Count { name: "it", counts: vec![110.0, 100.0] };
        assert_eq!(count.least(), 100.0);
        assert!((count.spread() - 0.1).abs() < 1e-9);
    }
}
