//! The terminal in raw mode, on the alternate screen, with bracketed paste. It is restored in every case: at the end, on
//! errors, on a panic, and while the process is suspended or an editor runs.

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

/// The buffer for the changes of one frame, in bytes.
const FRAME_BUFFER: usize = 64 * 1024;

/// Is the terminal in raw mode now?
static IS_RAW: AtomicBool = AtomicBool::new(false);
static PANIC_HOOK: Once = Once::new();
/// Panic messages to print once the terminal is restored, at most [`MAX_DEFERRED`].
static DEFERRED_PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());
const MAX_DEFERRED: usize = 20;

/// The terminal. Dropping it restores it.
pub struct RawTerminal {
    terminal: CrosstermTerminal,
}

impl RawTerminal {
    /// Enters raw mode.
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

    /// Draws a frame in one synchronized update.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal.draw(draw)?;
        queue!(self.terminal.backend_mut(), EndSynchronizedUpdate)?;
        self.terminal.backend_mut().flush()
    }

    /// Clears the screen, so that the next frame is drawn in full. Sends no query: some terminals do not answer.
    pub fn clear(&mut self) -> io::Result<()> {
        execute!(io::stdout(), Clear(ClearType::All))?;
        self.terminal = new_terminal()?;
        Ok(())
    }

    /// Rings the bell.
    pub fn ring_bell(&mut self) -> io::Result<()> {
        let out = self.terminal.backend_mut();
        out.write_all(b"\x07")?;
        out.flush()
    }

    /// Restores the terminal while `work` runs.
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

/// A terminal with nothing drawn yet.
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
        // Unsupported terminals ignore it; the others distinguish Shift-Enter from Enter.
        PushKeyboardEnhancementFlags(flags),
    );
    if taken.is_err() {
        leave_raw_mode();
    }
    taken
}

/// Restores the terminal. Does nothing where it is restored already.
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

/// Installs a hook that restores the terminal before a panic is printed. A panic of another thread does not end the
/// screen: it is printed when the terminal is restored.
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

/// Suspends the process as Ctrl-Z in a shell does; returns when it is resumed.
#[cfg(unix)]
pub fn suspend_process() {
    let _not_permitted =
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TSTP);
}

/// Other systems cannot suspend a process.
#[cfg(not(unix))]
pub fn suspend_process() {}
