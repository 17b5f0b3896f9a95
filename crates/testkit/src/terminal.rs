//! A program at a real terminal: a pseudo-terminal that it controls, keys that are typed, and what is seen: as a stream
//! of text, and as the screen that it makes.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::still::Still;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a screen must stay as it is to be looked at.
const CALM: Duration = Duration::from_millis(150);

/// How large a terminal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// From left to right.
    pub columns: u16,
    /// From top to bottom.
    pub rows: u16,
}

impl Size {
    /// What terminals have been for fifty years.
    pub const USUAL: Size = Size { columns: 80, rows: 24 };
    /// What people have now.
    pub const LARGE: Size = Size { columns: 120, rows: 40 };
    const OF_OLD_TESTS: Size = Size { columns: 100, rows: 40 };

    fn cells(self) -> (NonZeroU16, NonZeroU16) {
        let cells = |number| NonZeroU16::new(number).expect("a terminal has cells");
        (cells(self.rows), cells(self.columns))
    }

    fn set(self, terminal: &impl std::os::fd::AsFd) {
        let Size { columns, rows } = self;
        let size =
            rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(terminal, size).expect("it has a size");
    }
}

/// A terminal with a program at it.
pub struct Terminal {
    keyboard: File,
    shown: mpsc::Receiver<Vec<u8>>,
    /// Everything that was shown.
    seen: String,
    /// How much of it was looked at.
    looked: usize,
    screen: vt100::Parser,
    child: Child,
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terminal").field("child", &self.child).finish_non_exhaustive()
    }
}

impl Terminal {
    /// Starts a command at a terminal of its own, 100 columns wide.
    pub fn start(command: &Command) -> Terminal {
        Terminal::sized(command, Size::OF_OLD_TESTS)
    }

    /// The same at a terminal of another size.
    pub fn sized(command: &Command, size: Size) -> Terminal {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&ours).expect("it is ours");
        unlockpt(&ours).expect("it can be opened");
        let name = ptsname(&ours, Vec::new()).expect("it has a name");
        let name = name.into_string().expect("the name is text");
        size.set(&ours);
        let open = || {
            let file = OpenOptions::new().read(true).write(true).open(&name);
            Stdio::from(OwnedFd::from(file.expect("the other end opens")))
        };
        // Makes the terminal the one that the program is controlled by.
        let mut wrapped = Command::new("setsid");
        wrapped.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args());
        wrapped
            .env_clear()
            .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(folder) = command.get_current_dir() {
            wrapped.current_dir(folder);
        }
        let child = wrapped.stdin(open()).stdout(open()).stderr(open()).spawn();
        let child = child.expect("setsid (util-linux) can be run");
        let keyboard = File::from(ours);
        let mut screen = keyboard.try_clone().expect("a second handle");
        let (tell, shown) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Reading fails when the last program at the terminal is gone.
            while let Ok(length) = screen.read(&mut buffer)
                && length > 0
                && tell.send(buffer[..length].to_vec()).is_ok()
            {}
        });
        let (rows, columns) = size.cells();
        let screen = vt100::Parser::new(rows, columns, 0);
        Terminal { keyboard, shown, seen: String::new(), looked: 0, screen, child }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.seen.push_str(&String::from_utf8_lossy(bytes));
        self.screen.process(bytes);
    }

    /// Makes the terminal another size; the program hears of it.
    pub fn resize(&mut self, size: Size) -> &mut Terminal {
        while let Ok(bytes) = self.shown.try_recv() {
            self.take(&bytes);
        }
        size.set(&self.keyboard);
        let (rows, columns) = size.cells();
        self.screen.screen_mut().set_size(rows, columns);
        self
    }

    /// The rows of the screen, without spaces at their ends.
    pub fn screen(&self) -> String {
        let (_, columns) = self.screen.screen().size();
        let rows = self.screen.screen().rows(0, columns.get());
        rows.map(|row| format!("{}\n", row.trim_end())).collect()
    }

    /// The screen as a picture can show it, without what is half drawn.
    pub fn still(&mut self) -> Still {
        let deadline = Instant::now() + CALM;
        while Instant::now() < deadline
            && let Ok(bytes) = self.shown.recv_timeout(CALM / 8)
        {
            self.take(&bytes);
        }
        Still::of(self.screen.screen())
    }

    /// Is the program on the other screen, that is gone when it leaves?
    pub fn is_on_other_screen(&self) -> bool {
        self.screen.screen().alternate_screen()
    }

    /// Waits until the screen holds something.
    #[track_caller]
    pub fn shows(&mut self, text: &str) -> &mut Terminal {
        self.waits_until(text, |screen| screen.contains(text))
    }

    /// Waits until the screen does not hold something any more.
    #[track_caller]
    pub fn hides(&mut self, text: &str) -> &mut Terminal {
        self.waits_until(text, |screen| !screen.contains(text))
    }

    #[track_caller]
    fn waits_until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) -> &mut Terminal {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(&self.screen()) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.shown.recv_timeout(left) {
                Ok(bytes) => self.take(&bytes),
                Err(_) => panic!("waited in vain for `{what}`; the screen:\n{}", self.screen()),
            }
        }
        self
    }

    /// The screen, once nothing changes on it for a moment.
    #[track_caller]
    pub fn calm_screen(&mut self) -> String {
        let deadline = Instant::now() + PATIENCE;
        while let Ok(bytes) = self.shown.recv_timeout(CALM) {
            self.take(&bytes);
            assert!(Instant::now() < deadline, "it never rests:\n{}", self.screen());
        }
        self.screen()
    }

    /// Types something.
    pub fn types(&mut self, keys: &str) -> &mut Terminal {
        self.types_bytes(keys.as_bytes())
    }

    /// Types something that need not be text.
    pub fn types_bytes(&mut self, keys: &[u8]) -> &mut Terminal {
        self.keyboard.write_all(keys).expect("the terminal takes it");
        self
    }

    /// Waits until something is shown after what was last waited for.
    #[track_caller]
    pub fn sees(&mut self, text: &str) -> &mut Terminal {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.seen[self.looked..].find(text) {
                self.looked += at + text.len();
                return self;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.shown.recv_timeout(left) {
                Ok(bytes) => self.take(&bytes),
                Err(_) => panic!("`{text}` was never shown, but this:\n{}", self.seen),
            }
        }
    }

    /// Waits for the end of something that is shown, and returns it without what it ends with.
    #[track_caller]
    pub fn reads(&mut self, end: &str) -> String {
        let start = self.looked;
        self.sees(end);
        self.seen[start..self.looked - end.len()].to_owned()
    }

    /// Waits until the program has ended; its exit code, and everything that was shown.
    #[track_caller]
    pub fn ends(mut self) -> (i32, String) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.shown.recv_timeout(left) {
                Ok(bytes) => self.take(&bytes),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    panic!("it did not end; it showed:\n{}", self.seen)
                }
            }
        }
        let status = self.child.wait().expect("it was started");
        (status.code().unwrap_or(-1), std::mem::take(&mut self.seen))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}
