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
use switchboard::config::display::printable;

/// Room for what one frame changes.
const FRAME_BUFFER: usize = 64 * 1024;

/// Does the screen have the terminal now?
static IS_RAW: AtomicBool = AtomicBool::new(false);
static PANIC_HOOK: Once = Once::new();
/// What is said once the terminal is given back, and how much of it.
static DEFERRED_PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());
const MAX_DEFERRED: usize = 20;

/// The terminal. Dropping it gives it back.
pub struct RawTerminal {
    terminal: CrosstermTerminal,
}

impl RawTerminal {
    /// Takes the terminal.
    pub fn enter() -> io::Result<RawTerminal> {
        PANIC_HOOK.call_once(restore_on_panic);
        enter_raw_mode()?;
        match new_terminal() {
            Ok(terminal) => Ok(RawTerminal { terminal }),
            Err(error) => {
                leave_raw_mode();
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
    pub fn clear(&mut self) -> io::Result<()> {
        execute!(io::stdout(), Clear(ClearType::All))?;
        self.terminal = new_terminal()?;
        Ok(())
    }

    /// Makes a sound.
    pub fn ring_bell(&mut self) -> io::Result<()> {
        let out = self.terminal.backend_mut();
        out.write_all(b"\x07")?;
        out.flush()
    }

    /// Gives the terminal to somebody else for a while, and takes it back.
    pub fn suspend_while<T>(&mut self, work: impl FnOnce() -> T) -> io::Result<T> {
        leave_raw_mode();
        let outcome = work();
        enter_raw_mode()?;
        self.clear()?;
        Ok(outcome)
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        leave_raw_mode();
    }
}

type CrosstermTerminal = Terminal<CrosstermBackend<BufWriter<Stdout>>>;

/// A terminal on which nothing is drawn yet.
fn new_terminal() -> io::Result<CrosstermTerminal> {
    Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(FRAME_BUFFER, io::stdout())))
}

fn enter_raw_mode() -> io::Result<()> {
    enable_raw_mode()?;
    IS_RAW.store(true, Ordering::SeqCst);
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
        leave_raw_mode();
    }
    taken
}

/// Makes the terminal what it was. More than once does no harm.
fn leave_raw_mode() {
    if !IS_RAW.swap(false, Ordering::SeqCst) {
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
    let late = std::mem::take(&mut *DEFERRED_PANICS.lock().unwrap_or_else(PoisonError::into_inner));
    for text in late {
        let _terminal_is_gone = writeln!(io::stderr(), "{}", printable(&text));
    }
}

/// A panic must be readable, and leave a terminal that works. One of a thread beside us ends that thread's work and not
/// the screen: it is said when the terminal is given back.
fn restore_on_panic() {
    let ours = std::thread::current().id();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().id() == ours {
            leave_raw_mode();
        }
        if IS_RAW.load(Ordering::SeqCst) {
            let mut late = DEFERRED_PANICS.lock().unwrap_or_else(PoisonError::into_inner);
            if late.len() < MAX_DEFERRED {
                late.push(panic.to_string());
            }
        } else {
            before(panic);
        }
    }));
}

/// Stops this program as a shell's Ctrl-Z does; comes back when it goes on.
#[cfg(unix)]
pub fn suspend_process() {
    let _not_permitted =
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TSTP);
}

/// Other systems cannot suspend a process.
#[cfg(not(unix))]
pub fn suspend_process() {}
