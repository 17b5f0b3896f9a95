//! The plugins of `--plugin-dir` and `--plugin-dir-no-mcp`: folders as they are, and archives that are unpacked once.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use switchboard::config::display::printable;
use switchboard::config::plugin::{McpServers, PluginManifest};
use switchboard::sources::plugins::{SessionPlugin, SessionServers, read_manifest};
use switchboard_packages::bundle::{BundleStore, SignatureTrust};
use switchboard_packages::plugin::{PluginStore, unpack_plugin};

use crate::env::ProcessEnv;
use crate::exit::Exit;
use crate::outcome::Failure;

/// The plugins that options name. Nothing of them runs here.
pub fn session_plugins(
    env: &ProcessEnv,
    used: &[PathBuf],
    ignored: &[PathBuf],
) -> Result<Vec<SessionPlugin>, Failure> {
    let used = used.iter().map(|it| (it, SessionServers::Used));
    let ignored = ignored.iter().map(|it| (it, SessionServers::Ignored));
    used.chain(ignored).map(|(path, servers)| session_plugin(env, path, servers)).collect()
}

fn session_plugin(
    env: &ProcessEnv,
    path: &Path,
    servers: SessionServers,
) -> Result<SessionPlugin, Failure> {
    let path = env.working_folder.join(path);
    let shown = env.display_path(&path);
    let refused = |error: &dyn std::error::Error| Failure {
        causes: vec![printable(&error.to_string())],
        ..Failure::new(Exit::Usage, &format!("--plugin-dir: {shown} cannot be used"))
    };
    let real = path.canonicalize().map_err(|error| refused(&error))?;
    let root = match real.is_dir() {
        true => real,
        false => unpacked(env, &real).map_err(|error| {
            let failure =
                Failure::new(Exit::Usage, &format!("--plugin-dir: {shown} cannot be used"));
            failure.caused_by(error)
        })?,
    };
    let mut bundles = BTreeMap::new();
    if servers == SessionServers::Used {
        // What is wrong with the manifest is a problem of the configuration.
        let text = read_manifest(&root).ok().flatten();
        let manifest = text.and_then(|it| PluginManifest::parse(&it.text).ok()).unwrap_or_default();
        let store = BundleStore::new(&env.paths.bundles(), SignatureTrust::public());
        for servers in &manifest.servers {
            let McpServers::Bundle(path) = servers else { continue };
            let file = path.below(&root);
            let is_inside = file.canonicalize().is_ok_and(|it| it.starts_with(&root));
            // A bundle that cannot be installed is a problem of the configuration too.
            if let (true, Ok(installed)) = (is_inside, store.install(&file)) {
                bundles.insert(path.to_string(), installed.hash);
            }
        }
    }
    Ok(SessionPlugin { root, servers, bundles })
}

/// The files of an archive, in a folder that is named by its hash.
fn unpacked(
    env: &ProcessEnv,
    archive: &Path,
) -> Result<PathBuf, switchboard_packages::plugin::PluginFetchError> {
    use switchboard_packages::plugin::PluginFetchError;
    let store = PluginStore::new(&env.paths.plugin_store());
    let read = |source| PluginFetchError::Write { folder: archive.to_owned(), source };
    let hash = hash_of(archive).map_err(read)?;
    let target = store.session(&hash);
    if !target.is_dir() {
        let files = unpack_plugin(&store, archive)?;
        store.publish(&files.root, &target)?;
    }
    store.keep_session(&hash);
    target.canonicalize().map_err(read)
}

/// The hash of a whole archive: two of the same beginning must not be one.
fn hash_of(file: &Path) -> std::io::Result<String> {
    let limit = switchboard_packages::download::MAX_DOWNLOAD_SIZE;
    let mut bytes = Vec::new();
    std::fs::File::open(file)?.take(limit + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(std::io::Error::other(format!("it is larger than {limit} bytes"))),
        false => Ok(switchboard::config::entry::sha256(&bytes)),
    }
}
