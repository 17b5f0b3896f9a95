//! A program at a pseudo-terminal: sends keys, and reads the output as text and as a screen.

pub(crate) mod screenshot;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::terminal::screenshot::Screenshot;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// The timeout of every wait.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How long a screen must not change to count as stable.
const STABLE_FOR: Duration = Duration::from_millis(150);

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// The width.
    pub columns: u16,
    /// The height.
    pub rows: u16,
}

impl Size {
    /// The traditional size.
    pub const STANDARD: Size = Size { columns: 80, rows: 24 };
    /// A common size today.
    pub const LARGE: Size = Size { columns: 120, rows: 40 };
    const DEFAULT: Size = Size { columns: 100, rows: 40 };

    fn non_zero(self) -> (NonZeroU16, NonZeroU16) {
        let cells = |number| NonZeroU16::new(number).expect("a terminal has cells");
        (cells(self.rows), cells(self.columns))
    }

    fn apply_to(self, terminal: &impl std::os::fd::AsFd) {
        let Size { columns, rows } = self;
        let size =
            rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(terminal, size).expect("it has a size");
    }
}

/// A terminal and its program.
pub struct Terminal {
    keyboard: File,
    output: mpsc::Receiver<Vec<u8>>,
    /// All output.
    transcript: String,
    /// The position up to which the output was inspected.
    transcript_position: usize,
    screen: vt100::Parser,
    child: Child,
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terminal").field("child", &self.child).finish_non_exhaustive()
    }
}

impl Terminal {
    /// Starts a command at a terminal with 100 columns.
    pub fn start(command: &Command) -> Terminal {
        Terminal::with_size(command, Size::DEFAULT)
    }

    /// Starts a command at a terminal of another size.
    pub fn with_size(command: &Command, size: Size) -> Terminal {
        let controller =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&controller).expect("we opened it");
        unlockpt(&controller).expect("it can be opened");
        let name = ptsname(&controller, Vec::new()).expect("it has a name");
        let name = name.into_string().expect("the name is text");
        size.apply_to(&controller);
        let open = || {
            let file = OpenOptions::new().read(true).write(true).open(&name);
            Stdio::from(OwnedFd::from(file.expect("the other end opens")))
        };
        // `setsid` makes this the controlling terminal of the program.
        let mut setsid = Command::new("setsid");
        setsid.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args());
        setsid
            .env_clear()
            .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(folder) = command.get_current_dir() {
            setsid.current_dir(folder);
        }
        let child = setsid.stdin(open()).stdout(open()).stderr(open()).spawn();
        let child = child.expect("setsid (util-linux) can be run");
        let keyboard = File::from(controller);
        let mut screen = keyboard.try_clone().expect("a second handle");
        let (sender, output) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Reading fails when the last program at the terminal has exited.
            while let Ok(length) = screen.read(&mut buffer)
                && length > 0
                && sender.send(buffer[..length].to_vec()).is_ok()
            {}
        });
        let (rows, columns) = size.non_zero();
        let screen = vt100::Parser::new(rows, columns, 0);
        Terminal {
            keyboard,
            output,
            transcript: String::new(),
            transcript_position: 0,
            screen,
            child,
        }
    }

    fn consume(&mut self, bytes: &[u8]) {
        self.transcript.push_str(&String::from_utf8_lossy(bytes));
        self.screen.process(bytes);
    }

    /// Resizes the terminal; the program gets a signal.
    pub fn resize(&mut self, size: Size) -> &mut Terminal {
        while let Ok(bytes) = self.output.try_recv() {
            self.consume(&bytes);
        }
        size.apply_to(&self.keyboard);
        let (rows, columns) = size.non_zero();
        self.screen.screen_mut().set_size(rows, columns);
        self
    }

    /// The rows of the screen, without trailing spaces.
    pub fn screen(&self) -> String {
        let (_, columns) = self.screen.screen().size();
        let rows = self.screen.screen().rows(0, columns.get());
        rows.map(|row| format!("{}\n", row.trim_end())).collect()
    }

    /// A screenshot of the stable screen.
    pub fn screenshot(&mut self) -> Screenshot {
        let deadline = Instant::now() + STABLE_FOR;
        while Instant::now() < deadline
            && let Ok(bytes) = self.output.recv_timeout(STABLE_FOR / 8)
        {
            self.consume(&bytes);
        }
        Screenshot::capture(self.screen.screen())
    }

    /// Whether the program uses the alternate screen.
    pub fn is_on_alternate_screen(&self) -> bool {
        self.screen.screen().alternate_screen()
    }

    /// Waits until the screen contains a text.
    #[track_caller]
    pub fn wait_for_screen(&mut self, text: &str) -> &mut Terminal {
        self.wait_for_screen_where(text, |screen| screen.contains(text))
    }

    /// Waits until the screen no longer contains a text.
    #[track_caller]
    pub fn wait_until_absent(&mut self, text: &str) -> &mut Terminal {
        self.wait_for_screen_where(text, |screen| !screen.contains(text))
    }

    #[track_caller]
    fn wait_for_screen_where(
        &mut self,
        what: &str,
        condition: impl Fn(&str) -> bool,
    ) -> &mut Terminal {
        let deadline = Instant::now() + TIMEOUT;
        while !condition(&self.screen()) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.consume(&bytes),
                Err(_) => panic!("timed out waiting for `{what}`; the screen:\n{}", self.screen()),
            }
        }
        self
    }

    /// The screen, once it is stable.
    #[track_caller]
    pub fn stable_screen(&mut self) -> String {
        let deadline = Instant::now() + TIMEOUT;
        while let Ok(bytes) = self.output.recv_timeout(STABLE_FOR) {
            self.consume(&bytes);
            assert!(Instant::now() < deadline, "it never rests:\n{}", self.screen());
        }
        self.screen()
    }

    /// Sends text as keys.
    pub fn send_keys(&mut self, keys: &str) -> &mut Terminal {
        self.send_bytes(keys.as_bytes())
    }

    /// Sends bytes as keys.
    pub fn send_bytes(&mut self, keys: &[u8]) -> &mut Terminal {
        self.keyboard.write_all(keys).expect("the terminal takes it");
        self
    }

    /// Waits until a text is output after the last awaited one.
    #[track_caller]
    pub fn wait_for_output(&mut self, text: &str) -> &mut Terminal {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(at) = self.transcript[self.transcript_position..].find(text) {
                self.transcript_position += at + text.len();
                return self;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.consume(&bytes),
                Err(_) => panic!("`{text}` was never shown, but this:\n{}", self.transcript),
            }
        }
    }

    /// Waits for `end` in the output and returns the text before it.
    #[track_caller]
    pub fn read_until(&mut self, end: &str) -> String {
        let start = self.transcript_position;
        self.wait_for_output(end);
        self.transcript[start..self.transcript_position - end.len()].to_owned()
    }

    /// Waits until the program exits; returns its exit code and all output.
    #[track_caller]
    pub fn wait_for_exit(mut self) -> (i32, String) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.consume(&bytes),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    panic!("it did not end; it showed:\n{}", self.transcript)
                }
            }
        }
        let status = self.child.wait().expect("it was started");
        (status.code().unwrap_or(-1), std::mem::take(&mut self.transcript))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}
