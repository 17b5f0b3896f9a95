//! Servers as a public registry describes them (`server.json`): read leniently, and turned into entries once the user
//! has answered what the publisher left open. Requests to a registry are left to the crate `packages`.

pub mod answers;
mod attention;
pub mod draft;
pub mod error;
mod fields;
pub mod identifier;
pub mod input;
pub mod listing;
pub mod local_name;
pub mod package;
mod package_argv;
pub mod package_type;
mod pieces;
pub mod question;
mod slot;

pub use answers::{AnswerError, Answers};
pub use draft::{EntryDraft, NewEntry};
pub use error::ListingError;
pub use listing::{ListingStatus, RegistryServer};
pub use local_name::local_name;
pub use package::{BundleSource, InstallOption, Package, Remote, Unusable};
pub use package_type::{PackageType, RemoteType};
pub use question::{Question, QuestionPlace};
