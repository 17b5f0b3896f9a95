//! A terminal without a screen: a program writes to it as to any other, and what it writes is looked through for a text.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use memchr::memmem;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::failure::Failure;

const ROWS: u16 = 40;
const COLUMNS: u16 = 120;

/// A terminal with a program at it. Dropping it ends the program.
pub struct PseudoTerminal {
    keyboard: File,
    output: mpsc::Receiver<Vec<u8>>,
    /// What was written and not looked through yet.
    unseen: Vec<u8>,
    child: Child,
}

impl PseudoTerminal {
    /// Starts a program at a terminal of its own.
    pub fn start(command: &Command) -> Result<PseudoTerminal, Failure> {
        let started = PseudoTerminal::spawn(command);
        started.map_err(|error| {
            let program = PathBuf::from(command.get_program());
            Failure::NotStarted { program, error }
        })
    }

    fn spawn(command: &Command) -> io::Result<PseudoTerminal> {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&controller)?;
        unlockpt(&controller)?;
        let name = ptsname(&controller, Vec::new())?;
        let name = name.into_string().map_err(io::Error::other)?;
        let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&controller, size)?;
        let open = || {
            let file = OpenOptions::new().read(true).write(true).open(&name);
            file.map(|it| Stdio::from(OwnedFd::from(it)))
        };
        // Makes the terminal the one that the program is controlled by.
        let mut setsid = Command::new("setsid");
        setsid.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args());
        let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        setsid.env_clear().envs(variables);
        if let Some(folder) = command.get_current_dir() {
            setsid.current_dir(folder);
        }
        let child = setsid.stdin(open()?).stdout(open()?).stderr(open()?).spawn()?;
        let keyboard = File::from(controller);
        let mut output = keyboard.try_clone()?;
        // As much as a terminal would take ahead of a person's eyes.
        let (sender, written) = mpsc::sync_channel(1024);
        thread::spawn(move || {
            let mut buffer = [0; 64 * 1024];
            while let Ok(length) = output.read(&mut buffer)
                && length > 0
                && sender.send(buffer[..length].to_vec()).is_ok()
            {}
        });
        Ok(PseudoTerminal { keyboard, output: written, unseen: Vec::new(), child })
    }

    /// The program's number among the system's processes.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Types.
    pub fn write(&mut self, keys: &[u8]) -> Result<(), Failure> {
        self.keyboard.write_all(keys).map_err(|error| Failure::client("terminal", error))
    }

    /// Waits until a text has been written after what was last waited for.
    pub fn wait_for_text(&mut self, text: &[u8], timeout: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(at) = memmem::find(&self.unseen, text) {
                self.unseen.drain(..at + text.len());
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.unseen.extend_from_slice(&bytes),
                Err(_) => {
                    let text = String::from_utf8_lossy(text).into_owned();
                    let error = io::Error::new(io::ErrorKind::TimedOut, format!("no `{text}`"));
                    return Err(Failure::client("terminal", error));
                }
            }
        }
    }

    /// Waits until a text is on the screen. What changes little is drawn little by little, so that it is never written
    /// whole; another size has everything drawn anew.
    pub fn wait_until_drawn(&mut self, text: &[u8], timeout: Duration) -> Result<(), Failure> {
        const LOOK: Duration = Duration::from_millis(500);
        let deadline = Instant::now() + timeout;
        let mut rows = ROWS;
        loop {
            match self.wait_for_text(text, LOOK) {
                Err(failure) if Instant::now() > deadline => return Err(failure),
                Err(_) => {}
                Ok(()) => break,
            }
            rows = if rows == ROWS { ROWS + 1 } else { ROWS };
            self.resize(rows)?;
        }
        self.resize(ROWS)
    }

    fn resize(&mut self, rows: u16) -> Result<(), Failure> {
        let size = Winsize { ws_row: rows, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        let resized = tcsetwinsize(&self.keyboard, size);
        resized.map_err(|error| Failure::client("terminal", io::Error::from(error)))
    }

    /// Lets time pass, and forgets what is written meanwhile.
    pub fn drain_for(&mut self, time: Duration) {
        thread::sleep(time);
        while self.output.try_recv().is_ok() {}
        self.unseen.clear();
    }
}

impl Drop for PseudoTerminal {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _gone_already = self.child.wait();
    }
}
