//! What must hold for any bytes at all: one pure function a kind of input, which panics where it does not hold.
//! Who makes up the bytes is left to `main`, which libFuzzer drives, and to the test that replays the corpus.
//!
//! Every file of `corpus/<target>/` is an input as it is, so that people can read and write them. What else a target
//! has to choose, such as where a stream is cut into pieces, it takes from the input's [`pieces::seed`].

pub mod challenges;
pub mod chunking;
pub mod files;
pub mod frames;
pub mod results;
pub mod rules;
pub mod schemas;
pub mod sse;

/// A kind of input, and what must hold for it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What it is called, and the folder of its corpus.
    pub name: &'static str,
    /// Panics where something does not hold.
    pub check: fn(&[u8]),
}

/// Every target there is.
pub const TARGETS: &[Target] = &[
    Target { name: "frames", check: frames::check },
    Target { name: "sse", check: sse::check },
    Target { name: "files", check: files::check },
    Target { name: "rules", check: rules::check },
    Target { name: "schemas", check: schemas::check },
    Target { name: "results", check: results::check },
    Target { name: "challenges", check: challenges::check },
];

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
