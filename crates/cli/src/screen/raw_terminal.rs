//! The terminal while the screen has it: raw, on its other screen, with pastes in brackets. Given back whatever happens:
//! at the end, on errors, on a panic, and while the program is stopped or an editor runs.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use crossterm::cursor::{SetCursorStyle, Show};
use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, EnableBracketedPaste, EnableFocusChange,
    KeyboardEnhancementFlags, PopKeyboardEnhancementFlags, PushKeyboardEnhancementFlags,
};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};
use ratatui::backend::CrosstermBackend;
use ratatui::{Frame, Terminal};
use switchboard::config::shown::printable;

use crate::report;

/// Room for what one frame changes.
const BUFFER: usize = 64 * 1024;

/// Does the screen have the terminal now?
static IS_OURS: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();
/// What is said once the terminal is given back, and how much of it.
static LATE: Mutex<Vec<String>> = Mutex::new(Vec::new());
const MOST_LATE: usize = 20;

/// The terminal. Dropping it gives it back.
pub struct RawTerminal {
    terminal: Drawn,
}

impl RawTerminal {
    /// Takes the terminal.
    pub fn enter() -> io::Result<RawTerminal> {
        HOOK.call_once(restore_on_panic);
        take()?;
        match empty() {
            Ok(terminal) => Ok(RawTerminal { terminal }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Draws a frame, all at once.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal.draw(draw)?;
        queue!(self.terminal.backend_mut(), EndSynchronizedUpdate)?;
        self.terminal.backend_mut().flush()
    }

    /// Everything is to be drawn again. Asks the terminal nothing: not all of them answer.
    pub fn forget(&mut self) -> io::Result<()> {
        execute!(io::stdout(), Clear(ClearType::All))?;
        self.terminal = empty()?;
        Ok(())
    }

    /// Makes a sound.
    pub fn ring(&mut self) -> io::Result<()> {
        let out = self.terminal.backend_mut();
        out.write_all(b"\x07")?;
        out.flush()
    }

    /// Gives the terminal to somebody else for a while, and takes it back.
    pub fn lend<T>(&mut self, work: impl FnOnce() -> T) -> io::Result<T> {
        give_back();
        let outcome = work();
        take()?;
        self.forget()?;
        Ok(outcome)
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        give_back();
    }
}

type Drawn = Terminal<CrosstermBackend<BufWriter<Stdout>>>;

/// A terminal on which nothing is drawn yet.
fn empty() -> io::Result<Drawn> {
    Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(BUFFER, io::stdout())))
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    IS_OURS.store(true, Ordering::SeqCst);
    let flags = KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES;
    let taken = execute!(
        io::stdout(),
        EnterAlternateScreen,
        EnableBracketedPaste,
        EnableFocusChange,
        // Terminals that do not know it ignore it; the others can tell Shift-Enter from Enter.
        PushKeyboardEnhancementFlags(flags),
    );
    if taken.is_err() {
        give_back();
    }
    taken
}

/// Makes the terminal what it was. More than once does no harm.
fn give_back() {
    if !IS_OURS.swap(false, Ordering::SeqCst) {
        return;
    }
    let _terminal_is_gone = execute!(
        io::stdout(),
        EndSynchronizedUpdate,
        PopKeyboardEnhancementFlags,
        DisableFocusChange,
        DisableBracketedPaste,
        LeaveAlternateScreen,
        SetCursorStyle::DefaultUserShape,
        Show,
    );
    let _terminal_is_gone = disable_raw_mode();
    let late = std::mem::take(&mut *LATE.lock().unwrap_or_else(PoisonError::into_inner));
    for text in late {
        report::aside(&format!("{}\n", printable(&text)));
    }
}

/// A panic must be readable, and leave a terminal that works. One of a thread beside us ends that thread's work and not
/// the screen: it is said when the terminal is given back.
fn restore_on_panic() {
    let ours = std::thread::current().id();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().id() == ours {
            give_back();
        }
        if IS_OURS.load(Ordering::SeqCst) {
            let mut late = LATE.lock().unwrap_or_else(PoisonError::into_inner);
            if late.len() < MOST_LATE {
                late.push(panic.to_string());
            }
        } else {
            before(panic);
        }
    }));
}

/// Stops this program as a shell's Ctrl-Z does; comes back when it goes on.
#[cfg(unix)]
pub fn stop_ourselves() {
    let _not_permitted =
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TSTP);
}

/// There is no such thing here.
#[cfg(not(unix))]
pub fn stop_ourselves() {}
