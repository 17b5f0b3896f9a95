//! A program at a real terminal: a pseudo-terminal that it controls, keys that are typed, and what is seen.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// A terminal with a program at it.
#[derive(Debug)]
pub struct Terminal {
    keyboard: File,
    shown: mpsc::Receiver<Vec<u8>>,
    /// Everything that was shown.
    seen: String,
    /// How much of it was looked at.
    looked: usize,
    child: Child,
}

impl Terminal {
    /// Starts a command at a terminal of its own, 100 columns wide.
    pub fn start(command: &Command) -> Terminal {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&ours).expect("it is ours");
        unlockpt(&ours).expect("it can be opened");
        let name = ptsname(&ours, Vec::new()).expect("it has a name");
        let name = name.into_string().expect("the name is text");
        let size = rustix::termios::Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&ours, size).expect("it has a size");
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
        Terminal { keyboard, shown, seen: String::new(), looked: 0, child }
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
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
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
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
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
