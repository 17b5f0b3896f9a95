//! A conversation with an IDE: diffs beside the prompt, selections and mentions in messages, and problems after edits. The
//! IDE behaves as an editor's plugin does, and the workspace server writes real files.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::config::permission::{PermissionEffect, PermissionRules, ToolRule};
use switchboard::ide::{IdeLock, ide_server};
use switchboard::permission::{
    ActiveRules, DecisionFuture, GrantScope, PermissionDecision, PermissionPrompt,
    PermissionRequest,
};
use switchboard::sources::{Paths, loader};
use switchboard::{CallContext, Host, HostEnv, HostOptions, InProcessServer};
use switchboard_builtin::workspace;
use switchboard_builtin::workspace::proposed_edit::{self, ProposedEdit};
use switchboard_chat::conversation::handle::Conversation;
use switchboard_chat::conversation::setup::ConversationSetup;
use switchboard_chat::ide::{
    EditPlanner, IdeHooks, IdePrompt, IdeSession, IdeSessionOptions, IdeUpdates, PlannedEdit,
};
use switchboard_chat::message::{ContentBlock, Message};
use tempfile::TempDir;
use testkit::TestIde;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::harness::{RunningConversation, Step, StepModel, TEST_TIMEOUT};

/// What the terminal's prompt does.
#[derive(Clone, Copy)]
enum Terminal {
    /// It waits for a person who never answers.
    Waits,
    /// It waits until a diff is open, and permits the call.
    AllowsLater,
    /// It denies at once, as where no user can be asked.
    DeniesAtOnce,
}

struct TerminalPrompt {
    answer: Terminal,
    /// Lets the answer through.
    may_answer: Mutex<Option<oneshot::Receiver<()>>>,
    /// How many questions were withdrawn or answered.
    log: Arc<Mutex<Vec<&'static str>>>,
}

struct Withdrawal(Arc<Mutex<Vec<&'static str>>>);

impl Drop for Withdrawal {
    fn drop(&mut self) {
        self.0.lock().expect("no panic").push("closed");
    }
}

impl PermissionPrompt for TerminalPrompt {
    fn decide<'a>(&'a self, _request: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        Box::pin(async move {
            self.log.lock().expect("no panic").push("asked");
            let _withdrawal = Withdrawal(self.log.clone());
            match self.answer {
                Terminal::Waits => std::future::pending().await,
                Terminal::AllowsLater => {
                    let may_answer = self.may_answer.lock().expect("no panic").take();
                    may_answer.expect("asked once").await.expect("the test lets it answer");
                    let decided_by = "the terminal".to_owned();
                    PermissionDecision::Allow { decided_by, scope: GrantScope::Once }
                }
                Terminal::DeniesAtOnce => PermissionDecision::DeniedByUser,
            }
        })
    }
}

struct Planner(Vec<PathBuf>);

impl EditPlanner for Planner {
    fn plan(&self, tool: &str, arguments: &Json) -> Option<PlannedEdit> {
        let ProposedEdit { path, old_text, new_text } =
            proposed_edit::propose_edit(&self.0, tool, arguments)?;
        Some(PlannedEdit { path, old_text, new_text })
    }

    fn arguments_for(
        &self,
        tool: &str,
        arguments: &Json,
        edit: &PlannedEdit,
        contents: &str,
    ) -> Option<Json> {
        let PlannedEdit { path, old_text, new_text } = edit.clone();
        ProposedEdit { path, old_text, new_text }.arguments_for(tool, arguments, contents)
    }

    fn read(&self, edit: &PlannedEdit) -> Option<String> {
        proposed_edit::read_text(&self.0, &edit.path)
    }
}

/// A host with the workspace server and a connected IDE.
struct Scene {
    _folder: TempDir,
    project: PathBuf,
    host: Host,
    host_task: JoinHandle<()>,
    ide: TestIde,
    session: Arc<IdeSession>,
    session_task: JoinHandle<()>,
    updates: IdeUpdates,
    call_context: CallContext,
    prompt_log: Arc<Mutex<Vec<&'static str>>>,
    let_answer: Option<oneshot::Sender<()>>,
}

impl Scene {
    async fn new(terminal: Terminal) -> Scene {
        Scene::with_rules(terminal, PermissionRules::default()).await
    }

    async fn with_rules(terminal: Terminal, rules: PermissionRules) -> Scene {
        let folder = tempfile::tempdir().expect("a temp folder");
        let project = folder.path().canonicalize().expect("it exists").join("project");
        std::fs::create_dir(&project).expect("a folder");
        let paths = Paths::in_dir(folder.path());
        let env = HostEnv { working_folder: project.clone(), ..HostEnv::default() };
        let mut options = HostOptions::new(paths.clone(), env);
        let settings = workspace::WorkspaceSettings {
            roots: vec![project.clone()],
            added_roots: workspace::AddedRoots::default(),
            client_roots: workspace::ClientRoots::Ignored,
            environment: Vec::new(),
            output_dir: folder.path().join("out"),
            guard: None,
            pdf_reader: None,
        };
        let server = InProcessServer::new(move |it| workspace::serve(settings.clone(), it));
        options.in_process.insert("workspace".to_owned(), server);
        let (host, host_task) = Host::start(options).expect("it starts");
        let servers = r#"{"mcpServers": {"workspace": {"type": "sdk", "name": "workspace"}}}"#;
        host.apply(&loader::from_program("test", servers)).await;
        let rules = ActiveRules::new(rules);
        let session_options = IdeSessionOptions {
            working_folder: project.clone(),
            rules: rules.clone(),
            planner: Arc::new(Planner(vec![project.clone()])),
        };
        let (session, updates, session_task) = IdeSession::start(host.clone(), session_options);
        let ide = TestIde::ws("secret");
        let configuration = loader::load(&loader::LoadOptions {
            paths: paths.clone(),
            working_folder: project.clone(),
            environment: Vec::<(String, String)>::new().into_iter().collect(),
            dynamic: Vec::new(),
            scope_filter: switchboard::config::merge::ScopeFilter::All,
            sdk_entries: switchboard::config::merge::SdkEntries::OfProgramLayers,
            settings: None,
            rules: switchboard::config::permission::PermissionRules::default(),
            setting_sources: loader::SettingSources::default(),
            connectors: switchboard::sources::loader::ConnectorUse::Allowed,
            plugins: Vec::new(),
            embedded: Vec::new(),
            fallback: None,
        });
        let lock = ide.lock_json(&[&project]).to_string();
        let lock = IdeLock::parse(ide.port(), &lock).expect("a lock");
        let server = ide_server(&lock, "127.0.0.1", &configuration).expect("it is allowed");
        host.set_ide(Some(server)).await;
        host.settled().await;
        let prompt_log = Arc::default();
        let (let_answer, may_answer) = oneshot::channel();
        let inner = TerminalPrompt {
            answer: terminal,
            may_answer: Mutex::new(Some(may_answer)),
            log: Arc::clone(&prompt_log),
        };
        let call_context = CallContext::new(host.watch_pool(), &paths).expect("a call context");
        let call_context = CallContext { rules, ..call_context }
            .with_prompt(IdePrompt::new(Arc::new(inner), session.clone()));
        Scene {
            _folder: folder,
            project,
            host,
            host_task,
            ide,
            session,
            session_task,
            updates,
            call_context,
            prompt_log,
            let_answer: Some(let_answer),
        }
    }

    fn file(&self, name: &str) -> String {
        self.project.join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.project.join(name), text).expect("a file");
        self.file(name)
    }

    fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.project.join(name)).ok()
    }

    fn prompt_log(&self) -> Vec<&'static str> {
        self.prompt_log.lock().expect("no panic").clone()
    }

    /// Starts a conversation in which the model makes these calls and then ends the turn.
    async fn converse(
        &self,
        message: &str,
        calls: Vec<(&'static str, &'static str, Json)>,
    ) -> (RunningConversation, Arc<StepModel>) {
        let call = |it: (&'static str, &'static str, Json)| Step::Call("", vec![it]);
        let steps = calls.into_iter().map(call).chain([Step::Say("done")]);
        let model = StepModel::new(steps.collect::<Vec<_>>());
        let setup = ConversationSetup {
            host: self.host.clone(),
            call_context: Arc::new(self.call_context.clone()),
            model: Some(model.clone()),
            system_prompt: "be brief".into(),
            history: Vec::new(),
            max_rounds: 50,
            hooks: vec![Arc::new(IdeHooks::new(self.session.clone()))],
            structured_output: None,
            channels: None,
        };
        let running = RunningConversation::new(Conversation::start(setup));
        running.handle.send(vec![ContentBlock::Text { text: message.to_owned() }]).await;
        (running, model)
    }

    async fn stop(self) {
        let Scene { host, host_task, session, session_task, call_context, updates, .. } = self;
        drop((session, call_context, updates));
        timeout(TEST_TIMEOUT, session_task).await.expect("in time").expect("it ends well");
        host.shutdown().await;
        host_task.await.expect("it ends well");
    }
}

/// Runs what blocks until the IDE is told something.
fn with_ide<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

/// All texts of a message, results included.
fn texts(message: &Message) -> String {
    fn collect(blocks: &[ContentBlock], all: &mut Vec<String>) {
        for block in blocks {
            match block {
                ContentBlock::Text { text } => all.push(text.clone()),
                ContentBlock::ToolResult(result) => collect(&result.content, all),
                ContentBlock::Image { .. }
                | ContentBlock::Thinking { .. }
                | ContentBlock::ToolUse(_) => {}
            }
        }
    }
    let mut all = Vec::new();
    collect(&message.content, &mut all);
    all.join("\n")
}

const WRITE: &str = "mcp__workspace__Write";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_is_saved_in_the_editor_is_permitted_and_we_write_it() {
    let scene = Scene::new(Terminal::Waits).await;
    let path = scene.file("a.py");
    let call = ("1", WRITE, json!({"file_path": path, "content": "x = 1"}));
    let (mut running, _) = scene.converse("go", vec![call]).await;
    let diff = with_ide(|| scene.ide.wait_for_diff());
    assert_eq!((diff.path.as_str(), diff.new_contents.as_str()), (path.as_str(), "x = 1"));
    assert!(diff.tab_name.starts_with("✻ [Claude Code] a.py ("), "{}", diff.tab_name);
    assert_eq!(scene.read("a.py"), None, "nothing is written before the decision");
    scene.ide.accept_diff();
    running.turn().await;
    assert_eq!(scene.read("a.py").as_deref(), Some("x = 1"));
    assert_eq!(
        scene.prompt_log(),
        ["asked", "closed"],
        "the question in the terminal is withdrawn"
    );
    with_ide(|| scene.ide.wait_for_method("close_tab", 1));
    running.end().await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_person_changed_in_the_editor_is_what_is_written() {
    let scene = Scene::new(Terminal::Waits).await;
    let path = scene.write("a.py", "one\ntwo\n");
    let calls = vec![
        ("1", "mcp__workspace__Read", json!({"file_path": path})),
        (
            "2",
            "mcp__workspace__Edit",
            json!({"file_path": path, "old_string": "two", "new_string": "2"}),
        ),
    ];
    let read = ToolRule::parse("mcp__workspace__Read").expect("a rule");
    scene.call_context.rules.allow_for_session(read);
    let (mut running, _) = scene.converse("go", calls).await;
    let diff = with_ide(|| scene.ide.wait_for_diff());
    assert_eq!(diff.new_contents, "one\n2\n");
    scene.ide.accept_diff_as("one\nII");
    running.turn().await;
    assert_eq!(scene.read("a.py").as_deref(), Some("one\nII\n"));
    running.end().await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_is_rejected_in_the_editor_is_denied() {
    let scene = Scene::new(Terminal::Waits).await;
    let call = ("1", WRITE, json!({"file_path": scene.file("a.py"), "content": "x"}));
    let (mut running, model) = scene.converse("go", vec![call]).await;
    with_ide(|| scene.ide.wait_for_diff());
    scene.ide.reject_diff();
    running.turn().await;
    assert_eq!(scene.read("a.py"), None);
    let last = texts(model.last_messages().last().expect("a message"));
    assert!(last.contains("denied") || last.contains("not permitted"), "{last}");
    running.end().await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_yes_in_the_terminal_closes_the_diff_and_its_rejection_counts_for_nothing() {
    let mut scene = Scene::new(Terminal::AllowsLater).await;
    let call = ("1", WRITE, json!({"file_path": scene.file("a.py"), "content": "x"}));
    let (mut running, _) = scene.converse("go", vec![call]).await;
    with_ide(|| scene.ide.wait_for_diff());
    scene.let_answer.take().expect("once").send(()).expect("it is asked");
    running.turn().await;
    assert_eq!(scene.read("a.py").as_deref(), Some("x"));
    with_ide(|| scene.ide.wait_for_no_diff());
    running.end().await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupt_closes_the_diff() {
    let scene = Scene::new(Terminal::Waits).await;
    let call = ("1", WRITE, json!({"file_path": scene.file("a.py"), "content": "x"}));
    let (mut running, _) = scene.converse("go", vec![call]).await;
    with_ide(|| scene.ide.wait_for_diff());
    running.handle.interrupt().await;
    running.turn().await;
    with_ide(|| scene.ide.wait_for_no_diff());
    assert_eq!(scene.read("a.py"), None);
    running.end().await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_shown_where_the_answer_is_known_or_the_file_lies_outside() {
    let scene = Scene::new(Terminal::DeniesAtOnce).await;
    let call = ("1", WRITE, json!({"file_path": scene.file("a.py"), "content": "x"}));
    let outside = ("2", WRITE, json!({"file_path": "/elsewhere/a.py", "content": "x"}));
    let (mut running, _) = scene.converse("go", vec![call, outside]).await;
    running.turn().await;
    assert!(!scene.ide.methods().iter().any(|it| it == "openDiff"), "{:?}", scene.ide.methods());
    running.end().await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_editor_that_quits_leaves_the_question_in_the_terminal() {
    let mut scene = Scene::new(Terminal::AllowsLater).await;
    let call = ("1", WRITE, json!({"file_path": scene.file("a.py"), "content": "x"}));
    let (mut running, _) = scene.converse("go", vec![call]).await;
    with_ide(|| scene.ide.wait_for_diff());
    scene.ide.drop_connections();
    scene.host.set_ide(None).await;
    scene.let_answer.take().expect("once").send(()).expect("it is still asked");
    running.turn().await;
    assert_eq!(scene.read("a.py").as_deref(), Some("x"));
    running.end().await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_problems_that_an_edit_caused_are_shown_to_the_model() {
    let scene = Scene::new(Terminal::Waits).await;
    let path = scene.file("a.py");
    let uri = format!("file://{path}");
    let problem = |message: &str| {
        json!({
            "message": message, "severity": "Error", "source": "lint",
            "range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}},
        })
    };
    scene.ide.set_diagnostics(json!([{"uri": uri, "diagnostics": [problem("old")]}]));
    let call = ("1", WRITE, json!({"file_path": path, "content": "x ="}));
    let (mut running, model) = scene.converse("go", vec![call]).await;
    with_ide(|| scene.ide.wait_for_diff());
    // Before the call, right after the approval, and before the next request to the model.
    scene.ide.set_diagnostics_from_call(
        3,
        json!([{"uri": uri, "diagnostics": [problem("old"), problem("invalid syntax")]}]),
    );
    scene.ide.accept_diff();
    running.turn().await;
    let calls: Vec<Json> = scene.ide.messages();
    let calls = calls.iter().filter(|it| it["params"]["name"] == "getDiagnostics");
    let asked: Vec<&Json> = calls.map(|it| &it["params"]["arguments"]).collect();
    assert_eq!(asked, [&json!({"uri": uri}), &json!({"uri": uri}), &json!({})]);
    let shown = texts(model.last_messages().last().expect("a message"));
    assert!(shown.contains(&format!("{path}:1: Error: invalid syntax (lint)")), "{shown}");
    assert!(!shown.contains("Error: old"), "{shown}");
    running.end().await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_selection_joins_the_message_and_that_of_a_buffer_without_a_file_does_not() {
    let mut scene = Scene::new(Terminal::Waits).await;
    let path = scene.write("b.py", "one\ntwo\nthree\n");
    scene.ide.select(&path, "two\nthree", (1, 0), (2, 5));
    timeout(TEST_TIMEOUT, scene.updates.selection.wait_for(Option::is_some))
        .await
        .expect("in time")
        .expect("the session lives");
    let (mut running, model) = scene.converse("explain", vec![]).await;
    running.turn().await;
    let sent = texts(&model.last_messages()[0]);
    let expected = format!("the user has selected the lines 2 to 3 of {path}:\ntwo\nthree");
    assert!(sent.contains(&expected), "{sent}");
    assert!(scene.ide.methods().iter().any(|it| it == "closeAllDiffTabs"));
    running.end().await;
    scene.ide.select("✻ [Claude Code] c.py (1) ⧉ (proposed)", "abc", (0, 0), (0, 3));
    timeout(TEST_TIMEOUT, scene.updates.selection.wait_for(Option::is_none))
        .await
        .expect("in time")
        .expect("the session lives");
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relative_mention_is_typed_with_lines_from_one_and_explained_with_its_path() {
    let mut scene = Scene::new(Terminal::Waits).await;
    let path = scene.write("b.py", "one\n");
    scene.session.set_ide_folders(vec![scene.project.clone()]);
    scene.ide.mention("missing.py", None);
    scene.ide.mention("b.py", Some((0, 2)));
    let mention = timeout(TEST_TIMEOUT, scene.updates.mentions.recv()).await.expect("in time");
    let mention = mention.expect("the session lives");
    assert_eq!(mention.typed, "@b.py#L1-3");
    let (mut running, model) = scene.converse("what is @b.py#L1-3?", vec![]).await;
    running.turn().await;
    let sent = texts(&model.last_messages()[0]);
    assert!(sent.contains(&format!("refers to the lines 1 to 3 of {path}.")), "{sent}");
    running.end().await;
    scene.ide.mention("b.py", None);
    timeout(TEST_TIMEOUT, scene.updates.mentions.recv()).await.expect("in time");
    let (mut running, model) = scene.converse("the user deleted it", vec![]).await;
    running.turn().await;
    assert_eq!(texts(&model.last_messages()[0]), "the user deleted it");
    running.end().await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_denies_reading_a_file_hides_selections_and_mentions_of_it() {
    let mut rules = PermissionRules::default();
    let rule = ToolRule::parse(r#"mcp__workspace__Read(file_path="*/secret.py")"#).expect("a rule");
    rules.add_for_session(PermissionEffect::Deny, rule);
    let mut scene = Scene::with_rules(Terminal::Waits, rules).await;
    let secret = scene.write("secret.py", "password\n");
    let open = scene.write("open.py", "x\n");
    scene.ide.mention(&secret, Some((0, 0)));
    scene.ide.select(&secret, "password", (0, 0), (0, 8));
    scene.ide.mention(&open, None);
    let mention = timeout(TEST_TIMEOUT, scene.updates.mentions.recv()).await.expect("in time");
    assert_eq!(mention.expect("the session lives").path, Path::new(&open));
    let (mut running, model) = scene.converse("go", vec![]).await;
    running.turn().await;
    let sent = texts(&model.last_messages()[0]);
    assert!(!sent.contains("secret") && !sent.contains("password"), "{sent}");
    assert!(scene.updates.selection.borrow().is_none());
    running.end().await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_editor_that_answers_nothing_does_not_hold_up_a_message() {
    let scene = Scene::new(Terminal::Waits).await;
    scene.ide.stop_answering();
    let (mut running, _) = scene.converse("go", vec![]).await;
    timeout(Duration::from_secs(10), running.turn()).await.expect("the IDE has seconds only");
    running.end().await;
    scene.stop().await;
}
