//! A machine of its own for a test: a home, a project in it, an administrator's folder, and no environment but what is set.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::Ran;

/// A temp folder with `person`, `person/project` (under version control) and `managed` in it.
#[derive(Debug)]
pub struct Scene {
    folder: TempDir,
    program: PathBuf,
    variables: BTreeMap<String, String>,
}

impl Scene {
    /// Sets the scene for a program that takes its administrator's folder from `SWB_TESTBED_MANAGED`.
    pub fn new(program: impl Into<PathBuf>) -> Scene {
        let folder = tempfile::tempdir().expect("a temp folder can be made");
        let scene = Scene { folder, program: program.into(), variables: BTreeMap::new() };
        for path in [scene.project().join(".git"), scene.managed()] {
            fs::create_dir_all(path).expect("a folder can be made");
        }
        scene
    }

    /// The folder around everything, without links.
    pub fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().expect("the temp folder is there")
    }

    /// The person's home.
    pub fn home(&self) -> PathBuf {
        self.root().join("person")
    }

    /// The project that the person works in.
    pub fn project(&self) -> PathBuf {
        self.home().join("project")
    }

    /// The administrator's folder.
    pub fn managed(&self) -> PathBuf {
        self.root().join("managed")
    }

    /// A place in words: `~/…` is below home, `managed/…` the administrator's, anything else the project's.
    pub fn path(&self, place: &str) -> PathBuf {
        match (place.strip_prefix("~/"), place.strip_prefix("managed/")) {
            (Some(rest), _) => self.home().join(rest),
            (None, Some(rest)) => self.managed().join(rest),
            (None, None) => self.project().join(place),
        }
    }

    /// Writes a file, its folders included.
    pub fn write(&self, place: &str, text: &str) -> &Scene {
        let path = self.path(place);
        let folder = path.parent().expect("every place has a folder");
        fs::create_dir_all(folder).expect("a folder can be made");
        fs::write(path, text).expect("a file can be written");
        self
    }

    /// Writes `mcpServers` with the given members.
    pub fn servers(&self, place: &str, members: &str) -> &Scene {
        self.write(place, &format!("{{\"mcpServers\": {{\n{members}\n}}}}\n"))
    }

    /// Reads a file.
    pub fn read(&self, place: &str) -> String {
        fs::read_to_string(self.path(place)).expect("the file can be read")
    }

    /// Sets a variable for every program that is run from now on.
    pub fn set(&mut self, name: &str, value: &str) -> &mut Scene {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Runs the program in the project.
    pub fn swb(&self, arguments: &[&str]) -> Ran {
        self.swb_in(&self.project(), arguments)
    }

    /// Runs the program in some folder.
    pub fn swb_in(&self, folder: &Path, arguments: &[&str]) -> Ran {
        let output = self.command(folder, arguments).output().expect("the program can be run");
        self.ran(output.status.code(), &output.stdout, &output.stderr)
    }

    /// The program, ready to be started.
    pub fn command(&self, folder: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .current_dir(folder)
            .env_clear()
            .env("HOME", self.home())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("SWB_TESTBED_MANAGED", self.managed())
            .envs(&self.variables)
            .stdin(Stdio::null());
        command
    }

    /// Output without what differs from run to run.
    pub fn ran(&self, code: Option<i32>, stdout: &[u8], stderr: &[u8]) -> Ran {
        let text = |bytes: &[u8]| self.settled(&String::from_utf8_lossy(bytes));
        Ran { code: code.unwrap_or(-1), stdout: text(stdout), stderr: text(stderr) }
    }

    /// Temp paths become `[ROOT]`, the key of the project's local settings `[KEY]`; folders above the scene are left out.
    fn settled(&self, text: &str) -> String {
        let root = self.root();
        let above: Vec<String> = root
            .ancestors()
            .skip(1)
            .map(|folder| folder.join(".mcp.json").display().to_string())
            .collect();
        let is_above = |line: &str| {
            above.iter().any(|path| {
                line.contains(&format!(" {path}")) || line.contains(&format!("\"{path}\""))
            })
        };
        let root = root.display().to_string();
        let depends_on_root = text.contains(&root) || text.contains("projects/");
        let mut settled = String::new();
        for line in text.split_inclusive('\n').filter(|line| !is_above(line)) {
            let line = without_key(&line.replace(&root, "[ROOT]"));
            settled.push_str(&if depends_on_root { narrowed(&line) } else { line });
        }
        settled
    }
}

/// A table is as wide as its widest path, so gaps between columns become two spaces.
fn narrowed(line: &str) -> String {
    let text = line.trim_start_matches(' ');
    let mut narrow = line[..line.len() - text.len()].to_owned();
    let mut gap = 0;
    for c in text.chars() {
        gap = if c == ' ' { gap + 1 } else { 0 };
        if gap <= 2 {
            narrow.push(c);
        }
    }
    narrow
}

/// Hides the hash in `projects/NAME-0123456789abcdef/`, which depends on where the temp folder is.
fn without_key(line: &str) -> String {
    const DIGITS: usize = 16;
    let Some(start) = line.find("projects/").map(|at| at + "projects/".len()) else {
        return line.to_owned();
    };
    let end = line[start..].find('/').map_or(line.len(), |at| start + at);
    let name = &line[start..end];
    match name.rsplit_once('-') {
        Some((front, key)) if key.len() == DIGITS => {
            format!("{}{front}-[KEY]{}", &line[..start], &line[end..])
        }
        Some(_) | None => line.to_owned(),
    }
}
