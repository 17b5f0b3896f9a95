//! The installed bundles: one folder for each, named by the SHA-256 of its file. A bundle appears in one step, when it is
//! complete.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use switchboard_config::bundle::{
    BundleHash, BundleManifest, CONTENT_FOLDER, MANIFEST_FILE, ManifestWarning,
};
use tempfile::TempDir;

use super::archive::{CheckedArchive, UnpackLimits};
use super::error::{BundleError, SignatureFault};
use super::signature::{SignatureState, SignatureTrust, find_block};
use crate::download::{DOWNLOAD_PREFIX, hex};
use crate::replace::replace_folder;

/// The file beside the content that says where a bundle came from.
const RECORD_FILE: &str = "bundle.json";
const DRAFT_PREFIX: &str = ".unpack-";
/// After this time a folder of an interrupted installation is removed.
const DRAFT_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
const BUFFER_SIZE: usize = 64 * 1024;

/// The folder of the installed bundles, and what decides whether one is accepted.
#[derive(Debug, Clone)]
pub struct BundleStore {
    folder: PathBuf,
    trust: SignatureTrust,
    limits: UnpackLimits,
}

/// A bundle's file, checked but not installed.
#[derive(Debug, Clone)]
pub struct InspectedBundle {
    /// The SHA-256 of the file.
    pub hash: BundleHash,
    /// Its size in bytes.
    pub size: u64,
    /// Its manifest.
    pub manifest: BundleManifest,
    /// What of the manifest is ignored.
    pub warnings: Vec<ManifestWarning>,
    /// What its signature proves.
    pub signature: SignatureState,
    /// The names of its files. Untrusted text.
    pub files: Vec<String>,
}

/// An installed bundle.
#[derive(Debug, Clone)]
pub struct InstalledBundle {
    /// The folder with its files.
    pub folder: PathBuf,
    /// Its manifest.
    pub manifest: BundleManifest,
    /// What of the manifest is ignored.
    pub warnings: Vec<ManifestWarning>,
    /// The SHA-256 of its file.
    pub hash: BundleHash,
    /// What its signature proved when it was installed, by the name of the state.
    pub signature: String,
    /// Who signed it. Untrusted text.
    pub signer: Option<String>,
    /// The name of its file. Untrusted text.
    pub file_name: Option<String>,
}

/// Installs a bundle; see [`BundleStore::install`].
pub fn install(path: &Path, store: &BundleStore) -> Result<InstalledBundle, BundleError> {
    store.install(path)
}

impl InspectedBundle {
    /// Whether the file that starts the server is not in the bundle, though its manifest says so.
    pub fn lacks_entry_point(&self) -> bool {
        let written = self.manifest.server.entry_point.replace('\\', "/");
        let wanted = written.strip_prefix("./").unwrap_or(&written);
        let is_it = |name: &String| {
            // One manifest describes programs of several platforms.
            name == wanted || name.strip_suffix(".exe").is_some_and(|it| it == wanted)
        };
        !self.files.iter().any(is_it)
    }
}

impl BundleStore {
    /// The bundles below a folder.
    pub fn new(folder: &Path, trust: SignatureTrust) -> BundleStore {
        BundleStore { folder: folder.to_owned(), trust, limits: UnpackLimits::default() }
    }

    /// The same with other limits.
    pub fn with_limits(self, limits: UnpackLimits) -> BundleStore {
        BundleStore { limits, ..self }
    }

    /// Checks a bundle without keeping anything of it. A broken signature is part of the result.
    pub fn inspect(&self, path: &Path) -> Result<InspectedBundle, BundleError> {
        let opened = self.open(path)?;
        self.check(path, &opened).map(|(inspected, _)| inspected)
    }

    /// Checks and unpacks a bundle. One that is installed already is left as it is, unless files of it are missing or
    /// changed: then it is replaced.
    pub fn install(&self, path: &Path) -> Result<InstalledBundle, BundleError> {
        let write = |source| BundleError::Write { folder: self.folder.clone(), source };
        fs::create_dir_all(&self.folder).map_err(write)?;
        self.remove_old_drafts();
        let draft = tempfile::Builder::new()
            .prefix(DRAFT_PREFIX)
            .tempdir_in(&self.folder)
            .map_err(write)?;
        // Another program could change the file between the checks.
        let copy = draft.path().join("file");
        let opened = self.open_copy(path, &copy)?;
        let (inspected, mut archive) = self.check(path, &opened)?;
        if let SignatureState::Broken(source) = inspected.signature {
            return Err(BundleError::BrokenSignature { path: path.to_owned(), source });
        }
        let target = self.folder.join(inspected.hash.digits());
        let is_complete = target.exists() && archive.is_unpacked_in(&target.join(CONTENT_FOLDER));
        if !is_complete {
            let bundle = draft.path().join("bundle");
            let content = bundle.join(CONTENT_FOLDER);
            fs::create_dir_all(&content).map_err(write)?;
            archive
                .unpack(&content)
                .map_err(|source| BundleError::Archive { path: path.to_owned(), source })?;
            write_record(&bundle, path, &inspected).map_err(write)?;
            publish(&bundle, &target).map_err(write)?;
        }
        drop(archive);
        close_draft(draft);
        self.installed(&inspected.hash)
    }

    /// The installed bundle with this hash.
    pub fn installed(&self, hash: &BundleHash) -> Result<InstalledBundle, BundleError> {
        let bundle = self.folder.join(hash.digits());
        let folder = bundle.join(CONTENT_FOLDER);
        let path = folder.join(MANIFEST_FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(BundleError::NotInstalled { hash: hash.clone() });
            }
            Err(source) => return Err(BundleError::Read { path, source }),
        };
        let (manifest, warnings) = BundleManifest::parse(&text)
            .map_err(|source| BundleError::Manifest { path, source })?;
        let record = fs::read_to_string(bundle.join(RECORD_FILE)).unwrap_or_default();
        let record: Json = serde_json::from_str(&record).unwrap_or_default();
        let text = |key: &str| record.get(key).and_then(Json::as_str).map(str::to_owned);
        Ok(InstalledBundle {
            folder,
            manifest,
            warnings,
            hash: hash.clone(),
            signature: text("signature").unwrap_or_else(|| "unknown".to_owned()),
            signer: text("signer"),
            file_name: text("file"),
        })
    }

    /// The hashes of the installed bundles, in order.
    pub fn hashes(&self) -> Result<Vec<BundleHash>, BundleError> {
        let entries = match self.folder.read_dir() {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(BundleError::Read { path: self.folder.clone(), source }),
        };
        let mut hashes: Vec<BundleHash> = entries
            .flatten()
            .filter_map(|entry| BundleHash::parse(entry.file_name().to_str()?))
            .collect();
        hashes.sort();
        Ok(hashes)
    }

    /// Removes an installed bundle. It disappears in one step; its files are deleted after that.
    pub fn remove(&self, hash: &BundleHash) -> Result<(), BundleError> {
        let write = |source| BundleError::Write { folder: self.folder.clone(), source };
        let bundle = self.folder.join(hash.digits());
        if !bundle.exists() {
            return Err(BundleError::NotInstalled { hash: hash.clone() });
        }
        let draft = tempfile::Builder::new()
            .prefix(DRAFT_PREFIX)
            .tempdir_in(&self.folder)
            .map_err(write)?;
        fs::rename(&bundle, draft.path().join("bundle")).map_err(write)?;
        close_draft(draft);
        Ok(())
    }

    fn open(&self, path: &Path) -> Result<OpenedFile, BundleError> {
        let read = |source| BundleError::Read { path: path.to_owned(), source };
        let file = open_regular(path).map_err(read)?;
        self.digest(path, file)
    }

    /// Copies the file, and opens the copy.
    fn open_copy(&self, path: &Path, copy: &Path) -> Result<OpenedFile, BundleError> {
        let read = |source| BundleError::Read { path: path.to_owned(), source };
        let write = |source| BundleError::Write { folder: self.folder.clone(), source };
        let file = open_regular(path).map_err(read)?;
        let mut written = File::create_new(copy).map_err(write)?;
        let limited = self.limits.file_size.saturating_add(1);
        io::copy(&mut file.take(limited), &mut written).map_err(read)?;
        drop(written);
        let file = File::open(copy).map_err(write)?;
        self.digest(path, file)
    }

    fn digest(&self, path: &Path, mut file: File) -> Result<OpenedFile, BundleError> {
        let read = |source| BundleError::Read { path: path.to_owned(), source };
        let limit = self.limits.file_size;
        let size = file.metadata().map_err(read)?.len();
        if size > limit {
            return Err(BundleError::TooLarge { path: path.to_owned(), limit });
        }
        let block = find_block(&mut file, size).map_err(read)?;
        let content_size = match &block {
            Ok(Some(block)) => block.content_size,
            Ok(None) | Err(_) => size,
        };
        file.seek(SeekFrom::Start(0)).map_err(read)?;
        let mut hasher = Sha256::new();
        update(&mut hasher, &mut (&file).take(content_size)).map_err(read)?;
        let content = hasher.clone().finalize();
        update(&mut hasher, &mut &file).map_err(read)?;
        let signature = match block {
            Ok(None) => SignatureState::Unsigned,
            Ok(Some(block)) => block.verify(&content, &self.trust),
            Err(fault) => SignatureState::Broken(fault),
        };
        let hash = BundleHash::parse(&hex(&hasher.finalize())).expect("a SHA-256 has 64 digits");
        Ok(OpenedFile { file, size, content_size, hash, signature })
    }

    fn check<'f>(
        &self,
        path: &Path,
        opened: &'f OpenedFile,
    ) -> Result<(InspectedBundle, CheckedArchive<'f>), BundleError> {
        let fail = |source| BundleError::Archive { path: path.to_owned(), source };
        if let SignatureState::Broken(source @ SignatureFault::Block) = opened.signature {
            return Err(BundleError::BrokenSignature { path: path.to_owned(), source });
        }
        let mut archive =
            CheckedArchive::open(&opened.file, opened.content_size, self.limits).map_err(fail)?;
        let text = archive.manifest().map_err(fail)?;
        let (manifest, warnings) = BundleManifest::parse(&text)
            .map_err(|source| BundleError::Manifest { path: path.to_owned(), source })?;
        let inspected = InspectedBundle {
            hash: opened.hash.clone(),
            size: opened.size,
            manifest,
            warnings,
            signature: opened.signature.clone(),
            files: archive.file_names().map(str::to_owned).collect(),
        };
        Ok((inspected, archive))
    }

    fn remove_old_drafts(&self) {
        let Ok(entries) = self.folder.read_dir() else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_draft = name.starts_with(DRAFT_PREFIX) || name.starts_with(DOWNLOAD_PREFIX);
            let age = entry.metadata().and_then(|it| it.modified()).ok();
            let is_old = age.and_then(|it| it.elapsed().ok()).is_some_and(|it| it > DRAFT_LIFETIME);
            if is_draft && is_old {
                // The next installation tries again.
                let _left = match entry.file_type() {
                    Ok(kind) if kind.is_dir() => fs::remove_dir_all(entry.path()),
                    Ok(_) | Err(_) => fs::remove_file(entry.path()),
                };
            }
        }
    }
}

/// A bundle's file whose bytes are known.
struct OpenedFile {
    file: File,
    size: u64,
    content_size: u64,
    hash: BundleHash,
    signature: SignatureState,
}

fn update(hasher: &mut Sha256, from: &mut dyn Read) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_SIZE];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            count => hasher.update(&buffer[..count]),
        }
    }
}

/// Opens a file, but no pipe, which would block.
fn open_regular(path: &Path) -> io::Result<File> {
    match path.metadata()?.is_file() {
        true => File::open(path),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

fn write_record(bundle: &Path, path: &Path, inspected: &InspectedBundle) -> io::Result<()> {
    let record = json!({
        "file": path.file_name().map(|name| name.to_string_lossy()),
        "sha256": inspected.hash.digits(),
        "size": inspected.size,
        "signature": inspected.signature.id(),
        "signer": inspected.signature.signer().map(|it| it.subject.as_str()),
    });
    fs::write(bundle.join(RECORD_FILE), format!("{record:#}\n"))
}

/// Moves a complete bundle to its place; one that is damaged is replaced. Another process may have installed the same one
/// meanwhile.
fn publish(bundle: &Path, target: &Path) -> io::Result<()> {
    let store = target.parent().unwrap_or(target);
    let is_there = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists)
    };
    match replace_folder(bundle, target, store) {
        Err(error) if is_there(&error) && target.is_dir() => Ok(()),
        replaced => replaced,
    }
}

/// Deletes a temporary folder. What is left after a failure is removed by a later installation.
fn close_draft(draft: TempDir) {
    let _left = draft.close();
}
