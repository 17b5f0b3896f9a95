//! Adapts the command lines of imported servers, and points out habits that cost something here.

use serde_json::{Map, Value};

use super::entry_builder::ConvertedEntry;
use super::note::ImportNote;

/// Characters that mean something to the Windows shell, so that a command with one needs the shell.
const SHELL_CHARACTERS: [char; 9] = ['&', '|', '<', '>', '^', '%', '"', '(', ')'];
/// Options of the Windows shell that may stand before `/c`.
const SHELL_OPTIONS: [&str; 3] = ["/d", "/s", "/q"];

/// Replaces `cmd /c PROGRAM …` by the program, which needs no shell here, and notes containers that stay behind.
pub(super) fn adapt(converted: &mut ConvertedEntry) {
    if let Some(words) = without_shell(&converted.entry) {
        let (from, to) = ("cmd /c".to_owned(), "the program itself".to_owned());
        converted.notes.push(ImportNote::Rewritten { key: "command".to_owned(), from, to });
        let mut words = words.into_iter().map(Value::String);
        if let Some(command) = words.next() {
            converted.entry.insert("command".to_owned(), command);
        }
        match words.collect::<Vec<_>>() {
            arguments if arguments.is_empty() => converted.entry.remove("args"),
            arguments => converted.entry.insert("args".to_owned(), arguments.into()),
        };
    }
    if leaves_container(&converted.entry) {
        converted.notes.push(ImportNote::ContainerKept);
    }
}

/// The program and its arguments, if the command is `cmd /c` with a plain command line.
fn without_shell(entry: &Map<String, Value>) -> Option<Vec<String>> {
    let arguments = strings(entry.get("args"));
    if program_name(entry)? != "cmd" {
        return None;
    }
    let is_option = |it: &&&str| SHELL_OPTIONS.iter().any(|option| it.eq_ignore_ascii_case(option));
    let options = arguments.iter().take_while(is_option).count();
    let (flag, words) = arguments.get(options..)?.split_first()?;
    let is_plain = |word: &&str| !word.contains(SHELL_CHARACTERS);
    if !flag.eq_ignore_ascii_case("/c") || !words.iter().all(is_plain) {
        return None;
    }
    let words: Vec<String> = match words {
        [line] => line.split_whitespace().map(str::to_owned).collect(),
        words => words.iter().map(|word| (*word).to_owned()).collect(),
    };
    (!words.is_empty()).then_some(words)
}

/// Does the command start Switchboard as a server for all servers? Importing it would make Switchboard start itself.
pub(super) fn runs_switchboard(entry: &Map<String, Value>) -> bool {
    let is_program =
        program_name(entry).is_some_and(|name| name == "swb" || name.starts_with("swb-"));
    let arguments = strings(entry.get("args"));
    is_program && arguments.contains(&"serve") && arguments.contains(&"--pool")
}

/// Does the command create a container that is not removed when it ends?
fn leaves_container(entry: &Map<String, Value>) -> bool {
    let runs_containers =
        matches!(program_name(entry).as_deref(), Some("docker" | "podman" | "nerdctl"));
    let arguments = strings(entry.get("args"));
    let mut commands = arguments.iter().filter(|it| !it.starts_with('-')).copied();
    let runs = match commands.next() {
        Some("container") => commands.next() == Some("run"),
        first => first == Some("run"),
    };
    let is_removed = arguments.iter().any(|it| *it == "--rm" || it.starts_with("--rm="));
    runs_containers && runs && !is_removed
}

/// The name of the program without its folder and extension, in lower case.
fn program_name(entry: &Map<String, Value>) -> Option<String> {
    let command = entry.get("command")?.as_str()?.to_ascii_lowercase();
    let file = command.rsplit(['/', '\\']).next()?;
    Some(file.strip_suffix(".exe").unwrap_or(file).to_owned())
}

fn strings(value: Option<&Value>) -> Vec<&str> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(command: &str, arguments: &[&str], expected: &str) {
        let Value::Object(entry) = json!({"command": command, "args": arguments}) else {
            panic!("an object")
        };
        let mut converted = ConvertedEntry { entry, notes: Vec::new() };
        adapt(&mut converted);
        let mut words = vec![converted.entry["command"].as_str().expect("a command")];
        words.extend(strings(converted.entry.get("args")));
        let notes: String = converted.notes.iter().map(|it| format!("; {it}")).collect();
        assert_eq!(format!("{}{notes}", words.join(" ")), expected);
    }

    #[test]
    fn a_shell_of_windows_that_only_starts_a_program_is_left_out() {
        const NOTE: &str = "`command`: cmd /c became the program itself";
        check("cmd", &["/c", "npx", "-y", "x"], &format!("npx -y x; {NOTE}"));
        check("C:\\Windows\\CMD.EXE", &["/d", "/C", "npx"], &format!("npx; {NOTE}"));
        check("cmd", &["/c", "npx -y x"], &format!("npx -y x; {NOTE}"));
        // What needs the shell keeps it.
        check("cmd", &["/c", "set A=1&& npx x"], "cmd /c set A=1&& npx x");
        check("cmd", &["/c", "npx", "%HOME%"], "cmd /c npx %HOME%");
        check("cmd", &["/k", "npx"], "cmd /k npx");
        check("cmd", &["/c"], "cmd /c");
        check("npx", &["/c", "x"], "npx /c x");
    }

    #[test]
    fn switchboard_itself_is_recognized() {
        let is_own = |command: &str, arguments: &[&str]| {
            let entry = json!({"command": command, "args": arguments});
            runs_switchboard(entry.as_object().expect("an object"))
        };
        assert!(is_own("swb", &["serve", "--pool"]));
        assert!(is_own("/opt/bin/swb", &["serve", "--pool", "--sharing", "session"]));
        assert!(is_own("C:\\tools\\swb.exe", &["serve", "--pool"]));
        assert!(!is_own("swb", &["serve"]));
        assert!(!is_own("swbx", &["serve", "--pool"]));
    }

    #[test]
    fn a_container_that_stays_behind_is_pointed_out() {
        let note = ImportNote::ContainerKept.to_string();
        check("docker", &["run", "-i", "x"], &format!("docker run -i x; {note}"));
        check(
            "/usr/bin/podman",
            &["container", "run", "x"],
            &format!("/usr/bin/podman container run x; {note}"),
        );
        check("docker", &["run", "--rm", "-i", "x"], "docker run --rm -i x");
        check("docker", &["exec", "-i", "x", "run"], "docker exec -i x run");
        check("node", &["run"], "node run");
    }
}
