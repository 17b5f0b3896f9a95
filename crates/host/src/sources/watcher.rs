//! Watches configuration files, so that long-running programs pick up changes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::sources::loader;
use crate::sources::loader::{Configuration, LastValidTexts, LoadOptions};

/// Changes within this time count as one: editors write in several steps.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// Limits how long a file that keeps changing delays the reload.
const MAX_DEBOUNCES: usize = 20;

/// Watches every file that the configuration was read from or could be read from. Dropping it ends the watch.
#[derive(Debug)]
pub struct ConfigWatcher {
    options: LoadOptions,
    last_valid: LastValidTexts,
    watcher: RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
    /// The paths whose events matter, shared with the watcher's thread.
    relevant_paths: watch::Sender<Vec<PathBuf>>,
    changes: mpsc::Receiver<()>,
}

impl ConfigWatcher {
    /// Starts watching; `configuration` is the last loaded one.
    pub fn start(
        options: LoadOptions,
        configuration: &Configuration,
    ) -> notify::Result<ConfigWatcher> {
        // Capacity one: a change that finds the channel full is covered by the pending one.
        let (change_sender, changes) = mpsc::channel(1);
        let (relevant, relevant_receiver) = watch::channel(Vec::new());
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| is_relevant(&event, &relevant_receiver.borrow())) {
                let _change_is_pending = change_sender.try_send(());
            }
        })?;
        // `configuration` does not hold the file texts, so read them again.
        let mut last_valid = LastValidTexts::default();
        loader::reload(&options, &mut last_valid);
        let mut config_watcher = ConfigWatcher {
            options,
            last_valid,
            watcher,
            watched: BTreeSet::new(),
            relevant_paths: relevant,
            changes,
        };
        config_watcher.update_watches(configuration);
        Ok(config_watcher)
    }

    /// Waits for the next change and loads the configuration, which may be equal to the last one. A broken file keeps
    /// its last valid meaning, and its problem is reported.
    pub async fn next(&mut self) -> Option<Configuration> {
        self.changes.recv().await?;
        for _ in 0..MAX_DEBOUNCES {
            if timeout(DEBOUNCE, self.changes.recv()).await.is_err() {
                break;
            }
        }
        loop {
            let (options, mut last_valid) = (self.options.clone(), self.last_valid.clone());
            let loading = tokio::task::spawn_blocking(move || {
                (loader::reload(&options, &mut last_valid), last_valid)
            });
            let (configuration, last_valid) = loading.await.ok()?;
            self.last_valid = last_valid;
            // Changes in a folder before its watch began would be missed: load again.
            if self.update_watches(&configuration) == WatchChange::Unchanged {
                let problems = configuration.effective.problems.len();
                info!(problems, "configuration reloaded");
                return Some(configuration);
            }
        }
    }

    /// Watches folders, not files: files may be replaced or created later.
    fn update_watches(&mut self, configuration: &Configuration) -> WatchChange {
        let sources = configuration.sources.iter().filter_map(|it| it.source.path());
        let mut folders: BTreeSet<PathBuf> =
            sources.filter_map(|path| nearest_folder(path.parent()?)).collect();
        folders.extend(nearest_folder(&self.options.paths.plugins()));
        let files = configuration.files.iter();
        folders.extend(files.filter_map(|path| nearest_folder(path.parent()?)));
        folders.extend(nearest_folder(&self.options.paths.state));
        folders.extend(nearest_folder(&self.options.paths.connectors()));
        let paths = &self.options.paths;
        let sources = configuration.sources.iter().filter_map(|it| it.source.path());
        let mut relevant: Vec<PathBuf> = sources.map(Path::to_owned).collect();
        relevant.extend(configuration.files.iter().cloned());
        relevant.extend([paths.plugins(), paths.approvals(), paths.connectors()]);
        self.relevant_paths.send_replace(relevant);
        for folder in self.watched.difference(&folders) {
            let _gone_already = self.watcher.unwatch(folder);
        }
        for folder in &folders {
            // Watched folders are added again, because a folder may have been recreated. Changes in a folder that
            // cannot be watched are seen at the next start.
            if self.watcher.watch(folder, RecursiveMode::NonRecursive).is_err() {
                warn!(folder = %folder.display(), "changes in this folder are not noticed");
            }
        }
        let is_new = !folders.is_subset(&self.watched);
        self.watched = folders;
        if is_new { WatchChange::Added } else { WatchChange::Unchanged }
    }
}

/// Whether new folders are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchChange {
    Unchanged,
    Added,
}

/// Whether an event touches a configuration file, existing or possible, or a folder above one. Read accesses do not
/// count.
fn is_relevant(event: &notify::Event, relevant: &[PathBuf]) -> bool {
    let is_ours = |path: &PathBuf| {
        relevant
            .iter()
            .any(|relevant| relevant.starts_with(path) || path.parent() == Some(relevant.as_path()))
    };
    // The watcher lost events, so any file may have changed.
    event.need_rescan() || (!event.kind.is_access() && event.paths.iter().any(is_ours))
}

/// The folder itself or its nearest existing ancestor.
fn nearest_folder(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().find(|ancestor| ancestor.is_dir()).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use notify::event::{AccessKind, CreateKind};
    use notify::{Event, EventKind};

    use super::*;

    #[test]
    fn only_configuration_files_and_their_ancestors_are_relevant() {
        let relevant = ["/h/.config/swb/settings.json", "/h/data/plugins"].map(PathBuf::from);
        let created = |path: &str| {
            Event::new(EventKind::Create(CreateKind::Any)).add_path(PathBuf::from(path))
        };
        for path in ["/h/.config/swb/settings.json", "/h/.config", "/h/data/plugins/new"] {
            assert!(is_relevant(&created(path), &relevant), "{path}");
        }
        for path in ["/h/.config/swb/other.json", "/elsewhere", "/h/.config/swb/.swb-draft-1"] {
            assert!(!is_relevant(&created(path), &relevant), "{path}");
        }
        let read = Event::new(EventKind::Access(AccessKind::Any)).add_path(relevant[0].clone());
        assert!(!is_relevant(&read, &relevant));
    }
}
