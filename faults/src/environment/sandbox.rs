//! The environment of a run: separate namespaces, a home on a temporary disk that can be filled, a clock that can be set.
//! The only file that reads the environment.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use tempfile::TempDir;

use crate::environment::system;
use crate::failure::Failure;

/// The argument that marks the process inside the namespaces.
pub const INSIDE_ARGUMENT: &str = "__inside";
/// The size of the disk for state, as a `mount` option.
const DISK_OPTIONS: &str = "size=256m,mode=700";
/// The path of the faketime library on Debian and derived systems.
const FAKETIME_LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
];

/// The path of this program.
pub fn own_program() -> Result<PathBuf, Failure> {
    env::current_exe()
        .map_err(|error| Failure::from_io("the path of this program is unknown", error))
}

/// The namespaces of a run: network, mounts and processes.
const NAMESPACE_FLAGS: [&str; 6] =
    ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// A command in separate namespaces. All processes in them end with it.
fn unshare_command() -> Vec<&'static str> {
    let mut words = vec!["unshare"];
    if !rustix::process::getuid().is_root() {
        // Without root, `unshare` maps the user to root in the namespace, if the system permits.
        words.extend(["--user", "--map-root-user"]);
    }
    words.extend(NAMESPACE_FLAGS);
    words
}

/// Starts this program again in separate namespaces. A shell is their first process, because that one must reap orphaned
/// processes.
pub fn enter_namespaces(arguments: &[String]) -> Result<ExitCode, Failure> {
    let words = unshare_command();
    system::run_tool(&[&words[..], &["true"]].concat()).map_err(|failure| {
        Failure::new(format!("faults need separate namespaces, which need root: {failure}"))
    })?;
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .args(["sh", "-c", "\"$@\"; exit $?", "sh"])
        .arg(own_program()?)
        .arg(INSIDE_ARGUMENT)
        .args(arguments);
    let status = command.status();
    let status = status.map_err(|error| Failure::from_io("`unshare` could not be run", error))?;
    match status.code() {
        Some(code @ 0..=255) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(1))),
        Some(_) | None => Err(Failure::new(format!("the run ended with {status}"))),
    }
}

/// The folders of a run. Dropping it deletes them.
#[derive(Debug)]
pub struct Sandbox {
    folder: TempDir,
    swb: PathBuf,
    faketime: PathBuf,
}

impl Sandbox {
    /// Creates the folders; must be called inside the namespaces.
    pub fn prepare() -> Result<Sandbox, Failure> {
        let swb = own_program()?.with_file_name("swb");
        if !swb.is_file() {
            let what =
                format!("there is no `{}`; start this as `cargo xtask faults`", swb.display());
            return Err(Failure::new(what));
        }
        let clock = FAKETIME_LIBRARIES.iter().map(PathBuf::from).find(|it| it.is_file());
        let clock = clock.ok_or_else(|| {
            Failure::new(format!(
                "the faketime library is missing at {}",
                FAKETIME_LIBRARIES.join(", ")
            ))
        })?;
        system::run_tool(&["ip", "link", "set", "lo", "up"])?;
        // Files that the faketime library leaves when its process is killed are removed with the namespace.
        system::run_tool(&["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"])?;
        let folder =
            tempfile::tempdir().map_err(|error| Failure::from_io("no temp folder", error))?;
        let place = Sandbox { folder, swb, faketime: clock };
        for name in ["home/.local", "home/.config/switchboard", "home/project", "journals"] {
            let path = place.path(name);
            fs::create_dir_all(&path).map_err(|error| place.file_error(&path, error))?;
        }
        let disk = place.disk().display().to_string();
        system::run_tool(&["mount", "-t", "tmpfs", "-o", DISK_OPTIONS, "tmpfs", &disk])?;
        fs::create_dir_all(place.shared_home())
            .map_err(|error| place.file_error(&place.shared_home(), error))?;
        place.set_clock(0)?;
        place.write_browser()?;
        Ok(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file_error(&self, path: &Path, error: io::Error) -> Failure {
        file_error(path, error)
    }

    fn write(&self, path: &Path, text: &str) -> Result<(), Failure> {
        fs::write(path, text).map_err(|error| self.file_error(path, error))
    }

    /// The disk for state, logs and audit records.
    pub fn disk(&self) -> PathBuf {
        self.path("home/.local")
    }

    /// The home of the sessions that use the shared host.
    pub fn shared_home(&self) -> PathBuf {
        self.path("shared-home")
    }

    /// The folder of the servers' journals.
    pub fn journals(&self) -> PathBuf {
        self.path("journals")
    }

    /// The file for the program's standard error.
    pub fn stderr_path(&self) -> PathBuf {
        self.path("stderr")
    }

    /// Replaces the settings file atomically, as editors do.
    pub fn write_settings(&self, text: &str) -> Result<(), Failure> {
        let path = self.path("home/.config/switchboard/settings.json");
        let temporary = path.with_extension("draft");
        self.write(&temporary, text)?;
        fs::rename(&temporary, &path).map_err(|error| self.file_error(&path, error))
    }

    /// Sets the program's clock this many seconds ahead of the actual time, or behind it.
    pub fn set_clock(&self, offset: i64) -> Result<(), Failure> {
        let path = self.path("clock");
        let temporary = path.with_extension("draft");
        self.write(&temporary, &format!("{offset:+}\n"))?;
        fs::rename(&temporary, &path).map_err(|error| self.file_error(&path, error))
    }

    /// Fills the disk completely. Fails if there is still space afterwards.
    pub fn fill_disk(&self) -> Result<(), Failure> {
        fill_disk(&self.disk())
    }

    /// Frees the disk space again.
    pub fn free_disk(&self) -> Result<(), Failure> {
        free_disk(&self.disk())
    }

    /// A browser command that accepts every login.
    fn write_browser(&self) -> Result<(), Failure> {
        let path = self.path("browser");
        let page = self.path("page");
        let script = format!(
            "#!/bin/sh\nexec curl -sSL --max-time 20 --output '{}' -- \"$1\"\n",
            page.display()
        );
        self.write(&path, &script)?;
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&path, mode).map_err(|error| self.file_error(&path, error))
    }

    /// The program with this home and an otherwise empty environment. It does not use the shared host.
    pub fn swb(&self) -> Command {
        let mut command = Command::new(&self.swb);
        command
            .current_dir(self.path("home/project"))
            .env_clear()
            .env("HOME", self.path("home"))
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("BROWSER", self.path("browser"))
            .env("SWB_SHARE", "off")
            .stdin(Stdio::null());
        command
    }

    /// The same with a clock that can be set. Affects only the time of day, not the monotonic clock.
    pub fn swb_with_clock(&self) -> Command {
        let mut command = self.swb();
        command
            .env("LD_PRELOAD", &self.faketime)
            .env("FAKETIME_TIMESTAMP_FILE", self.path("clock"))
            .env("FAKETIME_CACHE_DURATION", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        command
    }
}

/// A failure with this file.
pub fn file_error(path: &Path, error: io::Error) -> Failure {
    Failure::from_io(format!("trouble with `{}`", path.display()), error)
}

/// The file that takes all space.
const BALLAST: &str = "ballast";

/// Fills a disk completely. Fails if there is still space afterwards.
pub fn fill_disk(disk: &Path) -> Result<(), Failure> {
    let path = disk.join(BALLAST);
    let mut file = fs::File::create(&path).map_err(|error| file_error(&path, error))?;
    for size in [1 << 20, 4096, 1] {
        let piece = vec![0; size];
        while file.write_all(&piece).is_ok() {}
    }
    match file.write_all(b"x") {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(()),
        Err(error) => Err(file_error(&path, error)),
        Ok(()) => Err(Failure::new("the disk does not become full")),
    }
}

/// Frees the space of a disk again.
pub fn free_disk(disk: &Path) -> Result<(), Failure> {
    let path = disk.join(BALLAST);
    fs::remove_file(&path).map_err(|error| file_error(&path, error))
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // The disk must be unmounted before the folder can be deleted.
        for disk in [self.disk(), self.shared_home()] {
            let disk = disk.display().to_string();
            let _goes_with_the_namespace = system::run_tool(&["umount", "--lazy", &disk]);
        }
    }
}
