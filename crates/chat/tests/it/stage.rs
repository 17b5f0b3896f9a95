//! A host with a server in this process, a model that follows a list, and the happenings of a conversation as lines.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::address::Around;
use switchboard::calling::Desk;
use switchboard::engine::{Host, Options};
use switchboard::in_process::InProcess;
use switchboard::load;
use switchboard::places::Places;
use switchboard_builtin::server::Server;
use switchboard_chat::chronicle::Chronicle;
use switchboard_chat::happening::{Happening, TurnEnd};
use switchboard_chat::language_model::{
    Answered, Answering, Delta, LanguageModel, ModelError, ModelErrorKind, ModelRequest, Stop,
    Usage,
};
use switchboard_chat::talk::{Setting, Talk};
use switchboard_chat::utterance::{CallWanted, Part, Utterance};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Nothing here takes this long.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What a model does when it is asked.
pub enum Step {
    /// Says words, and is done.
    Say(&'static str),
    /// Says words and wants calls: id, tool, arguments.
    Call(&'static str, Vec<(&'static str, &'static str, Json)>),
    /// Says words and never goes on.
    Hang(&'static str),
    /// Says words and is cut off, with these calls half made.
    CutShort(&'static str, Vec<(&'static str, &'static str, Json)>),
    /// Fails.
    Fail,
}

/// A model that follows a list and remembers what it was asked.
pub struct Listed {
    steps: Mutex<VecDeque<Step>>,
    asked: Mutex<Vec<ModelRequest>>,
}

impl Listed {
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Arc<Listed> {
        let steps = Mutex::new(steps.into_iter().collect());
        Arc::new(Listed { steps, asked: Mutex::default() })
    }

    pub fn asked(&self) -> Vec<ModelRequest> {
        self.asked.lock().expect("no panic").clone()
    }

    pub fn last_said(&self) -> Vec<Utterance> {
        self.asked().last().expect("it was asked").said.to_vec()
    }
}

fn wanted(calls: Vec<(&str, &str, Json)>) -> impl Iterator<Item = Part> {
    let call = |(id, tool, arguments): (&str, &str, Json)| {
        Part::Call(CallWanted { id: id.to_owned(), tool: tool.to_owned(), arguments })
    };
    calls.into_iter().map(call).collect::<Vec<_>>().into_iter()
}

impl LanguageModel for Listed {
    fn name(&self) -> &str {
        "listed"
    }

    fn window(&self) -> Option<u64> {
        Some(1000)
    }

    fn answer<'a>(&'a self, request: ModelRequest, said: mpsc::Sender<Delta>) -> Answering<'a> {
        Box::pin(async move {
            self.asked.lock().expect("no panic").push(request);
            let step = self.steps.lock().expect("no panic").pop_front();
            let (words, calls, stop) = match step.expect("the list is long enough") {
                Step::Say(words) => (words, Vec::new(), Stop::End),
                Step::Call(words, calls) => (words, calls, Stop::Calls),
                Step::CutShort(words, calls) => (words, calls, Stop::Length),
                Step::Hang(words) => {
                    let _heard = said.send(Delta::Text(words.to_owned())).await;
                    std::future::pending().await
                }
                Step::Fail => {
                    let kind = ModelErrorKind::Busy("try later".to_owned());
                    return Err(ModelError { model: "listed".to_owned(), kind });
                }
            };
            let mut parts = Vec::new();
            if !words.is_empty() {
                let _heard = said.send(Delta::Text(words.to_owned())).await;
                parts.push(Part::Text { text: words.to_owned() });
            }
            parts.extend(wanted(calls));
            Ok(Answered { parts, stop, usage: Usage { input: 10, cached: 4, output: 2 } })
        })
    }
}

/// A host whose one server is `s`.
pub struct Stage {
    pub folder: TempDir,
    pub host: Host,
    pub desk: Desk,
    task: JoinHandle<()>,
}

impl Stage {
    pub async fn new(server: Server) -> Stage {
        Stage::named("s", server).await
    }

    pub async fn named(name: &str, server: Server) -> Stage {
        let folder = tempfile::tempdir().expect("a temp folder");
        let places = Places::below(folder.path());
        let around = Around { working_folder: folder.path().to_owned(), ..Around::default() };
        let mut options = Options::new(places.clone(), around);
        let server = Arc::new(server);
        let server = InProcess::new(move |link| server.clone().serve(link));
        options.in_process.insert(name.to_owned(), server);
        let (host, task) = Host::start(options).expect("it starts");
        let servers = json!({"mcpServers": {name: {"type": "sdk", "name": name}}});
        host.apply(&load::of_program("test", &servers.to_string())).await;
        host.settled().await;
        let desk = Desk::new(&host, &places).expect("a desk").trusting(name);
        Stage { folder, host, desk, task }
    }

    pub fn places(&self) -> Places {
        Places::below(self.folder.path())
    }

    pub fn setting(&self, model: Arc<dyn LanguageModel>) -> Setting {
        Setting {
            host: self.host.clone(),
            desk: Arc::new(self.desk.clone()),
            model: Some(model),
            system: "be brief".into(),
            before: Vec::new(),
            rounds: 50,
        }
    }

    pub fn talk(&self, model: &Arc<Listed>) -> Chat {
        Chat::of(Talk::begin(self.setting(model.clone())))
    }

    pub fn kept(&self, model: &Arc<Listed>, chronicle: Chronicle, before: Vec<Utterance>) -> Chat {
        let setting = Setting { before, ..self.setting(model.clone()) };
        Chat::of(Talk::begin_kept(setting, chronicle))
    }

    pub async fn stop(self) {
        self.host.stop().await;
        self.task.await.expect("it ends well");
    }
}

/// A conversation under way.
pub struct Chat {
    pub talk: Talk,
    happenings: mpsc::Receiver<Happening>,
    task: JoinHandle<()>,
}

impl Chat {
    pub fn of((talk, happenings, task): (Talk, mpsc::Receiver<Happening>, JoinHandle<()>)) -> Chat {
        Chat { talk, happenings, task }
    }

    pub async fn say(&self, text: &str) {
        self.talk.say(vec![Part::Text { text: text.to_owned() }]).await;
    }

    pub async fn next(&mut self) -> Happening {
        let next = tokio::time::timeout(PATIENCE, self.happenings.recv()).await;
        next.expect("something happens").expect("the conversation goes on")
    }

    /// What happens until the turn is over, a line each.
    pub async fn turn(&mut self) -> Vec<String> {
        self.until(|it| it.starts_with("ended")).await
    }

    /// What happens until one of the lines is this.
    pub async fn until(&mut self, is_last: impl Fn(&str) -> bool) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            lines.push(line(&self.next().await));
            if is_last(lines.last().expect("it was just pushed")) {
                return lines;
            }
        }
    }

    pub async fn ask(&mut self, text: &str) -> Vec<String> {
        self.say(text).await;
        self.turn().await
    }

    pub async fn end(self) {
        drop(self.talk);
        tokio::time::timeout(PATIENCE, self.task).await.expect("it ends").expect("no panic");
    }
}

fn line(happening: &Happening) -> String {
    match happening {
        Happening::TakenUp { sayings } => format!("taken up {sayings}"),
        Happening::Text(text) => format!("text {text}"),
        Happening::Thought(text) => format!("thought {text}"),
        Happening::AnswerEnded => "answer ended".to_owned(),
        Happening::CallBegan(seen) => format!("began {} {}", seen.id, seen.title),
        Happening::CallProgress { id, done, of, message } => {
            format!("progress {id} {done} {of:?} {}", message.as_deref().unwrap_or("-"))
        }
        Happening::CallEnded { id, ended, text, .. } => format!("call {id} {ended:?}: {text}"),
        Happening::Used(usage) => format!("used {} {} {}", usage.input, usage.cached, usage.output),
        Happening::Again { attempt, because, .. } => format!("again {attempt}: {because}"),
        Happening::TurnEnded(TurnEnd::Failed(error)) => format!("ended failed: {}", error.kind),
        Happening::TurnEnded(end) => format!("ended {end:?}"),
    }
}

/// What was said, a line a part.
pub fn lines(said: &[Utterance]) -> Vec<String> {
    let part = |part: &Part| match part {
        Part::Text { text } => text.clone(),
        Part::Picture { mime, .. } => format!("<{mime}>"),
        Part::Thought { text, .. } => format!("<thought {text}>"),
        Part::Call(call) => format!("<call {} {}>", call.id, call.tool),
        Part::Result(result) => {
            let parts = json!(
                result
                    .parts
                    .iter()
                    .map(|it| match it {
                        Part::Text { text } => text.clone(),
                        Part::Picture { mime, .. } => format!("<{mime}>"),
                        Part::Thought { .. } | Part::Call(_) | Part::Result(_) => String::new(),
                    })
                    .collect::<Vec<_>>()
            );
            let sign = if result.is_error { "!" } else { "" };
            format!("<result {}{sign} {parts}>", result.id)
        }
    };
    let line = |it: &Utterance| {
        format!("{:?}: {}", it.speaker, it.parts.iter().map(part).collect::<Vec<_>>().join(" "))
    };
    said.iter().map(line).collect()
}
