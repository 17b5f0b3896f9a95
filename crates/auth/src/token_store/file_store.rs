//! Login records in a private folder: one file each, replaced atomically, written by one process at a time.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use tokio::task::spawn_blocking;

use super::file_lock;
use super::file_lock::StoreLock;
use super::keychain::{self, Keychain, KeychainError};
use super::record_cipher::RecordCipher;
use super::{LoginKey, LoginRecord, StoreFuture, TokenStore, TokenStoreError, WriteOutcome};

const DRAFT_PREFIX: &str = ".swb-draft-";
const LOCK_FILE: &str = ".swb.lock";
const FILE_SUFFIX: &str = ".login";
/// The maximum size of a file.
const MAX_FILE_SIZE: u64 = 4 * 1024 * 1024;

/// The permitted storage of records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StoragePreference {
    /// The keychain if it works, else plain files. [`StorageBackend`] tells which.
    #[default]
    PreferKeychain,
    /// The keychain only.
    RequireKeychain,
    /// Plain files.
    File,
}

/// The storage of records.
#[derive(Debug)]
pub enum StorageBackend {
    /// In encrypted files; the key is in the system keychain.
    Keychain,
    /// In plain files that only the owner can read.
    File {
        /// Why the keychain is not used, if it was tried.
        keychain_error: Option<KeychainError>,
    },
}

/// A folder of login records. Clones share it.
#[derive(Debug, Clone)]
pub struct FileTokenStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    cipher: RecordCipher,
}

impl FileTokenStore {
    /// Opens a folder, and creates it if it does not exist.
    pub async fn open(
        folder: &Path,
        preference: StoragePreference,
        keychain: Option<&dyn Keychain>,
    ) -> Result<(FileTokenStore, StorageBackend), TokenStoreError> {
        create_private_dir(folder)?;
        let key_result = match (preference, keychain) {
            (StoragePreference::File, _) => None,
            (StoragePreference::PreferKeychain | StoragePreference::RequireKeychain, None) => {
                Some(Err(KeychainError::Unavailable))
            }
            (
                StoragePreference::PreferKeychain | StoragePreference::RequireKeychain,
                Some(keychain),
            ) => {
                // Two processes that start at the same time must not create two keys.
                let _lock = file_lock::lock(&folder.join(".swb.keychain.lock")).await?;
                Some(keychain::load_or_create_key(keychain).await)
            }
        };
        let (cipher, backend) = match key_result {
            Some(Ok(key)) => (RecordCipher::new(&key), StorageBackend::Keychain),
            Some(Err(error)) if preference == StoragePreference::RequireKeychain => {
                return Err(error.into());
            }
            Some(Err(error)) => {
                (RecordCipher::Plaintext, StorageBackend::File { keychain_error: Some(error) })
            }
            None => (RecordCipher::Plaintext, StorageBackend::File { keychain_error: None }),
        };
        let folder = folder.to_owned();
        Ok((FileTokenStore { inner: Arc::new(Inner { folder, cipher }) }, backend))
    }

    fn run_blocking<'a, T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, TokenStoreError> + Send + 'static,
    ) -> StoreFuture<'a, T> {
        let inner = self.inner.clone();
        Box::pin(async move {
            match spawn_blocking(move || work(&inner)).await {
                Ok(done) => done,
                Err(_) => Err(io::Error::other("the task was cancelled").into()),
            }
        })
    }
}

impl TokenStore for FileTokenStore {
    fn find<'a>(
        &'a self,
        server: &'a str,
        client: &'a str,
    ) -> StoreFuture<'a, Option<LoginRecord>> {
        let prefix = short_hash(&[server, client]);
        let (server, client) = (server.to_owned(), client.to_owned());
        self.run_blocking(move |inner| {
            let mut latest: Option<LoginRecord> = None;
            let mut last_error = None;
            for name in inner.file_names()?.filter(|name| name.starts_with(&prefix)) {
                match inner.load(&name) {
                    Ok(Some(record))
                        if (&record.key.server, &record.key.client) == (&server, &client) =>
                    {
                        let is_later = |it: &LoginRecord| it.signed_in_at <= record.signed_in_at;
                        if latest.as_ref().is_none_or(is_later) {
                            latest = Some(record);
                        }
                    }
                    Ok(_) => {}
                    Err(error) => last_error = Some(error),
                }
            }
            match (latest, last_error) {
                (Some(record), _) => Ok(Some(record)),
                (None, Some(error)) => Err(error),
                (None, None) => Ok(None),
            }
        })
    }

    fn read<'a>(&'a self, key: &'a LoginKey) -> StoreFuture<'a, Option<LoginRecord>> {
        let name = file_name(key);
        self.run_blocking(move |inner| inner.load(&name))
    }

    fn compare_and_swap<'a>(&'a self, record: &'a LoginRecord) -> StoreFuture<'a, WriteOutcome> {
        let mut record = record.clone();
        self.run_blocking(move |inner| {
            let name = file_name(&record.key);
            inner.if_unchanged(&name, record.version, |inner| {
                record.version += 1;
                let text = serde_json::to_string(&record).map_err(|_| TokenStoreError::Corrupt)?;
                inner.write_file(&name, &inner.cipher.encrypt(&name, text)?)?;
                Ok(record.version)
            })
        })
    }

    fn remove<'a>(&'a self, key: &'a LoginKey, version: u64) -> StoreFuture<'a, WriteOutcome> {
        let name = file_name(key);
        self.run_blocking(move |inner| {
            inner.if_unchanged(&name, version, |inner| {
                match fs::remove_file(inner.folder.join(&name)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
                    Ok(()) | Err(_) => Ok(version),
                }
            })
        })
    }

    fn all<'a>(&'a self) -> StoreFuture<'a, Vec<LoginRecord>> {
        self.run_blocking(|inner| {
            let loaded = inner.file_names()?.filter_map(|name| inner.load(&name).ok().flatten());
            Ok(loaded.collect())
        })
    }

    fn lock<'a>(&'a self, key: &'a LoginKey) -> StoreFuture<'a, StoreLock> {
        let name = file_name(key).replace(FILE_SUFFIX, ".lock");
        Box::pin(async move { file_lock::lock(&self.inner.folder.join(name)).await })
    }
}

impl Inner {
    fn file_names(&self) -> Result<impl Iterator<Item = String> + use<>, TokenStoreError> {
        let entries = fs::read_dir(&self.folder)?.flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        Ok(names.filter(|name| name.ends_with(FILE_SUFFIX)))
    }

    fn load(&self, name: &str) -> Result<Option<LoginRecord>, TokenStoreError> {
        let file = match File::open(self.folder.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut content = Vec::new();
        file.take(MAX_FILE_SIZE).read_to_end(&mut content)?;
        let text = self.cipher.decrypt(name, &content)?;
        let record: LoginRecord =
            serde_json::from_str(&text).map_err(|_| TokenStoreError::Corrupt)?;
        match file_name(&record.key) == name {
            true => Ok(Some(record)),
            false => Err(TokenStoreError::Corrupt),
        }
    }

    /// Runs `act` under the folder's lock if the stored version equals `version`.
    fn if_unchanged(
        &self,
        name: &str,
        version: u64,
        act: impl FnOnce(&Inner) -> Result<u64, TokenStoreError>,
    ) -> Result<WriteOutcome, TokenStoreError> {
        let _lock = file_lock::lock_blocking(&self.folder.join(LOCK_FILE))?;
        self.remove_stale_drafts();
        let stored = match self.load(name) {
            Ok(stored) => stored,
            // An unreadable record must not prevent a new login.
            Err(TokenStoreError::Sealed | TokenStoreError::Corrupt) if version == 0 => None,
            Err(error) => return Err(error),
        };
        match stored.as_ref().map_or(0, |stored| stored.version) == version {
            true => act(self).map(WriteOutcome::Written),
            false => Ok(WriteOutcome::Conflict(stored.map(Box::new))),
        }
    }

    fn write_file(&self, name: &str, content: &[u8]) -> io::Result<()> {
        // Temporary files are private from their first byte.
        let mut draft = tempfile::Builder::new().prefix(DRAFT_PREFIX).tempfile_in(&self.folder)?;
        draft.write_all(content)?;
        draft.as_file().sync_all()?;
        draft.persist(self.folder.join(name)).map_err(|error| error.error)?;
        sync_dir(&self.folder)
    }

    /// Removes the temporary files of killed processes. The caller holds the folder's lock, so no other process
    /// writes one.
    fn remove_stale_drafts(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(DRAFT_PREFIX) {
                let _already_gone = fs::remove_file(entry.path());
            }
        }
    }
}

/// Creates a folder that only its owner can read, and restricts an existing one.
fn create_private_dir(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
        builder.mode(0o700).create(folder)?;
        let is_open = folder.metadata()?.permissions().mode() & 0o077 != 0;
        match is_open {
            true => fs::set_permissions(folder, fs::Permissions::from_mode(0o700)),
            false => Ok(()),
        }
    }
    #[cfg(not(unix))]
    builder.create(folder)
}

#[cfg(unix)]
fn sync_dir(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_dir(_: &Path) -> io::Result<()> {
    Ok(())
}

/// The file name is a digest: it reveals nothing, and no server text becomes a path.
fn file_name(key: &LoginKey) -> String {
    let login = short_hash(&[&key.server, &key.client]);
    format!("{login}-{}{FILE_SUFFIX}", short_hash(&[&key.issuer]))
}

fn short_hash(parts: &[&str]) -> String {
    let mut text = String::new();
    for part in parts {
        text.push_str(&format!("{}:{part}", part.len()));
    }
    let hash = digest(&SHA256, text.as_bytes());
    hash.as_ref()[..12].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::keychain::tests::InMemoryKeychain;
    use super::super::tests::record;
    use super::super::{LoginStatus, overwrite};
    use super::*;

    async fn plain(folder: &Path) -> FileTokenStore {
        FileTokenStore::open(folder, StoragePreference::File, None).await.expect("it opens").0
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().expect("it is there").permissions().mode() & 0o777
    }

    #[tokio::test]
    async fn files_are_private_and_read_back_unchanged() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join("a/logins");
        let store = plain(&folder).await;
        let written =
            overwrite(&store, record("https://a.b", "https://c.d")).await.expect("written");
        assert_eq!(written.version, 1);
        assert_eq!(store.read(&written.key).await.expect("read"), Some(written.clone()));
        assert_eq!(store.find("https://a.b", "").await.expect("found"), Some(written.clone()));
        assert_eq!(store.find("https://a.b", "other").await.expect("looked"), None);
        assert_eq!(mode(&folder), 0o700);
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            assert_eq!(mode(&entry.path()), 0o600, "{:?}", entry.path());
        }
    }

    #[tokio::test]
    async fn an_open_folder_is_made_private() {
        let home = tempfile::tempdir().expect("a folder");
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).expect("set");
        plain(home.path()).await;
        assert_eq!(mode(home.path()), 0o700);
    }

    #[tokio::test]
    async fn only_the_current_version_can_be_changed() {
        let home = tempfile::tempdir().expect("a folder");
        let store = plain(home.path()).await;
        let first = overwrite(&store, record("https://a.b", "https://c.d")).await.expect("written");
        let second = overwrite(&store, first.clone()).await.expect("written");
        assert_eq!(second.version, 2);
        let stale = LoginRecord { status: LoginStatus::NeedsLogin, ..first.clone() };
        let swapped = store.compare_and_swap(&stale).await.expect("looked");
        let WriteOutcome::Conflict(Some(stored)) = &swapped else { panic!("{swapped:?}") };
        assert_eq!(**stored, second);
        assert!(matches!(store.remove(&first.key, 1).await, Ok(WriteOutcome::Conflict(_))));
        assert!(matches!(store.remove(&first.key, 2).await, Ok(WriteOutcome::Written(_))));
        assert_eq!(store.read(&first.key).await.expect("read"), None);
    }

    #[tokio::test]
    async fn the_latest_login_of_two_authorization_servers_is_found() {
        let home = tempfile::tempdir().expect("a folder");
        let store = plain(home.path()).await;
        let mut late = record("https://a.b", "https://new");
        late.signed_in_at += 1;
        overwrite(&store, late.clone()).await.expect("written");
        overwrite(&store, record("https://a.b", "https://old")).await.expect("written");
        let found = store.find("https://a.b", "").await.expect("found").expect("one");
        assert_eq!(found.key, late.key);
        assert_eq!(store.all().await.expect("all").len(), 2);
    }

    #[tokio::test]
    async fn with_a_keychain_files_are_encrypted() {
        let home = tempfile::tempdir().expect("a folder");
        let keychain = InMemoryKeychain::default();
        let open = || {
            FileTokenStore::open(home.path(), StoragePreference::PreferKeychain, Some(&keychain))
        };
        let (store, backend) = open().await.expect("it opens");
        assert!(matches!(backend, StorageBackend::Keychain));
        let written =
            overwrite(&store, record("https://a.b", "https://c.d")).await.expect("written");
        for entry in fs::read_dir(home.path()).expect("a folder").flatten() {
            let content = fs::read(entry.path()).expect("a file");
            assert!(!String::from_utf8_lossy(&content).contains("canary"), "{:?}", entry.path());
        }
        let (again, _) = open().await.expect("it opens");
        assert_eq!(again.read(&written.key).await.expect("read"), Some(written.clone()));
        let without = plain(home.path()).await;
        let found = without.find("https://a.b", "").await;
        assert!(matches!(found, Err(TokenStoreError::Sealed)), "{found:?}");
        // A new login replaces a record that cannot be read.
        overwrite(&without, record("https://a.b", "https://c.d")).await.expect("written");
        assert!(without.find("https://a.b", "").await.expect("found").is_some());
    }

    #[tokio::test]
    async fn a_broken_keychain_is_reported() {
        let home = tempfile::tempdir().expect("a folder");
        let forgetful = InMemoryKeychain::not_persistent();
        let (_, backend) =
            FileTokenStore::open(home.path(), StoragePreference::PreferKeychain, Some(&forgetful))
                .await
                .expect("the file does it");
        assert!(matches!(
            backend,
            StorageBackend::File { keychain_error: Some(KeychainError::NotPersistent) }
        ));
        let preference =
            FileTokenStore::open(home.path(), StoragePreference::RequireKeychain, Some(&forgetful))
                .await;
        assert!(matches!(preference, Err(TokenStoreError::Keychain(KeychainError::NotPersistent))));
    }

    #[tokio::test]
    async fn a_damaged_file_is_reported_and_affects_no_other() {
        let home = tempfile::tempdir().expect("a folder");
        let store = plain(home.path()).await;
        let good = overwrite(&store, record("https://good", "https://c.d")).await.expect("written");
        let bad = overwrite(&store, record("https://bad", "https://c.d")).await.expect("written");
        fs::write(home.path().join(file_name(&bad.key)), "{half").expect("a file");
        assert!(matches!(store.find("https://bad", "").await, Err(TokenStoreError::Corrupt)));
        assert_eq!(store.all().await.expect("the rest"), std::slice::from_ref(&good));
        // The file of one login in place of another is damage as well.
        let path = home.path().join(file_name(&bad.key));
        fs::copy(home.path().join(file_name(&good.key)), path).expect("a copy");
        assert!(matches!(store.read(&bad.key).await, Err(TokenStoreError::Corrupt)));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn concurrent_changes_are_not_lost() {
        let home = tempfile::tempdir().expect("a folder");
        let store = plain(home.path()).await;
        let key =
            overwrite(&store, record("https://a.b", "https://c.d")).await.expect("written").key;
        let add = |store: FileTokenStore, key: LoginKey| async move {
            let _lock = store.lock(&key).await.expect("locked");
            let mut record = store.read(&key).await.expect("read").expect("there");
            record.signed_in_at += 1;
            assert!(matches!(store.compare_and_swap(&record).await, Ok(WriteOutcome::Written(_))));
        };
        let tasks: Vec<_> =
            (0..16).map(|_| tokio::spawn(add(store.clone(), key.clone()))).collect();
        for task in tasks {
            task.await.expect("it does not fail");
        }
        let record = store.read(&key).await.expect("read").expect("there");
        assert_eq!((record.version, record.signed_in_at), (17, 1016));
    }
}
