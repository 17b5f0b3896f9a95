//! What a server's entry is resolved against: home folder, working folder and variables, all given by the caller.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use switchboard_config::template::ExpandedText;

use crate::failure::{ConnectionFailure, Evidence, FailureKind};
use crate::sources::secrets;

/// The environment of the host. Its `Debug` output leaves the variables out, because some of them are secrets.
#[derive(Clone, Default)]
pub struct HostEnv {
    /// The user's home folder.
    pub home: PathBuf,
    /// The user's working folder. Local servers start in it.
    pub working_folder: PathBuf,
    /// The environment variables.
    pub variables: BTreeMap<String, String>,
}

impl fmt::Debug for HostEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostEnv({})", self.working_folder.display())
    }
}

impl HostEnv {
    /// An absolute path: `~/` is the home folder, relative paths start at the working folder.
    pub(crate) fn absolute_path(&self, path: &str) -> PathBuf {
        match path.strip_prefix("~/") {
            Some(rest) => self.home.join(rest),
            None => self.working_folder.join(Path::new(path)),
        }
    }

    /// A text with its secrets fetched. Blocks while a secret is fetched.
    pub(crate) fn reveal(&self, text: &ExpandedText) -> Result<String, ConnectionFailure> {
        let revealed = secrets::reveal_text(text, &self.home).map_err(|error| {
            let detail = format!("{error}: {}", error.kind);
            ConnectionFailure::new(FailureKind::SecretUnavailable)
                .with_evidence(Evidence::Detail(detail))
        })?;
        Ok(revealed.reveal().to_owned())
    }
}
