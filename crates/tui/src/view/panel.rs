//! The server panel: a list of all servers, a page for one, and keys that act on them. It receives changes as notices
//! and returns actions; running them is left to `effects`.

pub mod monitor;
pub mod server_catalogue;
pub mod server_details;
pub mod server_list;
pub mod server_page;

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Span;
use switchboard::config::display::pluralize;
use switchboard::connection::ServerWatch;
use switchboard::pool::Pool;
use switchboard::{Host, Snapshot};

use crate::text::rich_text::sanitize_and_truncate;
use crate::theme::{ScreenTheme, Tone};
use crate::view::overlay::{Notice, Overlay, OverlayOutcome, Redraw, ServerAction};
use crate::view::widget::frame::{draw_frame, is_cancel_key};
use crate::view::widget::input::KeyOutcome;

use crate::configured_servers::{ConfiguredServers, Eligibility};
use monitor::{Measurements, Monitor, MonitorTargets};
use server_catalogue::ServerCatalogue;
use server_details::{ServerDetails, ServerHealth};
use server_list::ServerList;
use server_page::{PageContext, ServerPage, Tab};

/// The server panel. Reads memory use and logs while it is open.
#[derive(Debug)]
pub struct ServerPanel {
    configured: Arc<ConfiguredServers>,
    snapshot: Arc<Snapshot>,
    pool: Arc<Pool>,
    monitor: Monitor,
    measurements: Arc<Measurements>,
    servers: Vec<ServerDetails>,
    list: ServerList,
    page: Option<(ServerPage, ServerCatalogue)>,
    /// The message at the bottom.
    message: Option<String>,
    /// The action that pressing the same key again runs.
    confirmation: Option<(KeyCode, ServerAction)>,
    /// Lets the host notice remote servers that are gone while the panel is open.
    _watch: Option<ServerWatch>,
}

impl ServerPanel {
    /// Opens the panel. Must be called inside a runtime.
    pub fn open(host: &Host, configured_servers: Arc<ConfiguredServers>) -> ServerPanel {
        let monitor = Monitor::start(host.stderr_log().clone());
        let pool = host.watch_pool().borrow().clone();
        let panel = ServerPanel::with_monitor(configured_servers, host.snapshot(), pool, monitor);
        ServerPanel { _watch: Some(host.watch_servers()), ..panel }
    }

    /// A panel with a given monitor.
    fn with_monitor(
        configured_servers: Arc<ConfiguredServers>,
        snapshot: Arc<Snapshot>,
        pool: Arc<Pool>,
        monitor: Monitor,
    ) -> ServerPanel {
        let measurements = monitor.latest();
        let servers = server_details::all_servers(&configured_servers, &snapshot);
        let panel = ServerPanel {
            configured: configured_servers,
            snapshot,
            pool,
            monitor,
            measurements,
            servers,
            list: ServerList::default(),
            page: None,
            message: None,
            confirmation: None,
            _watch: None,
        };
        panel.update_monitor_targets();
        panel
    }

    /// The panel with the page of a server open.
    pub fn opened_at(mut self, server: &str, tab: Tab) -> ServerPanel {
        self.list.select(server);
        self.open_page(server, tab);
        self
    }

    fn open_page(&mut self, server: &str, tab: Tab) {
        if self.servers.iter().any(|it| it.name == server) {
            let catalogue = self.catalogue_of(server);
            self.page = Some((ServerPage::new(server, tab), catalogue));
            self.refresh_page();
            self.update_monitor_targets();
        }
    }

    fn catalogue_of(&self, server: &str) -> ServerCatalogue {
        let view = self.snapshot.servers.get(server);
        view.map(|it| ServerCatalogue::for_server(it, &self.pool)).unwrap_or_default()
    }

    /// Rebuilds the open page.
    fn refresh_page(&mut self) {
        if let Some((page, catalogue)) = &mut self.page {
            match page_context(
                &self.servers,
                &self.configured,
                &self.measurements,
                (&page.name, catalogue),
            ) {
                Some(context) => page.refresh(context),
                // The server is gone.
                None => self.page = None,
            }
        }
    }

    fn update_monitor_targets(&self) {
        let programs = self.servers.iter().filter_map(|it| it.process).collect();
        let log = self.page.as_ref().filter(|it| it.0.tab() == Tab::Log);
        self.monitor.set_targets(MonitorTargets {
            processes: programs,
            log: log.map(|it| it.0.name.clone()),
        });
    }

    fn refresh_servers(&mut self) {
        self.servers = server_details::all_servers(&self.configured, &self.snapshot);
        if let Some(name) = self.page.as_ref().map(|it| it.0.name.clone()) {
            let catalogue = self.catalogue_of(&name);
            if let Some(page) = &mut self.page {
                page.1 = catalogue;
            }
        }
        self.refresh_page();
        self.update_monitor_targets();
    }

    /// The server that keys act on.
    fn selected_server(&self) -> Option<&ServerDetails> {
        match &self.page {
            Some((page, _)) => self.servers.iter().find(|it| it.name == page.name),
            None => self.list.selected(&self.servers),
        }
    }

    fn title(&self) -> String {
        if let Some((page, _)) = &self.page {
            return page.name.clone();
        }
        let is_connected = |it: &&ServerDetails| it.health == ServerHealth::Connected;
        let connected = self.servers.iter().filter(is_connected).count();
        let tools: usize = self.servers.iter().filter_map(|it| it.counts[0]).sum();
        let all = pluralize(self.servers.len(), "server", "servers");
        format!("{all}, {connected} connected, {}", pluralize(tools, "tool", "tools"))
    }

    fn show_message(&mut self, text: String) -> OverlayOutcome {
        self.message = Some(text);
        OverlayOutcome::Stay
    }

    /// Asks the user to confirm by pressing the same key again.
    fn ask_again(&mut self, code: KeyCode, action: ServerAction, text: String) -> OverlayOutcome {
        self.confirmation = Some((code, action));
        self.show_message(text)
    }

    /// Handles the keys that act on a server.
    fn on_action_key(&mut self, key: KeyEvent) -> Option<OverlayOutcome> {
        let it = self.selected_server()?;
        let (name, eligibility, is_remote) = (it.name.clone(), it.eligibility, it.is_remote);
        let is_plain = !key.modifiers.contains(KeyModifiers::CONTROL);
        let KeyCode::Char(letter) = key.code else { return None };
        let decides = matches!(eligibility, Eligibility::PendingApproval | Eligibility::Rejected);
        Some(match (letter, is_plain) {
            ('r', true) => match eligibility {
                Eligibility::Runnable => OverlayOutcome::Run(ServerAction::Reconnect(name)),
                Eligibility::PendingApproval
                | Eligibility::Rejected
                | Eligibility::Disabled
                | Eligibility::Blocked => self
                    .show_message(format!("`{name}` is not running, so it cannot be reconnected")),
            },
            ('e', true) => match eligibility {
                Eligibility::Disabled => OverlayOutcome::Run(ServerAction::Enable(name)),
                Eligibility::Runnable | Eligibility::PendingApproval => {
                    OverlayOutcome::Run(ServerAction::Disable(name))
                }
                Eligibility::Rejected | Eligibility::Blocked => {
                    self.show_message(format!("`{name}` is not running"))
                }
            },
            ('a' | 'c', true) if !is_remote => {
                self.show_message(format!("`{name}` is a local server without a login"))
            }
            ('a', true) => OverlayOutcome::Run(ServerAction::SignIn(name)),
            ('c', true) => {
                let text = format!("press c again to delete the login of `{name}`");
                self.ask_again(key.code, ServerAction::SignOut(name), text)
            }
            // The user must see what the server runs before approving: it is on its overview page.
            ('p' | 'x', true) if decides => {
                self.list.select(&name);
                self.open_page(&name, Tab::Overview);
                let shown = self.configured.find(&name).and_then(|it| it.fingerprint.clone());
                let (word, action) = match (letter, shown) {
                    ('p', Some(fingerprint)) => {
                        ("approve", ServerAction::ApproveShown { name: name.clone(), fingerprint })
                    }
                    ('p', None) => ("approve", ServerAction::Approve(name.clone())),
                    (_, _) => ("reject", ServerAction::Reject(name.clone())),
                };
                let text = format!("press {letter} again to {word} `{name}` as shown here");
                self.ask_again(key.code, action, text)
            }
            ('p' | 'x', true) => self.show_message(format!("`{name}` needs no approval")),
            ('l', true) => OverlayOutcome::Run(ServerAction::ShowLog(name)),
            (_, _) => return None,
        })
    }

    fn draw_message(&self, frame: &mut Frame<'_>, area: Rect, theme: &ScreenTheme) -> Rect {
        let Some(message) = self.message.as_ref().filter(|_| area.height > 2) else { return area };
        let tone = if self.confirmation.is_some() { Tone::Warning } else { Tone::Text };
        let text = Span::styled(
            sanitize_and_truncate(message, usize::from(area.width)),
            theme.style(tone),
        );
        frame.buffer_mut().set_span(area.x, area.bottom() - 1, &text, area.width);
        Rect { height: area.height - 1, ..area }
    }
}

/// Everything the open page shows of its server.
fn page_context<'k>(
    servers: &'k [ServerDetails],
    configured_servers: &'k ConfiguredServers,
    measurements: &'k Measurements,
    (name, catalogue): (&str, &'k ServerCatalogue),
) -> Option<PageContext<'k>> {
    let details = servers.iter().find(|it| it.name == name)?;
    Some(PageContext {
        details,
        configured: configured_servers.find(name),
        catalogue,
        measurements,
    })
}

impl Overlay for ServerPanel {
    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &ScreenTheme) {
        let inner = draw_frame(frame, area, theme, &self.title());
        let inner = self.draw_message(frame, inner, theme);
        let ServerPanel {
            servers, configured: configured_servers, measurements, list, page, ..
        } = self;
        match page {
            Some((page, catalogue)) => {
                let name = page.name.clone();
                if let Some(context) =
                    page_context(servers, configured_servers, measurements, (&name, catalogue))
                {
                    page.draw(frame, inner, theme, context);
                }
            }
            None => list.draw(frame, inner, theme, (servers, measurements)),
        }
    }

    fn on_key(&mut self, key: KeyEvent) -> OverlayOutcome {
        self.message = None;
        if let Some((code, action)) = self.confirmation.take()
            && code == key.code
        {
            return OverlayOutcome::Run(action);
        }
        if self.page.is_none() {
            if self.list.on_key(key, &self.servers) == KeyOutcome::Handled {
                return OverlayOutcome::Stay;
            }
            if is_cancel_key(key) || key.code == KeyCode::Char('q') {
                return OverlayOutcome::Close;
            }
            if key.code == KeyCode::Enter {
                if let Some(name) = self.list.selected(&self.servers).map(|it| it.name.clone()) {
                    self.list.select(&name);
                    self.open_page(&name, Tab::Overview);
                }
                return OverlayOutcome::Stay;
            }
        } else if is_cancel_key(key) || matches!(key.code, KeyCode::Char('q') | KeyCode::Backspace)
        {
            self.page = None;
            self.update_monitor_targets();
            return OverlayOutcome::Stay;
        }
        if let Some(outcome) = self.on_action_key(key) {
            return outcome;
        }
        if let Some((page, catalogue)) = &mut self.page {
            let name = page.name.clone();
            let context = page_context(
                &self.servers,
                &self.configured,
                &self.measurements,
                (&name, catalogue),
            );
            if let Some(context) = context {
                page.on_key(key, context);
            }
            self.update_monitor_targets();
        }
        OverlayOutcome::Stay
    }

    fn on_paste(&mut self, text: &str) -> OverlayOutcome {
        self.list.on_paste(text);
        OverlayOutcome::Stay
    }

    fn on_notice(&mut self, notice: &Notice) -> Redraw {
        match notice {
            Notice::Servers(snapshot) => {
                self.snapshot = snapshot.clone();
                self.refresh_servers();
            }
            Notice::Pool(pool) => {
                self.pool = pool.clone();
                self.refresh_servers();
            }
            Notice::Configured(configured_servers) => {
                self.configured = configured_servers.clone();
                self.refresh_servers();
            }
            Notice::ActionDone(text) => self.message = Some(text.clone()),
            Notice::Tick => match self.monitor.changed() {
                Some(measurements) => {
                    self.measurements = measurements;
                    self.refresh_page();
                }
                None => return Redraw::No,
            },
        }
        Redraw::Yes
    }

    fn key_hints(&self) -> Vec<(&'static str, &'static str)> {
        if self.list.is_filtering() && self.page.is_none() {
            return vec![("Enter", "keep"), ("Esc", "show all")];
        }
        let mut keys = match self.page {
            Some(_) => vec![("←→", "page"), ("Enter", "more or less"), ("Esc", "back")],
            None => vec![("Enter", "open"), ("/", "filter"), ("s", "failing first")],
        };
        let it = self.selected_server();
        match it.map(|it| it.eligibility) {
            Some(Eligibility::Runnable) => keys.extend([("r", "reconnect"), ("e", "disable")]),
            Some(Eligibility::Disabled) => keys.push(("e", "enable")),
            Some(Eligibility::PendingApproval) => keys.extend([("p", "approve"), ("x", "reject")]),
            Some(Eligibility::Rejected) => keys.push(("p", "approve")),
            Some(Eligibility::Blocked) | None => {}
        }
        if it.is_some_and(|it| it.is_remote && it.eligibility == Eligibility::Runnable) {
            keys.extend([("a", "sign in"), ("c", "sign out")]);
        }
        keys.push(("l", "log"));
        if self.page.is_none() {
            keys.push(("Esc", "close"));
        }
        keys
    }
}

#[cfg(test)]
mod tests;
