//! Reads the folder of one plugin: its manifest, and the servers that it defines in several places.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use switchboard_config::bundle::BundleHash;
use switchboard_config::entry::name::{ReservedNames, ServerName};
use switchboard_config::file::plugin_servers::{
    BundlePiece, PluginFolders, PluginServers, inline_layer, manifest_problems,
};
use switchboard_config::file::{FileShape, Layer, Naming, OptionValues};
use switchboard_config::plugin::{
    MANIFEST_FILE, MANIFEST_FOLDER, MarketplaceEntry, McpServers, PluginId, PluginManifest,
    PluginOrigin, PluginProblem, PluginValues, RelativePath, Strictness,
};
use switchboard_config::problem::{Problem, ProblemKind};
use switchboard_config::scope::Scope;
use switchboard_config::source::Source;

use crate::sources::bundles::InstalledBundles;
use crate::sources::paths::PROJECT_FILE;
use crate::sources::text_file;
use crate::sources::text_file::{AllowedFiles, FileContent};

/// The folder of a plugin, and what decides about its servers.
pub(super) struct PluginFolder<'a> {
    pub(super) id: &'a PluginId,
    pub(super) root: &'a Path,
    pub(super) data: &'a Path,
    pub(super) project: &'a Path,
    pub(super) home: &'a Path,
    pub(super) entry: Option<&'a MarketplaceEntry>,
    pub(super) bundles: &'a BTreeMap<String, BundleHash>,
    pub(super) installed: &'a InstalledBundles,
    pub(super) values: &'a PluginValues<OptionValues>,
    pub(super) approval_key: Option<String>,
}

/// A plugin that cannot be used.
#[derive(Debug, Clone)]
pub struct FolderError {
    /// The file that is wrong, or the plugin's folder.
    pub file: PathBuf,
    /// What is wrong.
    pub problem: PluginProblem,
}

/// The text of a file in a plugin.
#[derive(Debug, Clone)]
pub struct PluginText {
    /// The file.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

/// Reads a file of a plugin; `None` if it does not exist. A link must not lead out of the plugin.
pub fn read_inside(root: &Path, path: &RelativePath) -> Result<Option<PluginText>, PluginProblem> {
    let file = path.below(root);
    let leaves = || PluginProblem::LeavesPlugin { path: path.to_string() };
    let real_root = root.canonicalize().map_err(|_| PluginProblem::NoFolder)?;
    match file.canonicalize() {
        Ok(real) if !real.starts_with(&real_root) => return Err(leaves()),
        Ok(_) => {}
        Err(_) if file.symlink_metadata().is_ok() => return Err(leaves()),
        Err(_) => return Ok(None),
    }
    match text_file::read_text(&file, AllowedFiles::RegularOnly) {
        Ok(FileContent::Text(text)) => Ok(Some(PluginText { path: file, text })),
        Ok(FileContent::Absent) => Ok(None),
        Err(why) => Err(PluginProblem::Unreadable { path: path.to_string(), why: why.to_string() }),
    }
}

/// Reads the manifest of a plugin, which need not exist.
pub fn read_manifest(root: &Path) -> Result<Option<PluginText>, PluginProblem> {
    for path in [format!("./{MANIFEST_FOLDER}/{MANIFEST_FILE}"), format!("./{MANIFEST_FILE}")] {
        let path = RelativePath::parse(&path).map_err(PluginProblem::Path)?;
        if let Some(text) = read_inside(root, &path)? {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

impl PluginFolder<'_> {
    /// Reads everything. Adds the files that were read to `files`.
    pub(super) fn read(
        &self,
        files: &mut Vec<PathBuf>,
    ) -> Result<(Layer, PluginManifest), FolderError> {
        let fail = |file: &Path, problem| FolderError { file: file.to_owned(), problem };
        if !self.root.is_dir() {
            return Err(fail(self.root, PluginProblem::NoFolder));
        }
        let manifest_file = self.root.join(MANIFEST_FOLDER).join(MANIFEST_FILE);
        files.push(manifest_file.clone());
        let text = read_manifest(self.root).map_err(|it| fail(&manifest_file, it))?;
        let file = text.as_ref().map_or(manifest_file, |it| it.path.clone());
        let own = match &text {
            None => PluginManifest::default(),
            Some(text) => PluginManifest::parse(&text.text)
                .map_err(|error| fail(&file, PluginProblem::Manifest(error)))?,
        };
        let source = Source::file(Scope::Plugin, &file);
        let mut pieces = vec![self.problems_of(&own, &source)];
        let path = RelativePath::parse(&format!("./{PROJECT_FILE}"));
        let path = path.map_err(|fault| fail(self.root, PluginProblem::Path(fault)))?;
        pieces
            .extend(self.file_piece(&path, files).map_err(|it| fail(&path.below(self.root), it))?);
        let manifest = match self.entry {
            None => own,
            Some(entry) => match entry.strictness {
                Strictness::OnlyEntry if own.has_components() => {
                    return Err(fail(&file, PluginProblem::Contradiction));
                }
                Strictness::OnlyEntry => described_by(entry, own),
                Strictness::OwnManifest => with_entry(own, entry),
            },
        };
        for servers in &manifest.servers {
            match servers {
                McpServers::File(path) => {
                    let piece = self.file_piece(path, files).map_err(|it| fail(&file, it))?;
                    let missing = || PluginProblem::NoFile { path: path.to_string() };
                    pieces.push(piece.ok_or_else(|| fail(&file, missing()))?);
                }
                McpServers::Inline(inline) => {
                    pieces.push(inline_layer(&source, &self.id.plugin, inline));
                }
                McpServers::Bundle(path) => pieces.push(self.bundle(&path.to_string(), &source)),
                McpServers::BundleUrl(url) => pieces.push(self.bundle(url, &source)),
            }
        }
        let servers = PluginServers {
            origin: PluginOrigin {
                id: self.id.clone(),
                approval_key: self.approval_key.clone(),
                root: self.root.to_owned(),
            },
            folders: PluginFolders {
                root: self.root,
                data: self.data,
                project: self.project,
                home: self.home,
            },
            source,
            pieces,
            user_config: &manifest.user_config,
            values: self.values,
        };
        Ok((servers.into_layer(), manifest))
    }

    /// What is wrong with a manifest, as a piece without servers.
    fn problems_of(&self, manifest: &PluginManifest, source: &std::sync::Arc<Source>) -> Layer {
        let mut problems = manifest_problems(manifest, source);
        if let (Some(name), Some(_)) = (&manifest.name, self.entry)
            && *name != self.id.plugin
        {
            let found = name.clone();
            let kind = ProblemKind::Plugin(PluginProblem::OtherName { found });
            problems.push(Problem::for_source(source, kind));
        }
        Layer { problems, ..Layer::empty(source) }
    }

    fn file_piece(
        &self,
        path: &RelativePath,
        files: &mut Vec<PathBuf>,
    ) -> Result<Option<Layer>, PluginProblem> {
        files.push(path.below(self.root));
        let text = read_inside(self.root, path)?;
        Ok(text.map(|PluginText { path, text }| {
            let source = Source::file(Scope::Plugin, path);
            let naming = Naming::Plugin(&self.id.plugin);
            Layer::read(&source, &text, naming, FileShape::WrappedOrBare)
        }))
    }

    /// The server of a bundle. One that was not installed with the plugin is a problem.
    fn bundle(&self, written: &str, source: &std::sync::Arc<Source>) -> Layer {
        let not_installed = || {
            let is_url = RelativePath::parse(written).is_err();
            let kind = ProblemKind::Plugin(match self.entry {
                None if is_url => PluginProblem::BundleNotDownloaded { url: written.to_owned() },
                Some(_) | None => PluginProblem::BundleNotInstalled { name: written.to_owned() },
            });
            let problem = Problem::for_source(source, kind);
            let problem = Problem { server: Some(self.id.to_string()), ..problem };
            Layer { problems: vec![problem], ..Layer::empty(source) }
        };
        let Some(hash) = self.bundles.get(written) else { return not_installed() };
        let Ok(manifest) = self.installed.manifest(hash) else { return not_installed() };
        let name = match ServerName::parse(&manifest.name, ReservedNames::Allowed) {
            Ok(name) => name.to_string(),
            Err(_) => match ServerName::suggestion(&manifest.name) {
                Some(name) => name.to_string(),
                None => "server".to_owned(),
            },
        };
        let values = self.values.servers.get(&name).cloned().unwrap_or_default();
        BundlePiece { hash, name: &name, values: &values }.layer(source, &self.id.plugin)
    }
}

/// The plugin's own manifest, and what the entry adds.
fn with_entry(own: PluginManifest, entry: &MarketplaceEntry) -> PluginManifest {
    let about = entry.about.clone();
    let user_config = if own.user_config.is_empty() { about.user_config } else { own.user_config };
    PluginManifest {
        name: about.name,
        display_name: own.display_name.or(about.display_name),
        version: own.version.or(about.version),
        description: own.description.or(about.description),
        author: own.author.or(about.author),
        homepage: own.homepage.or(about.homepage),
        license: own.license.or(about.license),
        default_enabled: about.default_enabled.or(own.default_enabled),
        servers: [own.servers, about.servers].concat(),
        user_config,
        channels: [own.channels, about.channels].concat(),
        other_components: [own.other_components, about.other_components].concat(),
        ..own
    }
}

/// The entry, whose texts the plugin's own manifest completes.
fn described_by(entry: &MarketplaceEntry, own: PluginManifest) -> PluginManifest {
    let about = entry.about.clone();
    PluginManifest {
        display_name: about.display_name.or(own.display_name),
        version: about.version.or(own.version),
        description: about.description.or(own.description),
        author: about.author.or(own.author),
        homepage: about.homepage.or(own.homepage),
        license: about.license.or(own.license),
        ..about
    }
}
