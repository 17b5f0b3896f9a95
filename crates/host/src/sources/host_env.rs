//! The environment that a server's entry is resolved against: home folder, working folder and variables, set
//! by the caller.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use switchboard_config::entry::server::{ServerSpec, StartFolder};
use switchboard_config::template::ExpandedText;

use crate::failure::{ConnectionFailure, Evidence, FailureKind};
use crate::sources::secrets;

/// The environment of the host. Its `Debug` output leaves the variables out, because some of them are secrets.
#[derive(Clone, Default)]
pub struct HostEnv {
    /// The user's home folder.
    pub home: PathBuf,
    /// The user's working folder. Servers start in it, except those of a project, which start in the folder of the
    /// project.
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
    /// The environment of one server, whose relative paths start at the folder of its definition.
    pub(crate) fn of_server(&self, spec: &ServerSpec) -> Cow<'_, HostEnv> {
        match &spec.base_folder {
            None => Cow::Borrowed(self),
            Some(folder) => Cow::Owned(HostEnv { working_folder: folder.clone(), ..self.clone() }),
        }
    }

    /// The folder that the program of a server starts in, unless its entry names one.
    pub(crate) fn start_folder(&self, spec: &ServerSpec) -> PathBuf {
        match (spec.start_folder, &spec.base_folder) {
            (StartFolder::BaseFolder, Some(folder)) => folder.clone(),
            (StartFolder::BaseFolder, None) | (StartFolder::WorkingFolder, _) => {
                self.working_folder.clone()
            }
        }
    }

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
