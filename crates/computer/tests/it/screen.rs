//! A virtual screen with a window manager, and programs on it. All of it ends with the value, and also when the test is
//! killed.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use testkit::processes::wait_until;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _, Window};
use x11rb::rust_connection::RustConnection;

/// Longer than any program takes to show its window, also on a loaded machine.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// A virtual screen.
pub struct Screen {
    /// The name of the display.
    pub display: String,
    pub connection: RustConnection,
    pub root: Window,
    folder: tempfile::TempDir,
    // The server is last: the others leave before it.
    programs: Vec<Child>,
}

impl Screen {
    /// A screen of 1280x800 with a window manager.
    pub fn new() -> Screen {
        Screen::with_size("1280x800")
    }

    /// The same in another size.
    pub fn with_size(size: &str) -> Screen {
        let mut screen = Screen::without_window_manager(size);
        screen.start("openbox", &["--sm-disable"]);
        screen.wait_for_window_manager();
        screen
    }

    /// A screen without a window manager.
    pub fn without_window_manager(size: &str) -> Screen {
        let depth = format!("{size}x24");
        let mut server = tied_to_test("Xvfb");
        server.args(["-displayfd", "1", "-screen", "0", &depth, "-nolisten", "tcp", "-noreset"]);
        let mut server = server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("Xvfb");
        let mut number = String::new();
        let stdout = server.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut number).expect("a number");
        let display = format!(":{}", number.trim());
        let (connection, at) = RustConnection::connect(Some(&display)).expect("a connection");
        let root = connection.setup().roots[at].root;
        let folder = tempfile::tempdir().expect("a folder");
        Screen { display, connection, root, folder, programs: vec![server] }
    }

    fn wait_for_window_manager(&self) {
        let atom = self.atom("_NET_SUPPORTING_WM_CHECK");
        wait_until(TIMEOUT, "a window manager runs", || {
            let kind = AtomEnum::WINDOW;
            let reply = self.connection.get_property(false, self.root, atom, kind, 0, 1);
            let reply = reply.expect("a request").reply().expect("a reply");
            (!reply.value.is_empty()).then_some(())
        });
    }

    pub fn atom(&self, name: &str) -> u32 {
        let cookie = self.connection.intern_atom(false, name.as_bytes()).expect("a request");
        cookie.reply().expect("a reply").atom
    }

    /// A folder that ends with the screen.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// A program on this screen.
    pub fn command(&self, program: &str) -> Command {
        let mut command = tied_to_test(program);
        command.env("DISPLAY", &self.display).env("LANG", "C.UTF-8").env("HOME", self.folder());
        command.env("GTK_THEME", "Adwaita").env("NO_AT_BRIDGE", "1").env_remove("WAYLAND_DISPLAY");
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Starts a program that ends with the screen, and returns its process.
    pub fn start(&mut self, program: &str, arguments: &[&str]) -> u32 {
        let child = self.command(program).args(arguments).stdout(Stdio::null()).spawn();
        let child = child.unwrap_or_else(|error| panic!("{program}: {error}"));
        let pid = child.id();
        self.programs.push(child);
        pid
    }

    /// Runs a program to its end and returns what it printed.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.command(program).args(arguments).output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Does what a user does at the keyboard and the pointer: input that the server did not announce.
    pub fn user(&self, arguments: &[&str]) {
        let output = self.command("xdotool").args(arguments).output().expect("xdotool runs");
        assert!(output.status.success(), "{arguments:?}");
    }

    /// The only window of this class, once it is there.
    pub fn window(&self, class: &str) -> u32 {
        wait_until(TIMEOUT, &format!("{class} shows a window"), || {
            let found = self.run("xdotool", &["search", "--onlyvisible", "--class", class]);
            found.lines().last()?.parse().ok()
        })
    }

    /// The middle of a window.
    pub fn middle_of(&self, window: u32) -> (i32, i32) {
        let geometry = self.connection.get_geometry(window).expect("a request").reply();
        let geometry = geometry.expect("a window");
        let place = self.connection.translate_coordinates(window, self.root, 0, 0);
        let place = place.expect("a request").reply().expect("a place");
        let (width, height) = (i32::from(geometry.width), i32::from(geometry.height));
        (i32::from(place.dst_x) + width / 2, i32::from(place.dst_y) + height / 2)
    }

    /// Waits until a window has the focus.
    pub fn wait_for_focus(&self, window: u32) {
        let atom = self.atom("_NET_ACTIVE_WINDOW");
        wait_until(TIMEOUT, "the window has the focus", || {
            let kind = AtomEnum::WINDOW;
            let reply = self.connection.get_property(false, self.root, atom, kind, 0, 1);
            let reply = reply.expect("a request").reply().expect("a reply");
            (reply.value32()?.next()? == window).then_some(())
        });
    }

    /// A terminal that stores what is typed into it.
    pub fn terminal(&mut self) -> Terminal {
        let file = self.folder().join("typed");
        let script = format!("stty -icanon; touch {0}; cat > {0}", file.display());
        let arguments = ["-u8", "-geometry", "70x20+40+60", "-e", "sh", "-c", &script];
        let pid = self.start("xterm", &arguments);
        let window = self.window("XTerm");
        self.wait_for_focus(window);
        wait_until(TIMEOUT, "the shell runs", || file.exists().then_some(()));
        Terminal { window, pid, file }
    }

    /// A GTK dialog with a text field.
    pub fn entry(&mut self) -> Entry {
        let mut command = self.command("zenity");
        command.args(["--entry", "--title", "Name", "--text", "Your name", "--width", "500"]);
        let child = command.stdout(Stdio::piped()).spawn().expect("zenity");
        let window = self.window("zenity");
        self.wait_for_focus(window);
        Entry { window, child }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        for program in self.programs.iter_mut().rev() {
            let _ended_already = program.kill();
            let _ended_already = program.wait();
        }
    }
}

/// A terminal that stores what is typed into it.
pub struct Terminal {
    pub window: u32,
    pub pid: u32,
    file: PathBuf,
}

impl Terminal {
    /// What has been typed.
    pub fn text(&self) -> String {
        fs::read_to_string(&self.file).unwrap_or_default()
    }

    /// Waits until this has been typed, and nothing else.
    #[track_caller]
    pub fn wait_for(&self, expected: &str) {
        let mut last = String::new();
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_until(Duration::from_secs(10), "the text arrives", || {
                last = self.text();
                (last.chars().count() >= expected.chars().count()).then_some(())
            });
        }));
        assert!(found.is_ok() && last == expected, "expected {expected:?}, typed {last:?}");
    }
}

/// A GTK dialog with a text field.
pub struct Entry {
    pub window: u32,
    child: Child,
}

impl Entry {
    /// What the dialog returned when it was closed.
    pub fn result(mut self) -> String {
        wait_until(TIMEOUT, "the dialog is closed", || self.child.try_wait().expect("a state"));
        let mut text = String::new();
        let stdout = self.child.stdout.as_mut().expect("it is piped");
        stdout.read_to_string(&mut text).expect("it is read");
        text.trim_end_matches('\n').to_owned()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _ended_already = self.child.wait();
    }
}

/// A program that ends when the test is killed.
fn tied_to_test(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]);
    command
}
