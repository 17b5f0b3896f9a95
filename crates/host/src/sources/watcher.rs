//! Follows configuration files, so that anything long-running picks changes up by itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::sources::loader;
use crate::sources::loader::{Configuration, LastValidTexts, LoadOptions};

/// Changes that come this close together are one: editors write in several steps.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// The longest that a file that keeps changing is waited for.
const MAX_DEBOUNCES: usize = 20;

/// Watches every file that a configuration was read from, or would be. Dropping it ends the watch.
#[derive(Debug)]
pub struct ConfigWatcher {
    options: LoadOptions,
    /// What files said while they were whole.
    last_valid: LastValidTexts,
    watcher: RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
    /// The paths that mean something, for the watcher's thread.
    relevant_paths: watch::Sender<Vec<PathBuf>>,
    changes: mpsc::Receiver<()>,
}

impl ConfigWatcher {
    /// Begins to watch; `configuration` is what was read last.
    pub fn start(
        options: LoadOptions,
        configuration: &Configuration,
    ) -> notify::Result<ConfigWatcher> {
        // One place: a change that finds it taken is part of the one that waits.
        let (tell, changes) = mpsc::channel(1);
        let (relevant, relevant_receiver) = watch::channel(Vec::new());
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| is_relevant(&event, &relevant_receiver.borrow())) {
                let _one_waits_already = tell.try_send(());
            }
        })?;
        // What was read last did not keep the texts.
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

    /// The configuration after the next change. Comes back also where the change meant nothing. A file that is broken
    /// goes on meaning what it meant, and its problem is told.
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
            // What came into a folder before it was watched would be missed.
            if self.update_watches(&configuration) == WatchChange::Unchanged {
                return Some(configuration);
            }
        }
    }

    /// Folders are watched, not files: files are replaced, and come later.
    fn update_watches(&mut self, configuration: &Configuration) -> WatchChange {
        let sources = configuration.sources.iter().filter_map(|it| it.source.path());
        let mut folders: BTreeSet<PathBuf> =
            sources.filter_map(|path| nearest_folder(path.parent()?)).collect();
        folders.extend(nearest_folder(&self.options.paths.plugins()));
        folders.extend(nearest_folder(&self.options.paths.state));
        let paths = &self.options.paths;
        let sources = configuration.sources.iter().filter_map(|it| it.source.path());
        let mut relevant: Vec<PathBuf> = sources.map(Path::to_owned).collect();
        relevant.extend([paths.plugins(), paths.approvals()]);
        self.relevant_paths.send_replace(relevant);
        for folder in self.watched.difference(&folders) {
            let _gone_already = self.watcher.unwatch(folder);
        }
        for folder in &folders {
            // Also those that are watched: a folder may have been made anew. One that may not be watched is one
            // whose changes come with the next start.
            let _not_allowed = self.watcher.watch(folder, RecursiveMode::NonRecursive);
        }
        let is_new = !folders.is_subset(&self.watched);
        self.watched = folders;
        if is_new { WatchChange::Added } else { WatchChange::Unchanged }
    }
}

/// Are there folders that were not watched before?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchChange {
    Unchanged,
    Added,
}

/// Reading changes nothing, and of what happens in a folder that we watch, only little is about us: a file that is
/// read, or would be if it were there, and the folders that lead to it.
fn is_relevant(event: &notify::Event, relevant: &[PathBuf]) -> bool {
    let is_ours = |path: &PathBuf| {
        relevant
            .iter()
            .any(|relevant| relevant.starts_with(path) || path.parent() == Some(relevant.as_path()))
    };
    // Where too much happened at once, nobody knows what it was.
    event.need_rescan() || (!event.kind.is_access() && event.paths.iter().any(is_ours))
}

/// The folder itself, or the nearest above it that is there.
fn nearest_folder(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().find(|at| at.is_dir()).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use notify::event::{AccessKind, CreateKind};
    use notify::{Event, EventKind};

    use super::*;

    #[test]
    fn only_what_is_read_and_what_leads_to_it_matters() {
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
