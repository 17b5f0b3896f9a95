//! The last accepted counts, and the toolchain that they were made with: `bench/instructions.json`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::counting::Count;
use crate::benchmarks::hot_paths::HotPath;
use crate::failure::{self, Failure};
use crate::workspace::Workspace;

/// Everything besides our code that changes the counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Toolchain {
    /// The compiler.
    rustc: String,
    /// The kind of machine that it compiles for.
    target: String,
    /// The library that allocates and copies.
    libc: String,
    /// The widest instructions that are chosen at run time.
    vectors: String,
}

/// Counts by the names of their paths.
#[derive(Debug, Serialize, Deserialize)]
pub struct Record {
    /// What they were made with.
    #[serde(rename = "maker")]
    pub toolchain: Toolchain,
    instructions: BTreeMap<String, u64>,
}

impl Toolchain {
    /// What counts are made with here.
    pub fn current(workspace: &Workspace) -> Result<Toolchain, Failure> {
        let mut rustc = Command::new("rustc");
        let version_text = failure::output(rustc.arg("-vV").current_dir(&workspace.root))?;
        let host = version_text.lines().find_map(|line| line.strip_prefix("host: "));
        let libc = failure::output(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
        Ok(Toolchain {
            rustc: version_text.lines().next().unwrap_or_default().to_owned(),
            target: host.unwrap_or_default().to_owned(),
            libc: libc.trim().to_owned(),
            vectors: vectors().to_owned(),
        })
    }
}

#[cfg(target_arch = "x86_64")]
fn vectors() -> &'static str {
    if is_x86_feature_detected!("avx2") { "avx2" } else { "sse2" }
}

#[cfg(not(target_arch = "x86_64"))]
fn vectors() -> &'static str {
    "of the target"
}

impl fmt::Display for Toolchain {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Toolchain { rustc, target, libc, vectors } = self;
        write!(out, "{rustc} for {target}, {libc}, {vectors}")
    }
}

impl Record {
    /// These counts.
    pub fn from_counts(toolchain: Toolchain, counts: &[Count]) -> Record {
        let rounded = |it: &Count| (it.name.to_owned(), it.least().round() as u64);
        Record { toolchain, instructions: counts.iter().map(rounded).collect() }
    }

    /// What was recorded.
    pub fn read(workspace: &Workspace) -> Result<Record, Failure> {
        let path = record_path(workspace);
        let text = fs::read_to_string(&path).map_err(|error| Failure::file(&path, error))?;
        serde_json::from_str(&text).map_err(Failure::InvalidJson)
    }

    /// Records.
    pub fn write(&self, workspace: &Workspace) -> Result<(), Failure> {
        let path = record_path(workspace);
        let text = serde_json::to_string_pretty(self).map_err(Failure::InvalidJson)?;
        fs::write(&path, format!("{text}\n")).map_err(|error| Failure::file(&path, error))
    }

    /// What was recorded of a path.
    pub fn instructions_of(&self, name: &str) -> Option<f64> {
        self.instructions.get(name).map(|it| *it as f64)
    }

    /// Fails unless there is a count for each path and for nothing else.
    pub fn covers(&self, paths: &[HotPath]) -> Result<(), Failure> {
        let missing =
            paths.iter().map(|it| it.name).filter(|it| self.instructions_of(it).is_none());
        let recorded = self.instructions.keys().map(String::as_str);
        let obsolete = recorded.filter(|name| paths.iter().all(|it| it.name != *name));
        let names: Vec<String> = missing.chain(obsolete).map(|it| format!("`{it}`")).collect();
        match names.is_empty() {
            true => Ok(()),
            false => Err(Failure::RecordMismatch { names: names.join(", ") }),
        }
    }
}

fn record_path(workspace: &Workspace) -> PathBuf {
    workspace.root.join("bench").join("instructions.json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmarks::hot_paths;

    #[test]
    fn a_path_without_a_count_and_a_count_without_a_path_are_named() {
        let counts = hot_paths::ALL.iter().skip(1).map(|it| it.name).chain(["of-old"]);
        let counts: Vec<Count> = counts.map(|name| Count { name, counts: vec![1.0] }).collect();
        let failure =
            Record::from_counts(Toolchain::default(), &counts).covers(hot_paths::ALL).unwrap_err();
        let Failure::RecordMismatch { names } = failure else { panic!("{failure}") };
        assert_eq!(names, format!("`{}`, `of-old`", hot_paths::ALL[0].name));
    }

    #[test]
    fn the_record_of_this_repository_covers_all_paths() {
        let text = include_str!("../../../instructions.json");
        let record: Record = serde_json::from_str(text).expect("it is a record");
        record.covers(hot_paths::ALL).expect("it was blessed after the last change of paths");
    }
}
