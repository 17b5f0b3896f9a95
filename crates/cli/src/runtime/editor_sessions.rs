//! Opens the sessions of editors: a configuration, a host, a model and a transcript for each, as for a conversation on
//! the screen.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Value as Json, json};
use switchboard::config::permission::{PermissionMode, ToolRule};
use switchboard::connection::{InProcessServer, RetryPolicy};
use switchboard::sources::loader::Configuration;
use switchboard::sources::project_root;
use switchboard::{CallContext, Host, utc_timestamp};
use switchboard_acp::{
    CloseSession, ListFuture, OpenFuture, OpenSession, OpenedSession, SessionError,
    SessionErrorKind, SessionSource, SessionStart, StoredSession,
};
use switchboard_builtin::workspace::{self, ClientRoots};
use switchboard_chat::conversation::setup::{ConversationSetup, DEFAULT_MAX_ROUNDS};
use switchboard_chat::message::Message;
use switchboard_chat::model::language_model::LanguageModel;
use switchboard_chat::system_prompt;
use switchboard_chat::transcript::{
    Transcript, TranscriptError, TranscriptStore, TranscriptSummary,
};

use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::output::{report, unusable_files};
use crate::runtime::call_context;
use crate::runtime::host;
use crate::runtime::in_process;
use crate::runtime::language_model;
use crate::runtime::servers;

/// The workspace tools that change nothing. They see only the session's folders, so the user is not asked about them
/// unless a rule says so.
const READ_ONLY_TOOLS: [&str; 5] = ["Read", "Glob", "Grep", "LS", "BashOutput"];

/// Opens sessions for editors.
pub struct EditorSessions {
    invocation: Invocation,
    model: Option<String>,
    mode: Option<PermissionMode>,
    workspace_server: Option<String>,
}

/// What is read from files before the host of a session starts.
struct SessionFiles {
    invocation: Invocation,
    configuration: Configuration,
    model: Option<Arc<dyn LanguageModel>>,
    transcript: Transcript,
    history: Vec<Message>,
    id: String,
}

impl EditorSessions {
    /// Opens sessions with the options of this run, with this model and permission mode where they are set, and with the
    /// workspace server under this name.
    pub fn new(
        invocation: Invocation,
        model: Option<String>,
        mode: Option<PermissionMode>,
        workspace_server: Option<String>,
    ) -> EditorSessions {
        EditorSessions { invocation, model, mode, workspace_server }
    }

    /// The run of a session: in its folder, with the servers of the editor.
    fn session_invocation(
        &self,
        folder: &Path,
        mut servers: serde_json::Map<String, Json>,
    ) -> Result<Invocation, SessionError> {
        let working_folder = usable_folder(folder)?;
        if let Some(name) = &self.workspace_server {
            let entry = json!({"type": "sdk", "name": workspace::NAME});
            if servers.insert(name.clone(), entry).is_some() {
                let message = format!(
                    "a server of the editor is named `{name}` like the built-in tools; rename it, or start `swb acp --no-workspace`"
                );
                return Err(SessionError { kind: SessionErrorKind::InvalidParams, message });
            }
        }
        let mut env = self.invocation.env.clone();
        env.working_folder = working_folder;
        let mut global = self.invocation.global.clone();
        if !servers.is_empty() {
            global.mcp_config.push(json!({"mcpServers": servers}).to_string());
        }
        Ok(Invocation::new(env, global).non_interactive())
    }

    /// Reads everything that a session needs. Blocks.
    fn prepare(
        &self,
        folder: &Path,
        servers: serde_json::Map<String, Json>,
        start: SessionStart,
    ) -> Result<SessionFiles, SessionError> {
        let invocation = self.session_invocation(folder, servers)?;
        let configuration = invocation.load_with_problems().map_err(|failure| SessionError {
            kind: SessionErrorKind::InvalidParams,
            ..session_error(&failure)
        })?;
        report::print_stderr(&unusable_files::as_text(&invocation.env, &configuration));
        report::print_stderr(&servers::unapproved_note(&configuration, &[]));
        let model = language_model::open(&invocation, self.model.as_deref())
            .map_err(|failure| session_error(&failure))?;
        let root = project_root(&invocation.env.working_folder);
        let store = TranscriptStore::for_project(&invocation.env.paths, &root);
        let (transcript, id, history) = match start {
            SessionStart::New => {
                let transcript = store.create();
                let id = transcript.session_id().to_owned();
                (transcript, id, Vec::new())
            }
            SessionStart::Continue(id) => {
                let (transcript, history) =
                    store.resume(&id).map_err(|error| transcript_error(&error))?;
                (transcript, id, history)
            }
        };
        Ok(SessionFiles { invocation, configuration, model, transcript, history, id })
    }

    async fn open_session(&self, request: OpenSession) -> Result<OpenedSession, SessionError> {
        let OpenSession { folder, additional_folders, servers, start, prompt, elicitor } = request;
        let additional_folders =
            additional_folders.iter().map(|it| usable_folder(it)).collect::<Result<Vec<_>, _>>()?;
        // Configuration, key and transcript are read from disks and by commands.
        let prepared = tokio::task::block_in_place(|| self.prepare(&folder, servers, start))?;
        let SessionFiles { invocation, configuration, model, transcript, history, id } = prepared;
        let mut options = host::host_options(&invocation, RetryPolicy::RetryWithBackoff)
            .map_err(|failure| session_error(&failure))?;
        options.elicitor =
            host::elicitor(&invocation, elicitor).map_err(|failure| session_error(&failure))?;
        let mut roots = vec![invocation.env.working_folder.clone()];
        roots.extend(additional_folders);
        options.roots.clone_from(&roots);
        let settings = in_process::workspace_settings(&invocation, roots, ClientRoots::Ignored);
        let workspace =
            InProcessServer::new(move |transport| workspace::serve(settings.clone(), transport));
        options.in_process.insert(workspace::NAME.to_owned(), workspace);
        let (host, task) = Host::start(options).map_err(|error| SessionError {
            kind: SessionErrorKind::Failed,
            message: format!("the host cannot start: {error}"),
        })?;
        servers::apply_configuration(&host, &configuration, &[]).await;
        let context = call_context::call_context(&invocation, &configuration, &host, self.mode)
            .map_err(|failure| session_error(&failure));
        let context = match context {
            Ok(context) => context,
            Err(error) => {
                host.shutdown().await;
                let _panicked = task.await;
                return Err(error);
            }
        };
        self.allow_reading(&context);
        let audit = context.audit.clone();
        let closed_host = host.clone();
        let close: CloseSession = Box::new(move || {
            Box::pin(async move {
                closed_host.shutdown().await;
                let _panicked = task.await;
                audit.close().await;
            })
        });
        let setup = ConversationSetup {
            host,
            call_context: Arc::new(CallContext { prompt, ..context }),
            model,
            system_prompt: system_text(&invocation).into(),
            history,
            max_rounds: DEFAULT_MAX_ROUNDS,
            hooks: Vec::new(),
            structured_output: None,
            channels: None,
        };
        Ok(OpenedSession { id, setup, transcript, close })
    }

    fn allow_reading(&self, context: &CallContext) {
        let Some(server) = &self.workspace_server else { return };
        for tool in READ_ONLY_TOOLS {
            let rule = ToolRule::parse(&format!("mcp__{server}__{tool}"));
            context.rules.allow_for_session(rule.expect("two plain names"));
        }
    }

    /// The stored sessions. Blocks.
    fn stored_sessions(&self, folder: Option<PathBuf>) -> Result<Vec<StoredSession>, SessionError> {
        let paths = &self.invocation.env.paths;
        let listed = match folder {
            None => TranscriptStore::list_all(paths),
            Some(folder) => {
                let root = project_root(&usable_folder(&folder)?);
                let list = TranscriptStore::for_project(paths, &root).list();
                list.map(|it| it.into_iter().map(|it| (root.clone(), it)).collect())
            }
        };
        let stored = |(folder, summary): (PathBuf, TranscriptSummary)| StoredSession {
            id: summary.id,
            folder,
            title: summary.preview,
            updated_at: utc_timestamp(summary.modified),
        };
        listed.map(|it| it.into_iter().map(stored).collect()).map_err(|error| SessionError {
            kind: SessionErrorKind::Failed,
            message: format!("the stored conversations cannot be listed: {error}"),
        })
    }
}

impl SessionSource for EditorSessions {
    fn open<'a>(&'a self, request: OpenSession) -> OpenFuture<'a> {
        Box::pin(self.open_session(request))
    }

    fn list<'a>(&'a self, folder: Option<PathBuf>) -> ListFuture<'a> {
        Box::pin(async move { tokio::task::block_in_place(|| self.stored_sessions(folder)) })
    }
}

/// The folder with symbolic links resolved.
fn usable_folder(folder: &Path) -> Result<PathBuf, SessionError> {
    let unusable = |why: String| SessionError {
        kind: SessionErrorKind::InvalidParams,
        message: format!("the folder `{}` cannot be used: {why}", folder.display()),
    };
    let path = folder.canonicalize().map_err(|error| unusable(error.to_string()))?;
    match (folder.is_absolute(), path.is_dir()) {
        (true, true) => Ok(path),
        (false, _) => Err(unusable("it is not an absolute path".to_owned())),
        (true, false) => Err(unusable("it is not a folder".to_owned())),
    }
}

fn system_text(invocation: &Invocation) -> String {
    let now = utc_timestamp(SystemTime::now());
    let today = now.split('T').next().unwrap_or_default();
    system_prompt::editor_system_prompt(&invocation.env.working_folder, today)
}

fn transcript_error(error: &TranscriptError) -> SessionError {
    let kind = match error {
        TranscriptError::NotFound(_) | TranscriptError::Empty => SessionErrorKind::NotFound,
        TranscriptError::Unreadable { .. }
        | TranscriptError::InvalidId(_)
        | TranscriptError::Exists(_)
        | TranscriptError::NotWritten(_) => SessionErrorKind::Failed,
    };
    SessionError { kind, message: error.to_string() }
}

/// A failure as one text: what, why, and what to do.
fn session_error(failure: &Failure) -> SessionError {
    let mut message = failure.message.clone();
    for cause in &failure.causes {
        message.push_str(&format!(": {cause}"));
    }
    if !failure.detail.is_empty() {
        message.push_str(&format!("\n{}", failure.detail.trim_end()));
    }
    if let Some(hint) = &failure.hint {
        message.push_str(&format!("; {hint}"));
    }
    SessionError { kind: SessionErrorKind::Failed, message }
}
