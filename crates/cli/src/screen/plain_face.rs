//! The conversation in plain lines: nothing is drawn twice, nothing moves, so that screen readers and terminals that can
//! do little follow it. The same loop and the same commands as on the screen; questions are asked as commands ask them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use switchboard::calling::Consent;
use switchboard::connection::state::Persistence;
use switchboard::engine::{Host, Options, Snapshot};
use switchboard_chat::happening::{CallEnd, CallSeen, Happening, TurnEnd};
use tokio::sync::mpsc;

use crate::commands::print::Print;
use crate::connected;
use crate::live::{self, Interrupts};
use crate::outcome::{Done, Failure};
use crate::report;
use crate::screen::cards::seconds;
use crate::screen::chat::{Act, Event, NO_MODEL, PromptAsked, model_failure};
use crate::screen::clean_text::{clean, clean_line};
use crate::screen::deeds::{Deeds, ForWindow};
use crate::screen::opening::{self, Answerer, Patience, Terms};
use crate::screen::performance::Performance;
use crate::screen::questions::{self, Circumstances};
use crate::screen::recital::Prompter;
use crate::screen::slash::{self, Slash};
use crate::screen::word_order::{Requests, WordOrder};
use crate::session::Session;

/// How many outcomes may wait.
const REPORTS: usize = 64;
/// How many lines of a result are said.
const PREVIEW: usize = 20;
/// How often a call that goes on says how far it is.
const PROGRESS: Duration = Duration::from_secs(5);

/// Converses until somebody leaves.
pub fn run(session: &Session, flags: &Print) -> Result<Done, Failure> {
    let (order, requests) = WordOrder::new();
    let left = live::adapted(
        session,
        Persistence::Patient,
        |options| Options { asker: Arc::new(order.keep(options.asker)), ..options },
        async |host, interrupts| {
            let consent = Arc::new(order.keep(Arc::new(session.person.clone())));
            let flags = &chosen(session, flags).await;
            let terms = Terms { flags, patience: Patience::Endless, model: None };
            let mut face = PlainFace::open(session, host, terms, (consent, requests)).await?;
            face.converse(interrupts).await;
            Ok(face.close().await)
        },
    )?;
    Ok(Done::text(left))
}

/// Plays a conversation, from the first line to the last.
pub fn recite(
    session: &Session,
    flags: &Print,
    performance: Performance,
    model: Answerer,
) -> Result<(), Failure> {
    let Performance { scenes, written, .. } = performance;
    let (order, requests) = WordOrder::new();
    let prompter = Arc::new(order.keep(Arc::new(Prompter::new(written))));
    let asker = prompter.clone();
    let adapt = |options: Options| Options { asker, ..options };
    live::adapted(session, Persistence::Patient, adapt, async |host, interrupts| {
        let terms = Terms { flags, patience: Patience::Endless, model: Some(model) };
        let mut face = PlainFace::open(session, host, terms, (prompter, requests)).await?;
        live::settle(session, host, None, Snapshot::is_settled).await;
        host.settled_pool().await;
        for scene in scenes {
            face.say(&format!("\n> {}\n", scene.line));
            let stay = face.line(&scene.line, interrupts).await;
            if stay == Stay::No || face.is_interrupted {
                break;
            }
        }
        face.close().await;
        Ok(())
    })
}

struct PlainFace {
    session: Session,
    deeds: Deeds,
    happenings: mpsc::Receiver<Happening>,
    reports: mpsc::Receiver<Event>,
    /// Questions that wait until all has been said.
    requests: Requests,
    /// Is the model at work?
    is_in_turn: bool,
    /// Was what is under way stopped?
    is_interrupted: bool,
    /// Was the last thing that was said a line without its end?
    is_open: bool,
    /// The titles of calls under way, and when each last said something.
    calls: BTreeMap<Arc<str>, (String, Instant)>,
    /// A prompt whose arguments are to be asked for.
    asked: Option<PromptAsked>,
    task: tokio::task::JoinHandle<()>,
}

/// Goes it on?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stay {
    Yes,
    No,
}

impl PlainFace {
    async fn open(
        session: &Session,
        host: &Host,
        terms: Terms<'_>,
        (consent, requests): (Arc<dyn Consent>, Requests),
    ) -> Result<PlainFace, Failure> {
        let configuration = session.load()?;
        let begun = opening::begin(session, host, (&configuration, terms), consent).await?;
        live::apply(host, &configuration, &[]).await;
        // Nobody looks at this queue: what is asked is asked in lines.
        let (questions, _arrivals) = questions::channel(Circumstances::of(session, &configuration));
        let (tell, reports) = mpsc::channel(REPORTS);
        let known = (begun.desk, Arc::new(configuration));
        let mut deeds =
            Deeds::new(session.clone(), host.clone(), known, (begun.talk, questions), tell);
        deeds.model = begun.model;
        let snapshot = host.snapshot();
        let servers = match snapshot.servers.len() {
            1 => "1 server".to_owned(),
            count => format!("{count} servers"),
        };
        let model = deeds.model.as_ref().map_or("no model".to_owned(), |it| clean_line(&it.name));
        report::say(&format!("Switchboard. {model}, {servers}. /help lists commands.\n"));
        if !begun.before.is_empty() {
            report::say(&format!("Going on after {} utterances.\n", begun.before.len()));
        }
        report::aside(&begun.warning);
        if let Some(failure) = &begun.trouble {
            report::aside(&report::failure_text(failure));
        }
        Ok(PlainFace {
            session: session.clone(),
            deeds,
            happenings: begun.happenings,
            reports,
            requests,
            is_in_turn: false,
            is_interrupted: false,
            is_open: false,
            calls: BTreeMap::new(),
            asked: None,
            task: begun.task,
        })
    }

    async fn converse(&mut self, interrupts: &mut Interrupts) {
        loop {
            let person = self.session.person.clone();
            let line = tokio::select! {
                line = person.next_line("> ") => line,
                () = interrupts.next() => None,
            };
            let Some(line) = line else {
                report::aside("\n");
                return;
            };
            if self.line(line.trim(), interrupts).await == Stay::No {
                return;
            }
        }
    }

    async fn line(&mut self, line: &str, interrupts: &mut Interrupts) -> Stay {
        if line.is_empty() {
            return Stay::Yes;
        }
        let act = if line.starts_with('/') {
            match slash::parse(line) {
                Ok(Slash::Mcp(_)) => return self.servers(),
                Ok(slash) => Act::Run(slash),
                Err(why) => {
                    self.say(&format!("error: {}\n", clean(&why)));
                    return Stay::Yes;
                }
            }
        } else if self.deeds.model.is_none() {
            self.say(&format!("{NO_MODEL}\n"));
            return Stay::Yes;
        } else {
            self.is_in_turn = true;
            Act::Say(line.to_owned())
        };
        if self.deeds.act(act).await == Some(ForWindow::Quit) {
            return Stay::No;
        }
        self.settle(interrupts).await;
        while let Some(asked) = self.asked.take() {
            self.ask_arguments(asked).await;
            self.settle(interrupts).await;
        }
        Stay::Yes
    }

    fn servers(&mut self) -> Stay {
        let snapshot = self.deeds.host.snapshot();
        for view in snapshot.servers.values() {
            let name = clean_line(&view.name);
            self.say(&format!("{name}: {}\n{}", view.status.id(), connected::trouble(view)));
        }
        Stay::Yes
    }

    /// Says what comes until nothing is under way.
    async fn settle(&mut self, interrupts: &mut Interrupts) {
        loop {
            for event in self.deeds.take_said() {
                self.heard(event);
            }
            tokio::select! {
                biased;
                Some(event) = self.reports.recv() => self.heard(event),
                Some(happening) = self.happenings.recv() => self.happened(happening),
                // After what happened, so that nothing of it waits any more.
                Some(question) = self.requests.recv() => {
                    self.end_line();
                    let _given_up = question.send(());
                }
                Some(_) = self.deeds.tasks.join_next() => {}
                () = interrupts.next() => {
                    self.is_interrupted = true;
                    self.deeds.act(Act::Interrupt).await;
                }
                () = std::future::ready(()), if self.is_done() => {
                    self.end_line();
                    return;
                }
            }
        }
    }

    fn is_done(&self) -> bool {
        !self.is_in_turn && self.deeds.tasks.is_empty() && self.reports.is_empty()
    }

    fn heard(&mut self, event: Event) {
        match event {
            Event::Happened(happening) => self.happened(happening),
            Event::Note(text) | Event::Text { text, .. } | Event::Page { text, .. } => {
                self.say(&format!("{}\n", text.trim_end()));
            }
            Event::Fault(text) => {
                self.end_line();
                report::aside(&format!("{}\n", text.trim_end()));
            }
            Event::Said(_) => self.is_in_turn = true,
            Event::Prompt(asked) => self.asked = Some(asked),
            Event::Model(model) => self.deeds.model = model,
            Event::Key(_)
            | Event::Paste(_)
            | Event::Drawn
            | Event::Servers(_)
            | Event::Configured(_)
            | Event::Pool(_)
            | Event::Tick
            | Event::Over(_)
            | Event::Composed(_)
            | Event::Context(_)
            | Event::TakenBack(_)
            | Event::Completed { .. }
            | Event::Focus(_)
            | Event::Arrived(_) => {}
        }
    }

    fn happened(&mut self, happening: Happening) {
        match happening {
            Happening::Text(text) => {
                let text = clean(&text);
                self.is_open = !text.ends_with('\n');
                report::say(&text);
            }
            Happening::CallBegan(call) => self.call_began(call),
            Happening::CallProgress { id, done, of, message } => {
                let Some((title, said)) = self.calls.get_mut(&id) else { return };
                if said.elapsed() < PROGRESS {
                    return;
                }
                *said = Instant::now();
                let of = of.map(|of| format!(" of {of}")).unwrap_or_default();
                let message = message.map(|it| format!(", {}", clean_line(&it)));
                let line = format!("{title}: {done}{of}{}\n", message.unwrap_or_default());
                self.say(&line);
            }
            Happening::CallEnded { id, ended, text, took } => {
                let title = self.calls.remove(&id).map(|it| it.0).unwrap_or_default();
                let how = match ended {
                    CallEnd::Done => "done",
                    CallEnd::ToolError => "the tool failed",
                    CallEnd::Failed => "not made",
                    CallEnd::Denied => "not allowed",
                    CallEnd::Interrupted => "stopped",
                };
                self.say(&format!("{title}: {how} after {}\n", seconds(took)));
                self.say(&preview(&text));
            }
            Happening::Again { attempt, after, because } => {
                let because = clean_line(&because);
                let after = seconds(after);
                self.say(&format!("asked again in {after} (attempt {attempt}): {because}\n"));
            }
            Happening::TurnEnded(end) => {
                self.is_in_turn = false;
                self.end_line();
                self.turn_ended(&end);
            }
            Happening::TakenUp { .. }
            | Happening::Thought(_)
            | Happening::AnswerEnded
            | Happening::Used(_) => {}
        }
    }

    fn call_began(&mut self, call: CallSeen) {
        let title = clean_line(&call.title);
        let arguments = switchboard::config::shown::values(&call.arguments);
        self.say(&format!("calling {title} {}\n", clean_line(&arguments.to_string())));
        self.calls.insert(call.id, (title, Instant::now()));
    }

    fn turn_ended(&mut self, end: &TurnEnd) {
        let text = match end {
            TurnEnd::Finished => return,
            TurnEnd::CutShort => "The answer was as long as it may be; say “go on”.".to_owned(),
            TurnEnd::Refused => "The model would not answer.".to_owned(),
            TurnEnd::Interrupted => "Stopped.".to_owned(),
            TurnEnd::TooManyRounds => "Too many rounds of calls; say “go on”.".to_owned(),
            TurnEnd::Failed(error) => model_failure(error),
        };
        self.say(&format!("{text}\n"));
    }

    /// Asks for the arguments of a prompt, a line each.
    async fn ask_arguments(&mut self, mut asked: PromptAsked) {
        for argument in asked.arguments.clone() {
            if asked.given.contains_key(&argument.name) {
                continue;
            }
            let need = if argument.is_required { "" } else { " (may be left empty)" };
            let (name, about) = (clean_line(&argument.name), clean_line(&argument.about));
            let text = format!("{name}{need}, {about}: ");
            let person = self.session.person.clone();
            match person.next_line(&text).await {
                None => return,
                Some(line) if line.is_empty() && argument.is_required => {
                    return self.say("It needs this, so nothing is done.\n");
                }
                Some(line) if line.is_empty() => {}
                Some(line) => {
                    asked.given.insert(argument.name, line);
                }
            }
        }
        self.deeds.act(Act::GetPrompt(asked)).await;
    }

    fn say(&mut self, text: &str) {
        self.end_line();
        report::say(text);
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.is_open) {
            report::say("\n");
        }
    }

    async fn close(self) -> String {
        let PlainFace { mut deeds, happenings, task, .. } = self;
        let standing = deeds.talk.standing();
        deeds.tasks.shutdown().await;
        deeds.desk.audit.settle().await;
        drop((deeds, happenings));
        let _panicked = tokio::time::timeout(Duration::from_secs(2), task).await;
        opening::farewell(&standing)
    }
}

fn preview(text: &str) -> String {
    let text = clean(text.trim_end());
    let count = text.lines().count();
    let mut lines: Vec<&str> = text.lines().take(PREVIEW).collect();
    let more = format!("({} more lines)", count.saturating_sub(PREVIEW));
    if count > PREVIEW {
        lines.push(&more);
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The flags with the conversation that somebody chose, where somebody had to.
async fn chosen(session: &Session, flags: &Print) -> Print {
    let Some(all) = flags.choices(session) else { return flags.clone() };
    for (at, past) in all.iter().enumerate() {
        report::say(&format!("{}: {}\n", at + 1, clean_line(&past.first_words)));
    }
    let line = session.person.next_line("Which conversation? A number, or nothing for a new one: ");
    let number = line.await.and_then(|it| it.trim().parse::<usize>().ok());
    let id = number.and_then(|it| all.get(it.checked_sub(1)?)).map(|it| it.id.clone());
    Print { resume: id, ..flags.clone() }
}
