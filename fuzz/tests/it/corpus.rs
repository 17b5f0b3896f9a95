//! Replays every input of the corpus.

use std::collections::BTreeSet;
use std::fs;
use std::panic;
use std::path::{Path, PathBuf};

use swb_fuzz::{TARGETS, target};

fn folder() -> PathBuf {
    // Read at run time: several clones may share a build folder.
    let package = std::env::var("CARGO_MANIFEST_DIR").expect("cargo and nextest set it for tests");
    Path::new(&package).join("corpus")
}

fn inputs(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.sort();
    paths
}

#[track_caller]
fn replay(name: &str) {
    let target = target(name).expect("the name is one of a target");
    let inputs = inputs(&folder().join(name));
    assert!(!inputs.is_empty(), "there is nothing to replay");
    let fails = |input: &&PathBuf| {
        let bytes = fs::read(input).expect("a readable file");
        panic::catch_unwind(|| (target.check)(&bytes)).is_err()
    };
    let failed: Vec<&PathBuf> = inputs.iter().filter(fails).collect();
    assert!(failed.is_empty(), "these inputs do not hold: {failed:#?}");
}

#[test]
fn frames_hold() {
    replay("frames");
}

#[test]
fn events_hold() {
    replay("sse");
}

#[test]
fn listings_hold() {
    replay("listings");
}

#[test]
fn plugins_hold() {
    replay("plugins");
}

#[test]
fn files_hold() {
    replay("files");
}

#[test]
fn rules_hold() {
    replay("rules");
}

#[test]
fn schemas_hold() {
    replay("schemas");
}

#[test]
fn results_hold() {
    replay("results");
}

#[test]
fn bundles_hold() {
    replay("bundles");
}

#[test]
fn challenges_hold() {
    replay("challenges");
}

#[test]
fn every_target_has_a_corpus_and_every_corpus_a_target() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|it| it.name.to_owned()).collect();
    let name = |path: PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    let folders: BTreeSet<String> = inputs(&folder()).into_iter().map(name).collect();
    assert_eq!(folders, targets);
}
