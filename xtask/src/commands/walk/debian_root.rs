//! A minimal Debian root below the build folder: created with debootstrap, set up with Rust and this machine's network
//! settings, entered in separate namespaces, and removed. `walk` decides which commands run in it.

use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::steps;
use crate::workspace::{NetworkSettings, Workspace};

/// Sets up the mounts of the root and runs a command, in namespaces that the caller has created.
const ENTER_SCRIPT: &str = include_str!("enter.sh");
/// The path of the toolchain in the root.
const TOOLCHAIN_BIN: &str = "/opt/rust/bin";
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// System files with network settings, in addition to those that variables name.
const NETWORK_FILES: &[&str] =
    &["/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf"];
/// Certificates that an administrator added to this machine.
const LOCAL_CERTIFICATES: &str = "/usr/local/share/ca-certificates";
/// Files in a home that configure package registries.
const HOME_FILES: &[&str] =
    &[".cargo/config.toml", ".config/pip/pip.conf", ".pip/pip.conf", ".npmrc"];
/// The network settings of apt.
const APT_SETTINGS: &[&str] = &[
    "Acquire::http",
    "Acquire::https",
    "Acquire::Check-Valid-Until",
    "Acquire::Retries",
    "Acquire::ForceIPv",
];
/// The free disk space that a run needs, in gigabytes.
const REQUIRED_GIGABYTES: u64 = 15;

/// A user in the root.
#[derive(Clone, Copy, Debug)]
pub struct User {
    /// The user's name.
    pub name: &'static str,
    /// The home folder.
    pub home: &'static str,
}

/// An unprivileged user.
pub const NEWCOMER: User = User { name: "newcomer", home: "/people/newcomer" };
/// The user that may install packages.
pub const ADMINISTRATOR: User = User { name: "root", home: "/people/administrator" };

/// The Debian root.
#[derive(Debug)]
pub struct DebianRoot {
    folder: PathBuf,
    toolchain: PathBuf,
    settings: NetworkSettings,
}

impl DebianRoot {
    /// The root's paths and the settings to copy into it. Creates nothing yet.
    pub fn new(workspace: &Workspace) -> Result<Self, RootError> {
        if output(Command::new("id").arg("-u"))? != "0" {
            return Err(RootError::NotRoot);
        }
        let toolchain = output(workspace.program("rustc").args(["--print", "sysroot"]))?;
        let folder = workspace.target.join("walk");
        Ok(DebianRoot {
            folder,
            toolchain: toolchain.into(),
            settings: workspace.network_settings(),
        })
    }

    /// The folder of the root.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path outside the root of a path inside it.
    pub fn host_path(&self, inside: &str) -> PathBuf {
        self.folder.join(inside.trim_start_matches('/'))
    }

    /// Creates the root again, with only the base system of this machine's release.
    pub fn create(&self) -> Result<(), RootError> {
        self.remove()?;
        fs::create_dir_all(&self.folder).map_err(|error| file_error(&self.folder, error))?;
        self.check_disk_space()?;
        let sources = apt_sources()?;
        let Some([site, release, ..]) = sources.first().map(|source| source_fields(source)) else {
            return Err(RootError::NoMirror);
        };
        let mut debootstrap = namespaced_command();
        debootstrap.args(["--mount-proc", "debootstrap", "--variant=minbase", release]);
        debootstrap.arg(&self.folder).arg(site);
        run_checked(&mut debootstrap)?;
        let list: String = sources.iter().map(|source| format!("deb {source}\n")).collect();
        self.write("/etc/apt/sources.list", &list)?;
        self.write("/etc/apt/apt.conf.d/90network", &apt_settings()?)?;
        for folder in ["/opt/rust", "/people", ADMINISTRATOR.home] {
            let folder = self.host_path(folder);
            fs::create_dir_all(&folder).map_err(|error| file_error(&folder, error))?;
        }
        self.copy_network_settings()
    }

    /// Copies this machine's network settings. Repeated after packages have written their own files.
    pub fn copy_network_settings(&self) -> Result<(), RootError> {
        let named = self.settings.variables.iter().map(|(_, value)| PathBuf::from(value));
        let certificates = fs::read_dir(LOCAL_CERTIFICATES).into_iter().flatten().flatten();
        let files = NETWORK_FILES.iter().map(PathBuf::from);
        let files = files.chain(certificates.map(|entry| entry.path())).chain(named);
        for file in files.filter(|file| file.is_absolute() && file.is_file()) {
            self.copy(&file, &self.host_path(&file.to_string_lossy()))?;
        }
        Ok(())
    }

    /// Copies this machine's registry settings to a home.
    pub fn copy_registry_settings(&self, person: User) -> Result<(), RootError> {
        for file in HOME_FILES {
            let source = self.settings.home.join(file);
            if source.is_file() {
                self.copy(&source, &self.host_path(person.home).join(file))?;
            }
        }
        Ok(())
    }

    fn copy(&self, from: &Path, to: &Path) -> Result<(), RootError> {
        let folder = to.parent().expect("a file lies in a folder");
        fs::create_dir_all(folder).map_err(|error| file_error(folder, error))?;
        // An existing file may be a link that leads out of the root. Usually there is none.
        let _absent = fs::remove_file(to);
        fs::copy(from, to).map(|_| ()).map_err(|error| file_error(to, error))
    }

    fn write(&self, inside: &str, text: &str) -> Result<(), RootError> {
        let file = self.host_path(inside);
        fs::write(&file, text).map_err(|error| file_error(&file, error))
    }

    /// A shell command inside the root, as this user with this home. The environment has only variables that a login
    /// and the network need. The command and its descendants are killed when this process ends, for whatever reason.
    pub fn command(&self, person: User, home: &str, script: &str) -> Command {
        let mut command = namespaced_command();
        command.args(["sh", "-c", ENTER_SCRIPT, "sh"]).arg(&self.folder).arg(&self.toolchain);
        command.args(["timeout", "--kill-after=10", "7200", "chroot"]);
        command.arg(format!("--userspec={0}:{0}", person.name)).arg(&self.folder);
        command.args(["env", "--ignore-environment"]);
        command.arg(format!("PATH={}/.cargo/bin:{TOOLCHAIN_BIN}:{SYSTEM_PATH}", person.home));
        command.arg(format!("HOME={home}")).arg(format!("USER={}", person.name));
        command.args(["SHELL=/bin/bash", "TERM=xterm-256color", "DEBIAN_FRONTEND=noninteractive"]);
        // The documented outputs come from tests, which share no servers between commands.
        command.arg("SWB_SHARE=off");
        for (name, value) in &self.settings.variables {
            let path = Path::new(value);
            if path.is_absolute() && !self.host_path(&path.to_string_lossy()).exists() {
                continue;
            }
            let mut variable = name.clone();
            variable.push("=");
            variable.push(value);
            command.arg(variable);
        }
        command.args(["bash", "-c"]).arg(format!("cd\n{script}"));
        command
    }

    /// Removes the root, unless something is mounted below it: removal would delete the mounted files.
    pub fn remove(&self) -> Result<(), RootError> {
        let path = Path::new("/proc/self/mountinfo");
        let mounts = fs::read_to_string(path).map_err(|error| file_error(path, error))?;
        let folder = std::path::absolute(&self.folder).unwrap_or(self.folder.clone());
        let below = mounted_below(&mounts, &folder);
        if !below.is_empty() {
            return Err(RootError::Mounted(below));
        }
        run_checked(Command::new("rm").args(["-rf", "--one-file-system", "--"]).arg(&self.folder))
    }

    fn check_disk_space(&self) -> Result<(), RootError> {
        let mut df = Command::new("df");
        df.args(["--output=avail", "--block-size=1G"]).arg(&self.folder);
        let free = output(&mut df)?.lines().last().and_then(|it| it.trim().parse().ok());
        match free.unwrap_or(0) {
            free if free < REQUIRED_GIGABYTES => Err(RootError::DiskSpace(free)),
            _enough => Ok(()),
        }
    }

    /// The disk space of these paths in the root, in megabytes; missing paths count as 0.
    pub fn megabytes(&self, inside: &[String]) -> u64 {
        let weight = |place: &String| {
            let mut du = Command::new("du");
            du.args(["-sm", "--one-file-system"]).arg(self.host_path(place)).stderr(Stdio::null());
            let output_text = output(&mut du).unwrap_or_default();
            output_text.split_whitespace().next().and_then(|it| it.parse::<u64>().ok()).unwrap_or(0)
        };
        inside.iter().map(weight).sum()
    }
}

/// A command in separate mount and process namespaces, which end with this process, even if it is killed.
fn namespaced_command() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"]);
    command.args(["--pid", "--fork", "--kill-child"]).stdin(Stdio::null());
    command
}

/// The apt sources of this machine's release: site, release and component; the release itself first.
fn apt_sources() -> Result<Vec<String>, RootError> {
    let system = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let codename = system.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let codename = codename.ok_or(RootError::NoMirror)?.trim_matches('"');
    let mut targets = Command::new("apt-get");
    targets.args(["indextargets", "--format", "$(CODENAME) $(SITE) $(RELEASE) $(COMPONENT)"]);
    let output_text = output(targets.arg("Created-By: Packages"))?;
    Ok(parse_sources(&output_text, codename))
}

fn parse_sources(targets: &str, codename: &str) -> Vec<String> {
    let mut found: Vec<(bool, String)> = Vec::new();
    for line in targets.lines() {
        let Some((name, source)) = line.split_once(' ') else { continue };
        let is_own = name == codename;
        if is_own || name.strip_prefix(codename).is_some_and(|rest| rest.starts_with('-')) {
            found.push((!is_own, source.to_owned()));
        }
    }
    found.sort_by_key(|(is_later, _)| *is_later);
    found.into_iter().map(|(_, source)| source).collect()
}

fn source_fields(source: &str) -> [&str; 3] {
    let mut words = source.split_whitespace();
    std::array::from_fn(|_| words.next().unwrap_or_default())
}

fn apt_settings() -> Result<String, RootError> {
    let output_text = output(Command::new("apt-config").args(["dump", "Acquire"]))?;
    let is_ours = |line: &&str| {
        APT_SETTINGS.iter().any(|name| line.starts_with(name)) && !line.ends_with("\"\";")
    };
    Ok(output_text.lines().filter(is_ours).map(|line| format!("{line}\n")).collect())
}

/// Mount points at or below a folder: the fifth field of a line, in which spaces are written as `\040`.
fn mounted_below(mounts: &str, folder: &Path) -> Vec<PathBuf> {
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    let points = points.map(|point| PathBuf::from(point.replace("\\040", " ")));
    points.filter(|point| point.starts_with(folder)).collect()
}

/// Runs a command to its end and shows its output.
fn run_checked(command: &mut Command) -> Result<(), RootError> {
    let line = steps::line(command);
    let status = command.status().map_err(|error| RootError::NotStarted(line.clone(), error))?;
    match status.success() {
        true => Ok(()),
        false => Err(RootError::Failed(line)),
    }
}

/// The output of a command, without the final line break.
fn output(command: &mut Command) -> Result<String, RootError> {
    let line = steps::line(command);
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| RootError::NotStarted(line.clone(), error))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
        false => Err(RootError::Failed(line)),
    }
}

fn file_error(path: &Path, error: io::Error) -> RootError {
    RootError::File(path.to_owned(), error)
}

/// The root could not be created, set up or removed.
#[derive(Debug)]
pub enum RootError {
    /// Only root may create these namespaces and mounts.
    NotRoot,
    /// This machine's own packages do not come from a Debian mirror.
    NoMirror,
    /// This many gigabytes are free, which is too few.
    DiskSpace(u64),
    /// These are mounted below the folder that was to be removed.
    Mounted(Vec<PathBuf>),
    /// A program could not be started.
    NotStarted(String, io::Error),
    /// A program failed.
    Failed(String),
    /// A file or a folder could not be written.
    File(PathBuf, io::Error),
}

impl fmt::Display for RootError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RootError::NotRoot => out.write_str(
                "a Debian root needs mounts: run `sudo --preserve-env env \"PATH=$PATH\" cargo xtask walk`",
            ),
            RootError::NoMirror => {
                out.write_str("apt on this machine names no mirror of its own release")
            }
            RootError::DiskSpace(free) => {
                write!(out, "{free} GB are free below the build folder, but `walk` needs {REQUIRED_GIGABYTES}")
            }
            RootError::Mounted(points) => {
                write!(out, "the root is not removed because of mounts below it:")?;
                points.iter().try_for_each(|point| write!(out, "\n  {}", point.display()))
            }
            RootError::NotStarted(line, _) => write!(out, "`{line}` did not start"),
            RootError::Failed(line) => write!(out, "`{line}` failed"),
            RootError::File(path, _) => write!(out, "cannot use {}", path.display()),
        }
    }
}

impl Error for RootError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            RootError::NotStarted(_, error) | RootError::File(_, error) => Some(error),
            RootError::NotRoot
            | RootError::NoMirror
            | RootError::DiskSpace(_)
            | RootError::Mounted(_)
            | RootError::Failed(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_comes_first_and_third_party_sources_are_left_out() {
        let targets = "twelve-updates http://m/d twelve-updates main\n\
                       nodistro https://else nodistro main\n\
                       twelve http://m/d twelve main\n\
                       twelvefold http://m/x twelvefold main\n\
                       twelve-security http://m/s twelve-security main";

        assert_eq!(
            parse_sources(targets, "twelve"),
            [
                "http://m/d twelve main",
                "http://m/d twelve-updates main",
                "http://m/s twelve-security main"
            ]
        );
    }

    #[test]
    fn mount_points_below_a_folder_are_found() {
        let mounts = "22 27 0:21 / /proc rw - proc proc rw\n\
                      23 27 0:22 / /a\\040b/walk/proc rw - proc proc rw\n\
                      24 27 0:22 / /a\\040b/walking rw - tmpfs x rw\n";

        assert_eq!(mounted_below(mounts, Path::new("/a b/walk")), [Path::new("/a b/walk/proc")]);
        assert!(mounted_below(mounts, Path::new("/a")).is_empty());
    }
}
