//! A virtual screen with a window manager and programs on it. All of them end with the value.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::failure::Failure;

/// Longer than any program takes to do what it is asked.
pub const TIMEOUT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(5);

/// A virtual screen of 1280×800.
pub struct VirtualScreen {
    /// The name of the display.
    pub display: String,
    folder: TempDir,
    // The server is last: the others leave before it.
    programs: Vec<Program>,
}

/// A program that ends with the value.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _ended_already = self.0.wait();
    }
}

impl VirtualScreen {
    /// Starts the server and the window manager.
    pub fn start() -> Result<VirtualScreen, Failure> {
        let folder = TempDir::new().map_err(|error| Failure::client("Xvfb", error))?;
        let mut server = Command::new("Xvfb");
        server.args([
            "-displayfd",
            "1",
            "-screen",
            "0",
            "1280x800x24",
            "-nolisten",
            "tcp",
            "-noreset",
        ]);
        let mut server = started(server.stdout(Stdio::piped()).stderr(Stdio::null()))?;
        let stdout = server.0.stdout.take().ok_or(Failure::InvalidRequest)?;
        let mut number = String::new();
        let read = BufReader::new(stdout).read_line(&mut number);
        read.map_err(|error| Failure::client("Xvfb", error))?;
        let display = format!(":{}", number.trim());
        let mut screen = VirtualScreen { display, folder, programs: vec![server] };
        screen.start_program("openbox", &["--sm-disable"])?;
        Ok(screen)
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env("DISPLAY", &self.display).env("LANG", "C.UTF-8");
        command.env("HOME", self.folder.path()).env("GTK_THEME", "Adwaita");
        command.env("NO_AT_BRIDGE", "1").env_remove("WAYLAND_DISPLAY");
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn start_program(&mut self, program: &str, arguments: &[&str]) -> Result<(), Failure> {
        let child = started(self.command(program, arguments).stdout(Stdio::null()))?;
        self.programs.push(child);
        Ok(())
    }

    /// A terminal that stores what is typed into it.
    pub fn terminal(&mut self) -> Result<TypedText, Failure> {
        let file = self.folder.path().join("typed");
        let script = format!("stty -icanon; touch {0}; cat > {0}", file.display());
        let place = "70x20+40+60";
        self.start_program("xterm", &["-u8", "-geometry", place, "-e", "sh", "-c", &script])?;
        wait_until("xterm", || file.exists())?;
        Ok(TypedText { file })
    }

    /// A terminal over the whole screen, full of characters in many colours: what compresses worst of what programs show.
    pub fn coloured_terminal(&mut self) -> Result<(), Failure> {
        let ready = self.folder.path().join("coloured");
        let script = format!(
            "awk 'BEGIN {{ srand(7); for (i = 0; i < 14000; i++) printf \"\\033[38;5;%d;48;5;%dm%c\", \
             rand() * 256, rand() * 256, 33 + rand() * 90 }}'; touch {}; sleep 9999",
            ready.display()
        );
        let arguments =
            ["-class", "Coloured", "-u8", "-geometry", "210x60+0+0", "-e", "sh", "-c", &script];
        self.start_program("xterm", &arguments)?;
        wait_until("xterm", || ready.exists())
    }

    /// A GTK dialog with a text field.
    pub fn dialog(&self) -> Result<Dialog, Failure> {
        let arguments = ["--entry", "--title", "Name", "--text", "Your name", "--width", "500"];
        let mut program = started(self.command("zenity", &arguments).stdout(Stdio::piped()))?;
        let stdout = program.0.stdout.take().ok_or(Failure::InvalidRequest)?;
        Ok(Dialog { program, stdout })
    }
}

fn started(command: &mut Command) -> Result<Program, Failure> {
    let program = PathBuf::from(command.get_program());
    let child = command.spawn().map_err(|error| Failure::NotStarted { program, error })?;
    Ok(Program(child))
}

/// What has been typed into a terminal.
pub struct TypedText {
    file: PathBuf,
}

impl TypedText {
    /// All of it.
    pub fn read(&self) -> String {
        fs::read_to_string(&self.file).unwrap_or_default()
    }

    /// Waits until there are this many characters, or for some time.
    pub fn wait_for(&self, characters: usize) -> String {
        let _too_few = wait_until("xterm", || self.read().chars().count() >= characters);
        self.read()
    }
}

/// A GTK dialog with a text field.
pub struct Dialog {
    program: Program,
    stdout: ChildStdout,
}

impl Dialog {
    /// What the dialog printed when it was closed.
    pub fn result(mut self) -> Result<String, Failure> {
        wait_until("zenity", || self.program.0.try_wait().is_ok_and(|it| it.is_some()))?;
        let mut text = String::new();
        let read = self.stdout.read_to_string(&mut text);
        read.map_err(|error| Failure::client("zenity", error))?;
        Ok(text.trim_end_matches('\n').to_owned())
    }
}

fn wait_until(program: &'static str, is_true: impl FnMut() -> bool) -> Result<(), Failure> {
    let mut is_true = is_true;
    let start = Instant::now();
    while !is_true() {
        if start.elapsed() > TIMEOUT {
            return Err(Failure::client(program, "it did not do what it was asked in time"));
        }
        thread::sleep(POLL);
    }
    Ok(())
}
