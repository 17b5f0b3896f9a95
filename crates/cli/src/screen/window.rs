//! Runs the screen: takes the terminal, hears keys, servers, the model and questions, lets the chat decide, has it drawn,
//! and gives the terminal back. Draws only what changed, and only when something did.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crossterm::event::{Event as TerminalEvent, EventStream};
use futures_util::StreamExt;
use switchboard::connection::state::Persistence;
use switchboard::engine::{Host, Options};
use switchboard::load::Configuration;
use switchboard::places::project_root;
use switchboard::reload::Follower;
use switchboard_chat::happening::Happening;
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use crate::commands::print::Print;
use crate::exit::Exit;
use crate::live::{self, Interrupts};
use crate::outcome::{Done, Failure};
use crate::screen::chat::{Chat, Event, Focus};
use crate::screen::chat_frame;
use crate::screen::deeds::{Deeds, ForWindow, fault};
use crate::screen::editor_run;
use crate::screen::history::History;
use crate::screen::look::Look;
use crate::screen::markdown;
use crate::screen::opening::{self, Patience, Terms};
use crate::screen::panel::roster::Roster;
use crate::screen::past_list::PastList;
use crate::screen::performance::Player;
use crate::screen::questions::{self, Arrivals, Circumstances, Questions};
use crate::screen::raw_terminal::{RawTerminal, stop_ourselves};
use crate::screen::stand_in::{self, StandIn, TAKEN_OVER, Touch};
use crate::session::Session;

/// The least time between two frames.
const FRAME: Duration = Duration::from_millis(8);
/// How often what moves is drawn.
const TICK: Duration = Duration::from_millis(250);
/// How many outcomes may wait for the screen.
const REPORTS: usize = 64;

/// Opens the screen, and stays until somebody leaves.
pub fn run(session: &Session, flags: &Print, player: Player) -> Result<Done, Failure> {
    let look = Look::of(&session.machine.variables, None);
    let folder = session.shown_path(&session.machine.working_folder);
    let mut chat = Chat::new(look, folder, Instant::now());
    let mut terminal = RawTerminal::enter().map_err(no_terminal)?;
    let flags = &match flags.choices(session) {
        None => flags.clone(),
        Some(all) => {
            let list = PastList::new(all, SystemTime::now());
            match list.choose(&mut terminal, &chat.look).map_err(no_terminal)? {
                Some(id) => Print { resume: Some(id), ..flags.clone() },
                None => return Ok(Done::default()),
            }
        }
    };
    // Before anything is read that could take its time.
    terminal.draw(|frame| chat_frame::draw(&mut chat, frame)).map_err(no_terminal)?;
    let configuration = session.load()?;
    chat.look = Look::of(&session.machine.variables, configuration.theme);
    let root = project_root(&session.machine.working_folder);
    chat.history = History::of(&session.machine.places, &root);
    let (questions, arrivals) = questions::channel(Circumstances::of(session, &configuration));
    let asker = live::asker(session, Arc::new(questions.clone()))?;
    let adapt = |options: Options| Options { asker, ..options };
    let left = live::adapted(session, Persistence::Patient, adapt, async |host, interrupts| {
        let face = Face { chat, terminal, questions, arrivals, player };
        let known = (configuration, flags);
        let mut window = Window::open(session, host, known, face).await?;
        let outcome = window.run(interrupts).await;
        window.close(outcome).await
    })?;
    Ok(Done::text(left))
}

fn no_terminal(error: io::Error) -> Failure {
    Failure::new(Exit::Failure, "the terminal cannot be used").because(error)
}

/// What the window is made of before there is a host.
struct Face {
    chat: Chat,
    terminal: RawTerminal,
    questions: Questions,
    arrivals: Arrivals,
    player: Player,
}

struct Window {
    chat: Chat,
    terminal: RawTerminal,
    deeds: Deeds,
    host: Host,
    keys: EventStream,
    /// Who presses keys until somebody else does.
    stand_in: Option<StandIn>,
    happenings: mpsc::Receiver<Happening>,
    reports: mpsc::Receiver<Event>,
    arrivals: Arrivals,
    configurations: mpsc::Receiver<Configuration>,
    talking: tokio::task::JoinHandle<()>,
    /// When it was drawn last.
    drawn: Instant,
    /// Has anything changed since?
    is_stale: bool,
}

/// Goes it on?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stay {
    Yes,
    No,
}

impl Window {
    async fn open(
        session: &Session,
        host: &Host,
        (configuration, flags): (Configuration, &Print),
        face: Face,
    ) -> Result<Window, Failure> {
        let Face { mut chat, terminal, questions, arrivals, player } = face;
        let (stand_in, model) = match player {
            Player::Person => (None, None),
            Player::Script(performance, model) => (Some(StandIn::new(performance)), Some(model)),
        };
        live::apply(host, &configuration, &[]).await;
        let follower = Follower::start(session.surroundings(), &configuration).ok();
        let consent = Arc::new(questions.clone());
        let terms = Terms { flags, patience: Patience::Short, model };
        let begun = opening::begin(session, host, (&configuration, terms), consent).await?;
        chat.mode = begun.desk.mode;
        chat.model.clone_from(&begun.model);
        chat.recall(&begun.before);
        let (tell, reports) = mpsc::channel(REPORTS);
        let mut session = session.clone();
        session.machine.terminal.width = width();
        let known = (begun.desk, Arc::new(configuration));
        let mut deeds = Deeds::new(session, host.clone(), known, (begun.talk, questions), tell);
        deeds.model = begun.model;
        if let Some(coming) = begun.coming {
            deeds.await_model(coming);
        }
        if !begun.warning.is_empty() {
            chat.on(Event::Note(begun.warning), Instant::now());
        }
        if let Some(failure) = &begun.trouble {
            chat.on(fault(failure), Instant::now());
        }
        // One place: who changes files faster than they are taken up waits.
        let (changed, configurations) = mpsc::channel(1);
        if let Some(follower) = follower {
            deeds.tasks.spawn(follow(follower, changed));
        }
        deeds.ask_about_project();
        Ok(Window {
            chat,
            terminal,
            deeds,
            host: host.clone(),
            keys: EventStream::new(),
            stand_in,
            happenings: begun.happenings,
            reports,
            arrivals,
            configurations,
            talking: begun.task,
            drawn: Instant::now(),
            is_stale: true,
        })
    }

    async fn run(&mut self, interrupts: &mut Interrupts) -> Result<(), Failure> {
        let (mut snapshots, mut pools) = (self.host.watch(), self.host.watch_pool());
        let mut next_tick = Instant::now() + TICK;
        loop {
            let due = self.drawn + FRAME;
            if self.is_stale && Instant::now() >= due {
                self.draw()?;
            }
            let is_moving = self.chat.is_moving();
            if !is_moving {
                next_tick = Instant::now() + TICK;
            }
            let chat = &self.chat;
            let played = self.stand_in.as_mut().and_then(|it| it.due(chat, Instant::now()));
            let event = tokio::select! {
                biased;
                () = interrupts.next() => return Ok(()),
                key = self.keys.next() => match key {
                    Some(Ok(key)) => match self.touched(&key) {
                        Touch::None => self.terminal_event(key),
                        Touch::TakeOver => Some(Event::Note(TAKEN_OVER.to_owned())),
                        Touch::Leave => return Ok(()),
                    },
                    // Nobody can type any more.
                    Some(Err(_)) | None => return Ok(()),
                },
                () = sleep_until(due.into()), if self.is_stale => continue,
                Some(arrival) = self.arrivals.next() => Some(Event::Arrived(arrival)),
                Some(report) = self.reports.recv() => Some(report),
                Some(happening) = self.happenings.recv() => Some(Event::Happened(happening)),
                Ok(()) = snapshots.changed() => {
                    Some(Event::Servers(snapshots.borrow_and_update().clone()))
                }
                Ok(()) = pools.changed() => Some(Event::Pool(pools.borrow_and_update().clone())),
                Some(configuration) = self.configurations.recv() => {
                    self.deeds.reconfigure(configuration).await;
                    let Deeds { session, configuration, .. } = &self.deeds;
                    Some(Event::Configured(Arc::new(Roster::of(session, configuration))))
                }
                () = sleep_until(played.unwrap_or(due).into()), if played.is_some() => {
                    self.stand_in.as_mut().and_then(StandIn::key).map(Event::Key)
                }
                () = markdown::loaded() => Some(Event::Drawn),
                () = sleep_until(next_tick.into()), if is_moving => {
                    next_tick += TICK;
                    Some(Event::Tick)
                }
            };
            let Some(event) = event else { continue };
            if self.hear(event).await? == Stay::No {
                return Ok(());
            }
        }
    }

    /// Has somebody taken the keys from who plays them? What they pressed did that and nothing else.
    fn touched(&mut self, event: &TerminalEvent) -> Touch {
        let Some(_) = &self.stand_in else { return Touch::None };
        let touch = stand_in::touch(event);
        if touch != Touch::None {
            self.stand_in = None;
        }
        touch
    }

    fn terminal_event(&mut self, event: TerminalEvent) -> Option<Event> {
        match event {
            TerminalEvent::Key(key) => Some(Event::Key(key)),
            TerminalEvent::Paste(text) => Some(Event::Paste(text)),
            TerminalEvent::Resize(columns, _) => {
                self.deeds.session.machine.terminal.width = usize::from(columns);
                Some(Event::Drawn)
            }
            TerminalEvent::FocusGained => Some(Event::Focus(Focus::Here)),
            TerminalEvent::FocusLost => Some(Event::Focus(Focus::Elsewhere)),
            TerminalEvent::Mouse(_) => None,
        }
    }

    async fn hear(&mut self, event: Event) -> Result<Stay, Failure> {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            if self.hear_one(event).await? == Stay::No {
                return Ok(Stay::No);
            }
            events.extend(self.deeds.take_said());
        }
        Ok(Stay::Yes)
    }

    async fn hear_one(&mut self, event: Event) -> Result<Stay, Failure> {
        self.is_stale = true;
        let ends_answer = matches!(&event, Event::Happened(Happening::Used(_)));
        if let Event::Model(model) = &event {
            self.deeds.model.clone_from(model);
        }
        let acts = self.chat.on(event, Instant::now());
        for act in acts {
            if let Some(act) = self.deeds.act(act).await
                && self.perform(act)? == Stay::No
            {
                return Ok(Stay::No);
            }
        }
        if ends_answer {
            let standing = self.deeds.talk.standing();
            self.chat.on(Event::Context(standing.context), Instant::now());
        }
        Ok(Stay::Yes)
    }

    fn perform(&mut self, act: ForWindow) -> Result<Stay, Failure> {
        match act {
            ForWindow::Quit => return Ok(Stay::No),
            ForWindow::Ring => self.terminal.ring().map_err(no_terminal)?,
            ForWindow::Repaint => self.terminal.forget().map_err(no_terminal)?,
            ForWindow::Suspend => {
                self.lend(stop_ourselves)?;
            }
            ForWindow::Remember(text) => {
                if let Err(error) = self.chat.history.add(&text) {
                    let what = Failure::new(Exit::Failure, "what you sent cannot be remembered");
                    self.chat.on(fault(&what.because(error)), Instant::now());
                    // Said once is enough.
                    self.chat.history = History::default();
                }
            }
            ForWindow::Edit(text) => {
                let variables = self.deeds.session.machine.variables.clone();
                let edited = self.lend(|| editor_run::edit(&variables, &text))?;
                let event = match edited {
                    Ok(text) => Event::Composed(text),
                    Err(failure) => fault(&failure),
                };
                self.chat.on(event, Instant::now());
            }
        }
        Ok(Stay::Yes)
    }

    /// Gives the terminal and its keys to somebody else for a while.
    fn lend<T>(&mut self, work: impl FnOnce() -> T) -> Result<T, Failure> {
        // Whoever reads keys must not take them from somebody else.
        drop(std::mem::take(&mut self.keys));
        let outcome = self.terminal.lend(work).map_err(no_terminal)?;
        self.deeds.session.machine.terminal.width = width();
        Ok(outcome)
    }

    fn draw(&mut self) -> Result<(), Failure> {
        self.chat.now = Instant::now();
        self.is_stale = false;
        let chat = &mut self.chat;
        self.terminal.draw(|frame| chat_frame::draw(chat, frame)).map_err(no_terminal)?;
        self.drawn = Instant::now();
        Ok(())
    }

    /// Ends everything, and gives what is said on the ordinary screen.
    async fn close(self, outcome: Result<(), Failure>) -> Result<String, Failure> {
        let Window { mut deeds, terminal, keys, talking, happenings, .. } = self;
        drop(keys);
        drop(terminal);
        let standing = deeds.talk.standing();
        deeds.tasks.shutdown().await;
        deeds.desk.audit.settle().await;
        drop((deeds, happenings));
        let _panicked = tokio::time::timeout(Duration::from_secs(2), talking).await;
        outcome?;
        Ok(opening::farewell(&standing))
    }
}

/// Passes on every configuration that comes. A task of its own: whoever waits beside other things would lose a change
/// that is half read.
async fn follow(mut follower: Follower, changes: mpsc::Sender<Configuration>) {
    while let Some(configuration) = follower.next().await {
        if changes.send(configuration).await.is_err() {
            return;
        }
    }
}

fn width() -> usize {
    crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns))
}
