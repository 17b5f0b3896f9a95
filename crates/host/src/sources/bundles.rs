//! Installed `.mcpb` bundles: where they are, and the entries of servers that name one. Installing is left to the crate
//! `packages`; only files are read here.

use std::path::{Path, PathBuf};

use switchboard_config::bundle::{
    BundleFolders, BundleHash, BundleManifest, BundlePlatform, BundleProblem, CONTENT_FOLDER,
    MANIFEST_FILE, MAX_MANIFEST_SIZE,
};
use switchboard_config::file::layer::Layer;
use switchboard_config::template::Environment;

use crate::sources::paths::Paths;
use crate::sources::text_file;
use crate::sources::text_file::{AllowedFiles, FileContent};

/// The installed bundles of a user.
#[derive(Debug, Clone)]
pub struct InstalledBundles {
    folder: PathBuf,
    home: PathBuf,
}

impl InstalledBundles {
    /// The bundles below the folders of this user.
    pub fn new(paths: &Paths, environment: &Environment) -> InstalledBundles {
        let home = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
        let home = environment.get(home).map(PathBuf::from).unwrap_or_default();
        InstalledBundles { folder: paths.bundles(), home }
    }

    /// The unpacked files of a bundle.
    pub fn content(&self, hash: &BundleHash) -> PathBuf {
        self.folder.join(hash.digits()).join(CONTENT_FOLDER)
    }

    /// The folders that a bundle may refer to.
    pub fn folders(&self, content: &Path) -> BundleFolders {
        BundleFolders::new(content, &self.home)
    }

    /// Reads the manifest of an installed bundle.
    pub fn manifest(&self, hash: &BundleHash) -> Result<BundleManifest, BundleProblem> {
        let file = self.content(hash).join(MANIFEST_FILE);
        let text = match text_file::read_text(&file, AllowedFiles::RegularOnly) {
            Ok(FileContent::Text(text)) if text.len() as u64 <= MAX_MANIFEST_SIZE => text,
            Ok(FileContent::Text(_)) | Err(_) => return Err(BundleProblem::Unreadable),
            Ok(FileContent::Absent) => {
                return Err(BundleProblem::NotInstalled { short: hash.short().to_owned() });
            }
        };
        let (manifest, _warnings) =
            BundleManifest::parse(&text).map_err(BundleProblem::Manifest)?;
        Ok(manifest)
    }

    /// Makes the entries of the servers that name a bundle.
    pub fn expand(&self, layer: &mut Layer) {
        for definition in &mut layer.definitions {
            let Some(hash) = definition.bundle_hash().cloned() else { continue };
            let manifest = self.manifest(&hash);
            let folders = self.folders(&self.content(&hash));
            let manifest = manifest.as_ref().map_err(Clone::clone);
            definition.expand_bundle(manifest, &folders, BundlePlatform::CURRENT);
        }
    }
}
