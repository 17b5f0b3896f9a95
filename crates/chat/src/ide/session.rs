//! The connected IDE during a conversation. One task follows its events and closes tabs; the session keeps what is selected
//! and mentioned until a prompt is submitted.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::config::permission::{
    BUILT_IN_SERVER, CallRequest, NOTHING_SEEN, PermissionEffect, PermissionMode, ToolHints, Trust,
    decide, rule_name,
};
use switchboard::ide::{DiffOutcome, IdeEvent, IdeTool, Mention, Selection};
use switchboard::permission::ActiveRules;
use switchboard::{Host, Status};
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::debug;

use super::context::{ActiveMention, ActiveSelection};
use super::diagnostics::KnownDiagnostics;
use super::edits::{self, EditPlanner, PlannedEdit};

/// A selection counts when it has not changed for this long.
const SELECTION_DEBOUNCE: Duration = Duration::from_millis(100);
/// How long the IDE may take for what a person does not decide about.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);
/// How many mentions wait for a prompt; the oldest is dropped.
const MAX_MENTIONS: usize = 20;
/// How many tabs wait to be closed. More are closed with all others at the next prompt.
const TAB_QUEUE: usize = 32;
/// How many mentions wait for the input.
const MENTION_QUEUE: usize = 16;

/// What a session starts with.
pub struct IdeSessionOptions {
    /// The working folder, absolute.
    pub working_folder: PathBuf,
    /// The permission rules. One that denies reading a file hides selections and mentions of it.
    pub rules: ActiveRules,
    /// Computes what tools would write.
    pub planner: Arc<dyn EditPlanner>,
}

/// What a front end is told.
#[derive(Debug)]
pub struct IdeUpdates {
    /// The selection.
    pub selection: watch::Receiver<Option<ActiveSelection>>,
    /// Mentions to type into the input, once each.
    pub mentions: mpsc::Receiver<ActiveMention>,
}

/// The connected IDE during a conversation. Its task ends when it is dropped.
pub struct IdeSession {
    host: Host,
    working_folder: PathBuf,
    rules: ActiveRules,
    planner: Arc<dyn EditPlanner>,
    selection: watch::Sender<Option<ActiveSelection>>,
    state: Mutex<SessionState>,
    closing_tabs: mpsc::Sender<String>,
    typed_mentions: mpsc::Sender<ActiveMention>,
}

#[derive(Default)]
struct SessionState {
    /// The folders that are open in the IDE.
    ide_folders: Vec<PathBuf>,
    mentions: VecDeque<ActiveMention>,
    diagnostics: KnownDiagnostics,
    tab_count: u64,
}

impl fmt::Debug for IdeSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdeSession").field("host", &self.host).finish_non_exhaustive()
    }
}

impl IdeSession {
    /// Starts to follow the IDE of a host, now and whenever one is connected later. The task ends with the session.
    pub fn start(
        host: Host,
        options: IdeSessionOptions,
    ) -> (Arc<IdeSession>, IdeUpdates, JoinHandle<()>) {
        let IdeSessionOptions { working_folder, rules, planner } = options;
        let (closing_tabs, tabs) = mpsc::channel(TAB_QUEUE);
        let (typed_mentions, mentions) = mpsc::channel(MENTION_QUEUE);
        let (selection, selections) = watch::channel(None);
        let events = host.ide_events();
        let session = Arc::new(IdeSession {
            host: host.clone(),
            working_folder,
            rules,
            planner,
            selection,
            state: Mutex::default(),
            closing_tabs,
            typed_mentions: typed_mentions.clone(),
        });
        let follower = Follower {
            session: Arc::downgrade(&session),
            host,
            typed_mentions,
            pending_selection: None,
        };
        let task = tokio::spawn(follower.run(events, tabs));
        (session, IdeUpdates { selection: selections, mentions }, task)
    }

    /// Names the folders that are open in the connected IDE, where its relative paths start.
    pub fn set_ide_folders(&self, folders: Vec<PathBuf>) {
        self.state().ide_folders = folders;
    }

    /// Whether an IDE is connected.
    pub fn is_connected(&self) -> bool {
        self.host.ide().is_some_and(|it| it.status == Status::Connected)
    }

    /// Whether a front end types mentions into its input.
    pub(super) fn types_mentions(&self) -> bool {
        !self.typed_mentions.is_closed()
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    pub(super) fn planner(&self) -> &Arc<dyn EditPlanner> {
        &self.planner
    }

    pub(super) fn state_diagnostics<T>(&self, with: impl FnOnce(&mut KnownDiagnostics) -> T) -> T {
        with(&mut self.state().diagnostics)
    }

    /// Calls a tool that no person decides about.
    pub(super) async fn call(&self, tool: IdeTool, arguments: Json) -> Option<Json> {
        let calling = self.host.call_ide(tool, &arguments);
        match timeout(CALL_TIMEOUT, calling).await {
            Ok(Ok(result)) => Some(result.json().unwrap_or_default()),
            Ok(Err(_)) | Err(_) => {
                debug!(tool = tool.name(), "the IDE did not answer");
                None
            }
        }
    }

    /// The selection for the prompt, if its file may be read.
    pub(super) fn selection(&self) -> Option<ActiveSelection> {
        let selection = self.selection.borrow().clone()?;
        (self.is_connected() && self.may_read(&selection.path)).then_some(selection)
    }

    /// Takes the mentions for the prompt.
    pub(super) fn take_mentions(&self) -> Vec<ActiveMention> {
        let mentions = std::mem::take(&mut self.state().mentions);
        mentions.into_iter().filter(|it| self.may_read(&it.path)).collect()
    }

    /// Shows an edit as a diff. Resolves when a person decides; never where the IDE cannot show it. Dropping the future
    /// closes the tab.
    pub(super) async fn show_diff(&self, edit: &PlannedEdit) -> DiffOutcome {
        let tab = OpenTab { name: self.tab_name(edit), closing: self.closing_tabs.clone() };
        let path = edit.path.display().to_string();
        let arguments = json!({
            "old_file_path": path,
            "new_file_path": path,
            "new_file_contents": edit.new_text,
            "tab_name": tab.name,
        });
        let outcome = self.host.call_ide(IdeTool::OpenDiff, &arguments).await;
        match outcome.ok().and_then(|it| it.diff_outcome()) {
            Some(outcome) => outcome,
            None => {
                debug!("the IDE shows no diff");
                std::future::pending().await
            }
        }
    }

    /// A name of the form that editors know, so that they close the tab on request. It is unique in the session.
    fn tab_name(&self, edit: &PlannedEdit) -> String {
        let number = {
            let mut state = self.state();
            state.tab_count += 1;
            state.tab_count
        };
        let name = edit.path.file_name().map(|it| it.to_string_lossy().into_owned());
        let suffix = (u64::from(std::process::id()) << 12 | (number & 0xfff)) & 0xff_ffff;
        format!("✻ [Claude Code] {} ({suffix:06x}) ⧉", name.unwrap_or_default())
    }

    /// Whether no rule denies the model to read a file, neither as it is named nor where links lead.
    pub(super) fn may_read(&self, path: &Path) -> bool {
        let target = std::fs::canonicalize(path);
        self.is_readable(path) && target.is_ok_and(|it| it == path || self.is_readable(&it))
    }

    fn is_readable(&self, path: &Path) -> bool {
        let rules = self.rules.current();
        // Rules in the notation of agent SDKs name the built-in tool, whether there is one or not.
        let servers = edits::workspace_servers(&self.host).into_iter().map(|it| rule_name(&it));
        let mut servers = servers.chain([BUILT_IN_SERVER.to_owned()]);
        let arguments = json!({"file_path": path.display().to_string()});
        servers.all(|server| {
            let request = CallRequest {
                server: &server,
                tool: edits::READ_TOOL,
                arguments: &arguments,
                hints: ToolHints::default(),
                trust: Trust::Untrusted,
                seen: &NOTHING_SEEN,
            };
            decide(&rules, &request, PermissionMode::Default).effect != PermissionEffect::Deny
        })
    }

    /// The file that a path of the IDE stands for; `None` where it does not exist, as for a buffer that is no file.
    fn existing_file(&self, path: &str) -> Option<PathBuf> {
        let path = Path::new(path);
        if path.is_absolute() {
            return path.is_file().then(|| path.to_owned());
        }
        let folders = self.state().ide_folders.clone();
        let mut folders = folders.into_iter().chain([self.working_folder.clone()]);
        folders.find_map(|folder| Some(folder.join(path)).filter(|it| it.is_file()))
    }

    fn set_selection(&self, selection: Option<Selection>) {
        let active = selection.and_then(|it| {
            let path = self.existing_file(&it.path)?;
            let lines = (it.first_line, it.last_line);
            self.may_read(&path).then_some(ActiveSelection { path, text: it.text, lines })
        });
        self.selection.send_if_modified(|current| {
            let is_new = *current != active;
            *current = active;
            is_new
        });
    }

    fn add_mention(&self, mention: &Mention) -> Option<ActiveMention> {
        let path = self.existing_file(&mention.path).filter(|it| self.may_read(it))?;
        let mention = ActiveMention::new(&path, mention.lines, &self.working_folder);
        let mut state = self.state();
        if state.mentions.len() == MAX_MENTIONS {
            state.mentions.pop_front();
        }
        state.mentions.push_back(mention.clone());
        Some(mention)
    }

    fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A tab in the IDE, which is closed when this is dropped.
struct OpenTab {
    name: String,
    closing: mpsc::Sender<String>,
}

impl Drop for OpenTab {
    fn drop(&mut self) {
        let _closed_with_the_next_prompt = self.closing.try_send(std::mem::take(&mut self.name));
    }
}

/// Follows the events of the IDE.
struct Follower {
    session: std::sync::Weak<IdeSession>,
    host: Host,
    typed_mentions: mpsc::Sender<ActiveMention>,
    /// A selection that may still change, and when it counts.
    pending_selection: Option<(Instant, Option<Selection>)>,
}

impl Follower {
    async fn run(
        mut self,
        mut events: broadcast::Receiver<IdeEvent>,
        mut tabs: mpsc::Receiver<String>,
    ) {
        let mut snapshots = self.host.watch();
        loop {
            let due = self.pending_selection.as_ref().map(|it| it.0);
            tokio::select! {
                tab = tabs.recv() => match tab {
                    Some(name) => self.close_tab(name).await,
                    // The session has ended.
                    None => return,
                },
                event = events.recv() => match event {
                    Ok(event) => self.on_event(event).await,
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return,
                },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    if let Some((_, selection)) = self.pending_selection.take() {
                        self.with_session(move |it| it.set_selection(selection)).await;
                    }
                }
                changed = snapshots.changed() => {
                    snapshots.borrow_and_update();
                    if changed.is_err() {
                        return;
                    }
                    let is_connected =
                        self.host.ide().is_some_and(|it| it.status == Status::Connected);
                    if !is_connected {
                        self.pending_selection = None;
                        self.with_session(|it| it.set_selection(None)).await;
                    }
                }
            }
        }
    }

    async fn on_event(&mut self, event: IdeEvent) {
        match event {
            IdeEvent::SelectionChanged(selection) => {
                self.pending_selection = Some((Instant::now() + SELECTION_DEBOUNCE, selection));
            }
            IdeEvent::Mentioned(mention) => {
                let added = self.with_session(move |it| it.add_mention(&mention)).await.flatten();
                if let Some(mention) = added {
                    let _not_typed = self.typed_mentions.try_send(mention);
                }
            }
            IdeEvent::Logged => {}
        }
    }

    /// Runs work that looks at files; `None` where the session has ended.
    async fn with_session<T: Send + 'static>(
        &self,
        work: impl FnOnce(&IdeSession) -> T + Send + 'static,
    ) -> Option<T> {
        let session = self.session.upgrade()?;
        tokio::task::spawn_blocking(move || work(&session)).await.ok()
    }

    async fn close_tab(&self, name: String) {
        let arguments = json!({"tab_name": name});
        let _closed_with_the_next_prompt =
            timeout(CALL_TIMEOUT, self.host.call_ide(IdeTool::CloseTab, &arguments)).await;
    }
}
