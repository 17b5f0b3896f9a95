//! `.mcpb` bundles: the manifest, read loosely, and the command that it and the user's values make. Archives and
//! signatures are left to the crate `packages`, entries of configuration files that name a bundle to `file`.
//!
//! ```
//! use switchboard_config::bundle::{BundleFolders, BundleInputs, BundleManifest, BundleOutcome, BundlePlatform};
//! use switchboard_config::user_config::ValueSyntax;
//!
//! let text = r#"{"manifest_version": "0.3", "name": "files", "version": "1.0.0", "description": "Files", "author": {"name": "A"},
//!     "server": {"type": "node", "entry_point": "index.js",
//!         "mcp_config": {"command": "node", "args": ["${__dirname}/index.js", "${user_config.folder}"]}},
//!     "user_config": {"folder": {"type": "directory", "title": "Folder", "description": "What it shows", "required": true}}}"#;
//! let (manifest, warnings) = BundleManifest::parse(text).expect("the manifest is valid");
//! assert!(warnings.is_empty());
//! let folders = BundleFolders::new("/bundles/1".as_ref(), "/users/u".as_ref());
//! let none = serde_json::Map::new();
//! let mut given = none.clone();
//! given.insert("folder".to_owned(), "/srv".into());
//! let inputs = |given| BundleInputs { folders: &folders, platform: BundlePlatform::Linux, given, syntax: ValueSyntax::Literal };
//! assert!(matches!(manifest.expand(&inputs(&none)).outcome, BundleOutcome::NeedsConfig(keys) if keys == ["folder"]));
//! let BundleOutcome::Runs(stdio) = manifest.expand(&inputs(&given)).outcome else { panic!("it runs") };
//! assert_eq!(stdio.args[1].as_literal(), Some("/srv"));
//! ```

mod expansion;
mod hash;
mod manifest;
mod platform;
mod problem;

pub use expansion::{BundleFolders, BundleInputs, BundleOutcome, ExpandedBundle};
pub use hash::BundleHash;
pub use manifest::{
    BundleCommand, BundleManifest, BundleServer, BundleServerKind, CommandOverride, Compatibility,
};
pub use platform::BundlePlatform;
pub use problem::{BundleProblem, ManifestError, ManifestWarning};

/// The manifest's name in the root of a bundle.
pub const MANIFEST_FILE: &str = "manifest.json";
/// The folder of an installed bundle that contains its files.
pub const CONTENT_FOLDER: &str = "content";
/// The maximum size of a manifest in bytes.
pub const MAX_MANIFEST_SIZE: u64 = 1024 * 1024;
