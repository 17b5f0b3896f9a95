//! Reads secrets at a terminal. Echo is off before the prompt is shown, so that what is typed or pasted right after it is
//! not shown either.

use std::fs::File;
use std::io;
use std::io::Write;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Shows a prompt and reads one line, which is not shown while it is typed.
pub fn read_secret(prompt: &str) -> io::Result<String> {
    let terminal = File::options().read(true).write(true).open("/dev/tty")?;
    let _restored_at_the_end = HiddenInput::start(&terminal)?;
    (&terminal).write_all(prompt.as_bytes())?;
    rpassword::read_password()
}

/// Turns the echo of a terminal off until it is dropped.
struct HiddenInput<'t> {
    terminal: &'t File,
    before: Termios,
}

impl HiddenInput<'_> {
    fn start(terminal: &File) -> io::Result<HiddenInput<'_>> {
        let before = tcgetattr(terminal)?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(terminal, OptionalActions::Now, &hidden)?;
        Ok(HiddenInput { terminal, before })
    }
}

impl Drop for HiddenInput<'_> {
    fn drop(&mut self) {
        let _gone = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}
