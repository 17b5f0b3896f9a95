//! Properties that hold for any input: one pure function per kind of input, which panics where a property is
//! violated. The inputs come from `main`, which libFuzzer drives, and from the test that replays the corpus.
//!
//! Every file in `corpus/<target>/` is an input without any encoding, so that it can be read and edited. Further
//! choices of a target, such as where a stream is split, derive from a hash of the input (`chunking::seed`).

pub mod bundles;
pub mod challenges;
pub mod chunking;
pub mod files;
pub mod frames;
pub mod listings;
pub mod plugins;
pub mod results;
pub mod rules;
pub mod schemas;
pub mod sse;

/// A kind of input, and the check of its properties.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is also the folder of its corpus.
    pub name: &'static str,
    /// Panics where a property is violated.
    pub check: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "frames", check: frames::check },
    Target { name: "sse", check: sse::check },
    Target { name: "files", check: files::check },
    Target { name: "rules", check: rules::check },
    Target { name: "schemas", check: schemas::check },
    Target { name: "results", check: results::check },
    Target { name: "bundles", check: bundles::check },
    Target { name: "challenges", check: challenges::check },
    Target { name: "listings", check: listings::check },
    Target { name: "plugins", check: plugins::check },
];

/// The target with this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
