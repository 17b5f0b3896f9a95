//! The panel of servers: a table of all, a sheet of one, and keys that do something about them. It is told what
//! changes; what is to be done leaves as a `Deed`.

pub mod inventory;
pub mod observing;
pub mod portrait;
pub mod resident;
pub mod roster;
pub mod server_list;
pub mod server_sheet;

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Span;
use switchboard::engine::{Host, Snapshot};
use switchboard::pool::Pool;

use crate::describe::counted;
use crate::screen::dialog::paper::cut;
use crate::screen::dialog::text_box::Taken;
use crate::screen::dialog::{framed, gives_up};
use crate::screen::look::{Look, Tone};
use crate::screen::overlay::{Deed, News, Overlay, Reaction, Redraw};

use inventory::Inventory;
use observing::{Observed, Observer, Wish};
use portrait::{Mood, Portrait};
use roster::{Footing, Roster};
use server_list::ServerList;
use server_sheet::{Known, ServerSheet, Tab};

/// The panel. Looks at memory and logs while it is there.
#[derive(Debug)]
pub struct Panel {
    roster: Arc<Roster>,
    snapshot: Arc<Snapshot>,
    pool: Arc<Pool>,
    observer: Observer,
    observed: Arc<Observed>,
    portraits: Vec<Portrait>,
    list: ServerList,
    sheet: Option<(ServerSheet, Inventory)>,
    /// What is said at the bottom.
    said: Option<String>,
    /// What the same key would do once more.
    armed: Option<(KeyCode, Deed)>,
}

impl Panel {
    /// Opens it. Must be called inside a runtime.
    pub fn open(host: &Host, roster: Arc<Roster>) -> Panel {
        let observer = Observer::start(host.logbook().clone());
        let pool = host.watch_pool().borrow().clone();
        Panel::of(roster, host.snapshot(), pool, observer)
    }

    /// Of what is known.
    fn of(
        roster: Arc<Roster>,
        snapshot: Arc<Snapshot>,
        pool: Arc<Pool>,
        observer: Observer,
    ) -> Panel {
        let observed = observer.found();
        let portraits = portrait::all(&roster, &snapshot);
        let panel = Panel {
            roster,
            snapshot,
            pool,
            observer,
            observed,
            portraits,
            list: ServerList::default(),
            sheet: None,
            said: None,
            armed: None,
        };
        panel.wish();
        panel
    }

    /// The same with a server's sheet open.
    pub fn at(mut self, server: &str, tab: Tab) -> Panel {
        self.list.choose(server);
        self.open_sheet(server, tab);
        self
    }

    fn open_sheet(&mut self, server: &str, tab: Tab) {
        if self.portraits.iter().any(|it| it.name == server) {
            let inventory = self.inventory_of(server);
            self.sheet = Some((ServerSheet::new(server, tab), inventory));
            self.renew();
            self.wish();
        }
    }

    fn inventory_of(&self, server: &str) -> Inventory {
        let view = self.snapshot.servers.get(server);
        view.map(|it| Inventory::of(it, &self.pool)).unwrap_or_default()
    }

    /// Writes the open sheet anew.
    fn renew(&mut self) {
        if let Some((sheet, inventory)) = &mut self.sheet {
            match known(&self.portraits, &self.roster, &self.observed, (&sheet.name, inventory)) {
                Some(known) => sheet.renew(known),
                // It is gone.
                None => self.sheet = None,
            }
        }
    }

    fn wish(&self) {
        let programs = self.portraits.iter().filter_map(|it| it.process).collect();
        let log = self.sheet.as_ref().filter(|it| it.0.tab() == Tab::Log);
        self.observer.wish(Wish { programs, log: log.map(|it| it.0.name.clone()) });
    }

    fn portray(&mut self) {
        self.portraits = portrait::all(&self.roster, &self.snapshot);
        if let Some(name) = self.sheet.as_ref().map(|it| it.0.name.clone()) {
            let inventory = self.inventory_of(&name);
            if let Some(sheet) = &mut self.sheet {
                sheet.1 = inventory;
            }
        }
        self.renew();
        self.wish();
    }

    /// The server that keys are about.
    fn subject(&self) -> Option<&Portrait> {
        match &self.sheet {
            Some((sheet, _)) => self.portraits.iter().find(|it| it.name == sheet.name),
            None => self.list.chosen(&self.portraits),
        }
    }

    fn title(&self) -> String {
        if let Some((sheet, _)) = &self.sheet {
            return sheet.name.clone();
        }
        let is_connected = |it: &&Portrait| it.mood == Mood::Connected;
        let connected = self.portraits.iter().filter(is_connected).count();
        let tools: usize = self.portraits.iter().filter_map(|it| it.counts[0]).sum();
        let all = counted(self.portraits.len(), "server", "servers");
        format!("{all}, {connected} connected, {}", counted(tools, "tool", "tools"))
    }

    fn say(&mut self, text: String) -> Reaction {
        self.said = Some(text);
        Reaction::Stay
    }

    /// Asks for the same key once more.
    fn arm(&mut self, code: KeyCode, deed: Deed, text: String) -> Reaction {
        self.armed = Some((code, deed));
        self.say(text)
    }

    /// The keys that do something about a server.
    fn action(&mut self, key: KeyEvent) -> Option<Reaction> {
        let it = self.subject()?;
        let (name, footing, is_remote) = (it.name.clone(), it.footing, it.is_remote);
        let is_plain = !key.modifiers.contains(KeyModifiers::CONTROL);
        let KeyCode::Char(letter) = key.code else { return None };
        let decides = matches!(footing, Footing::Undecided | Footing::Rejected);
        Some(match (letter, is_plain) {
            ('r', true) => match footing {
                Footing::Runs => Reaction::Do(Deed::Reconnect(name)),
                Footing::Undecided | Footing::Rejected | Footing::Off | Footing::Stopped => {
                    self.say(format!("`{name}` does not run, so there is nothing to reconnect"))
                }
            },
            ('e', true) => match footing {
                Footing::Off => Reaction::Do(Deed::Enable(name)),
                Footing::Runs | Footing::Undecided => Reaction::Do(Deed::Disable(name)),
                Footing::Rejected | Footing::Stopped => {
                    self.say(format!("`{name}` does not run anyway"))
                }
            },
            ('a' | 'c', true) if !is_remote => {
                self.say(format!("`{name}` is no server that one signs in to"))
            }
            ('a', true) => Reaction::Do(Deed::SignIn(name)),
            ('c', true) => {
                let text = format!("c once more forgets the login of `{name}`");
                self.arm(key.code, Deed::SignOut(name), text)
            }
            // Nothing is approved unseen: what it runs is on the first page of its sheet.
            ('p' | 'x', true) if decides => {
                self.list.choose(&name);
                self.open_sheet(&name, Tab::Overview);
                let shown = self.roster.find(&name).and_then(|it| it.fingerprint.clone());
                let (word, deed) = match (letter, shown) {
                    ('p', Some(fingerprint)) => {
                        ("approves", Deed::ApproveShown { name: name.clone(), fingerprint })
                    }
                    ('p', None) => ("approves", Deed::Approve(name.clone())),
                    (_, _) => ("rejects", Deed::Reject(name.clone())),
                };
                let text = format!("{letter} once more {word} `{name}` as it is shown here");
                self.arm(key.code, deed, text)
            }
            ('p' | 'x', true) => self.say(format!("`{name}` needs no approval")),
            ('l', true) => Reaction::Do(Deed::ShowLog(name)),
            (_, _) => return None,
        })
    }

    fn draw_said(&self, frame: &mut Frame<'_>, area: Rect, look: &Look) -> Rect {
        let Some(said) = self.said.as_ref().filter(|_| area.height > 2) else { return area };
        let tone = if self.armed.is_some() { Tone::Doubtful } else { Tone::Text };
        let text = Span::styled(cut(said, usize::from(area.width)), look.style(tone));
        frame.buffer_mut().set_span(area.x, area.bottom() - 1, &text, area.width);
        Rect { height: area.height - 1, ..area }
    }
}

/// What is known of the server whose sheet is open.
fn known<'k>(
    portraits: &'k [Portrait],
    roster: &'k Roster,
    observed: &'k Observed,
    (name, inventory): (&str, &'k Inventory),
) -> Option<Known<'k>> {
    let portrait = portraits.iter().find(|it| it.name == name)?;
    Some(Known { portrait, enrolled: roster.find(name), inventory, observed })
}

impl Overlay for Panel {
    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, look: &Look) {
        let inner = framed(frame, area, look, &self.title());
        let inner = self.draw_said(frame, inner, look);
        let Panel { portraits, roster, observed, list, sheet, .. } = self;
        match sheet {
            Some((sheet, inventory)) => {
                let name = sheet.name.clone();
                if let Some(known) = known(portraits, roster, observed, (&name, inventory)) {
                    sheet.draw(frame, inner, look, known);
                }
            }
            None => list.draw(frame, inner, look, (portraits, observed)),
        }
    }

    fn key(&mut self, key: KeyEvent) -> Reaction {
        self.said = None;
        if let Some((code, deed)) = self.armed.take()
            && code == key.code
        {
            return Reaction::Do(deed);
        }
        if self.sheet.is_none() {
            if self.list.key(key, &self.portraits) == Taken::Yes {
                return Reaction::Stay;
            }
            if gives_up(key) || key.code == KeyCode::Char('q') {
                return Reaction::Close;
            }
            if key.code == KeyCode::Enter {
                if let Some(name) = self.list.chosen(&self.portraits).map(|it| it.name.clone()) {
                    self.list.choose(&name);
                    self.open_sheet(&name, Tab::Overview);
                }
                return Reaction::Stay;
            }
        } else if gives_up(key) || matches!(key.code, KeyCode::Char('q') | KeyCode::Backspace) {
            self.sheet = None;
            self.wish();
            return Reaction::Stay;
        }
        if let Some(reaction) = self.action(key) {
            return reaction;
        }
        if let Some((sheet, inventory)) = &mut self.sheet {
            let name = sheet.name.clone();
            let known = known(&self.portraits, &self.roster, &self.observed, (&name, inventory));
            if let Some(known) = known {
                sheet.key(key, known);
            }
            self.wish();
        }
        Reaction::Stay
    }

    fn paste(&mut self, text: &str) -> Reaction {
        self.list.paste(text);
        Reaction::Stay
    }

    fn hear(&mut self, news: &News) -> Redraw {
        match news {
            News::Servers(snapshot) => {
                self.snapshot = snapshot.clone();
                self.portray();
            }
            News::Pool(pool) => {
                self.pool = pool.clone();
                self.portray();
            }
            News::Configured(roster) => {
                self.roster = roster.clone();
                self.portray();
            }
            News::Done(text) => self.said = Some(text.clone()),
            News::Tick => match self.observer.news() {
                Some(observed) => {
                    self.observed = observed;
                    self.renew();
                }
                None => return Redraw::No,
            },
        }
        Redraw::Yes
    }

    fn keys(&self) -> Vec<(&'static str, &'static str)> {
        if self.list.is_typing() && self.sheet.is_none() {
            return vec![("Enter", "keep"), ("Esc", "show all")];
        }
        let mut keys = match self.sheet {
            Some(_) => vec![("←→", "page"), ("Enter", "more or less"), ("Esc", "back")],
            None => vec![("Enter", "open"), ("/", "filter"), ("s", "failing first")],
        };
        let it = self.subject();
        match it.map(|it| it.footing) {
            Some(Footing::Runs) => keys.extend([("r", "reconnect"), ("e", "disable")]),
            Some(Footing::Off) => keys.push(("e", "enable")),
            Some(Footing::Undecided) => keys.extend([("p", "approve"), ("x", "reject")]),
            Some(Footing::Rejected) => keys.push(("p", "approve")),
            Some(Footing::Stopped) | None => {}
        }
        if it.is_some_and(|it| it.is_remote && it.footing == Footing::Runs) {
            keys.extend([("a", "sign in"), ("c", "sign out")]);
        }
        keys.push(("l", "log"));
        if self.sheet.is_none() {
            keys.push(("Esc", "close"));
        }
        keys
    }
}

#[cfg(test)]
mod tests;
