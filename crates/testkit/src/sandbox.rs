//! An isolated machine for a test: a home, a project, an administrator's folder, and an empty environment.

pub(crate) mod command_output;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::CommandOutput;

/// The administrator's folder in normalized output.
pub const MANAGED_DIR: &str = "/etc/switchboard";

/// A temporary folder with `person`, `person/project` (with `.git`) and `managed`.
#[derive(Debug)]
pub struct Sandbox {
    folder: TempDir,
    program: PathBuf,
    variables: BTreeMap<String, String>,
}

impl Sandbox {
    /// Creates a sandbox for a program that reads its administrator's folder from `SWB_TESTBED_MANAGED`.
    pub fn new(program: impl Into<PathBuf>) -> Sandbox {
        let folder = tempfile::tempdir().expect("a temp folder can be made");
        let sandbox = Sandbox { folder, program: program.into(), variables: BTreeMap::new() };
        for path in [sandbox.project().join(".git"), sandbox.managed()] {
            fs::create_dir_all(path).expect("a folder can be made");
        }
        sandbox
    }

    /// The root folder, without symbolic links.
    pub fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().expect("the temp folder is there")
    }

    /// The user's home folder.
    pub fn home(&self) -> PathBuf {
        self.root().join("person")
    }

    /// The user's project.
    pub fn project(&self) -> PathBuf {
        self.home().join("project")
    }

    /// The administrator's folder.
    pub fn managed(&self) -> PathBuf {
        self.root().join("managed")
    }

    /// Resolves a path: `~/…` in the home, `managed/…` in the administrator's folder, others in the project.
    pub fn path(&self, path: &str) -> PathBuf {
        match (path.strip_prefix("~/"), path.strip_prefix("managed/")) {
            (Some(rest), _) => self.home().join(rest),
            (None, Some(rest)) => self.managed().join(rest),
            (None, None) => self.project().join(path),
        }
    }

    /// Writes a file and creates its folders.
    pub fn write(&self, path: &str, text: &str) -> &Sandbox {
        let path = self.path(path);
        let folder = path.parent().expect("every path has a folder");
        fs::create_dir_all(folder).expect("a folder can be made");
        fs::write(path, text).expect("a file can be written");
        self
    }

    /// Writes `mcpServers` with the given members.
    pub fn write_servers(&self, path: &str, members: &str) -> &Sandbox {
        self.write(path, &format!("{{\"mcpServers\": {{\n{members}\n}}}}\n"))
    }

    /// Reads a file.
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).expect("the file can be read")
    }

    /// Sets a variable for all later commands.
    pub fn set_env(&mut self, name: &str, value: &str) -> &mut Sandbox {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Runs the program in the project.
    pub fn swb(&self, arguments: &[&str]) -> CommandOutput {
        self.swb_in(&self.project(), arguments)
    }

    /// Runs the program in a folder.
    pub fn swb_in(&self, folder: &Path, arguments: &[&str]) -> CommandOutput {
        let output = self.command(folder, arguments).output().expect("the program can be run");
        self.normalized_output(output.status.code(), &output.stdout, &output.stderr)
    }

    /// The command to run the program.
    pub fn command(&self, folder: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .current_dir(folder)
            .env_clear()
            .env("HOME", self.home())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("SWB_TESTBED_MANAGED", self.managed())
            // Tests count processes; those about sharing turn it on.
            .env("SWB_SHARE", "off")
            .envs(&self.variables)
            .stdin(Stdio::null());
        command
    }

    /// Output without parts that differ between runs.
    pub fn normalized_output(
        &self,
        code: Option<i32>,
        stdout: &[u8],
        stderr: &[u8],
    ) -> CommandOutput {
        let text = |bytes: &[u8]| self.normalized(&String::from_utf8_lossy(bytes));
        CommandOutput { code: code.unwrap_or(-1), stdout: text(stdout), stderr: text(stderr) }
    }

    /// Replaces the administrator's folder by its usual path, other temporary paths by `[ROOT]`, and the project's
    /// key by a fixed one; leaves out folders above the home; then realigns tables.
    fn normalized(&self, text: &str) -> String {
        let root = self.root();
        let above: Vec<String> =
            root.ancestors().map(|it| it.join(".mcp.json").display().to_string()).collect();
        let is_above = |line: &str| {
            above.iter().any(|path| {
                line.contains(&format!(" {path}")) || line.contains(&format!("\"{path}\""))
            })
        };
        let root = root.display().to_string();
        let managed = self.managed().display().to_string();
        let replaced = |line: &str| line.replace(&managed, MANAGED_DIR).replace(&root, "[ROOT]");
        let lines = text.split_inclusive('\n').filter(|line| !is_above(line));
        realign_tables(
            &lines.map(|line| with_fixed_project_key(&replaced(line))).collect::<String>(),
        )
    }
}

/// Realigns tables, because replaced paths have other widths.
fn realign_tables(text: &str) -> String {
    let mut normalized = String::new();
    let mut table: Vec<Vec<&str>> = Vec::new();
    for line in text.split_inclusive('\n') {
        let cells: Vec<&str> = line
            .trim_end_matches('\n')
            .split("  ")
            .map(str::trim)
            .filter(|it| !it.is_empty())
            .collect();
        let goes_on = !table.is_empty() && cells.len() > 1 && cells.len() <= table[0].len();
        if !line.starts_with(' ') && (goes_on || is_header(&cells)) {
            if is_header(&cells) {
                normalized.push_str(&format_table(&std::mem::take(&mut table)));
            }
            table.push(cells);
            continue;
        }
        normalized.push_str(&format_table(&std::mem::take(&mut table)));
        normalized.push_str(line);
    }
    normalized.push_str(&format_table(&table));
    normalized
}

fn is_header(cells: &[&str]) -> bool {
    let is_title = |cell: &&str| cell.chars().all(|c| c.is_ascii_uppercase() || c == ' ');
    cells.len() > 1 && cells.iter().all(is_title)
}

fn format_table(table: &[Vec<&str>]) -> String {
    let columns = table.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            table
                .iter()
                .filter_map(|row| row.get(column))
                .map(|it| it.chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in table {
        let padded: String = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell}{}  ", " ".repeat(width - cell.chars().count())))
            .collect();
        text.push_str(&format!("{}\n", padded.trim_end()));
    }
    text
}

/// Fixes the hash in `projects/NAME-HASH/`, which depends on the temporary folder.
fn with_fixed_project_key(line: &str) -> String {
    const DIGITS: usize = 16;
    let Some(start) = line.find("projects/").map(|at| at + "projects/".len()) else {
        return line.to_owned();
    };
    let end = line[start..].find('/').map_or(line.len(), |at| start + at);
    let name = &line[start..end];
    match name.rsplit_once('-') {
        Some((front, key)) if key.len() == DIGITS => {
            format!("{}{front}-0123456789abcdef{}", &line[..start], &line[end..])
        }
        Some(_) | None => line.to_owned(),
    }
}
