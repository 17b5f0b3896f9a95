//! `.mcpb` bundles: reading and unpacking the archive safely, and verifying its signature.
//!
//! [`BundleStore::inspect`] checks a file without keeping anything, and [`BundleStore::install`] unpacks it into a folder
//! that is named by the file's SHA-256. Nothing of a bundle runs here. The command that its server runs is made by
//! `switchboard_config`: [`BundleManifest::expand`] takes the manifest, the folders and the user's values, so that a
//! plugin with a bundle needs only these two calls:
//!
//! ```no_run
//! use std::path::Path;
//! use switchboard_config::bundle::{BundleFolders, BundleInputs, BundleOutcome, BundlePlatform};
//! use switchboard_config::user_config::ValueSyntax;
//! use switchboard_packages::bundle::{BundleStore, SignatureTrust, install};
//!
//! # fn example() -> Result<(), switchboard_packages::bundle::BundleError> {
//! let store = BundleStore::new(Path::new("/data/bundles"), SignatureTrust::default());
//! let installed = install(Path::new("server.mcpb"), &store)?;
//! let folders = BundleFolders::new(&installed.folder, Path::new("/users/ada"));
//! let given = serde_json::Map::new();
//! let inputs = BundleInputs {
//!     folders: &folders,
//!     platform: BundlePlatform::CURRENT,
//!     given: &given,
//!     syntax: ValueSyntax::Literal,
//! };
//! match installed.manifest.expand(&inputs).outcome {
//!     BundleOutcome::Runs(stdio) => drop(stdio),
//!     BundleOutcome::NeedsConfig(keys) => drop(keys),
//!     BundleOutcome::Fails(problem) => drop(problem),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`BundleManifest::expand`]: switchboard_config::bundle::BundleManifest::expand

pub(crate) mod archive;
pub(crate) mod entry_name;
mod error;
mod signature;
mod store;

pub use archive::UnpackLimits;
pub use error::{ArchiveError, BundleError, NameFault, SignatureFault};
pub use signature::{ChainFault, SignatureState, SignatureTrust, Signer};
pub use store::{BundleStore, InspectedBundle, InstalledBundle, install};
