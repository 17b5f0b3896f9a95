//! Parses desktop entries: the files that describe installed applications. Pure.

use std::collections::BTreeSet;

use crate::shown_text::shown;

/// The longest name that is kept, in characters.
const MAX_NAME: usize = 40;
/// The most words of a command.
const MAX_WORDS: usize = 64;
/// Programs that run others: their names say nothing about a window.
const RUNNERS: [&str; 10] =
    ["bash", "dbus-launch", "env", "flatpak", "java", "perl", "python", "python3", "sh", "snap"];

/// An installed application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Application {
    /// The name that is shown.
    pub(crate) name: String,
    /// The command that starts it; empty if it needs a terminal or has none.
    pub(crate) command: Vec<String>,
    /// The keys that its windows may have, in lower case.
    pub(crate) keys: BTreeSet<String>,
    /// What can be done in it.
    pub(crate) reach: ApplicationReach,
}

/// What can be done in an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApplicationReach {
    /// What the application itself can do.
    Itself,
    /// Everything: commands can be typed into it.
    Commands,
}

/// The classes of terminals whose entry may not be installed.
const TERMINALS: [&str; 20] = [
    "alacritty",
    "com.mitchellh.ghostty",
    "cool-retro-term",
    "foot",
    "gnome-terminal",
    "gnome-terminal-server",
    "kitty",
    "konsole",
    "lxterminal",
    "mate-terminal",
    "org.wezfurlong.wezterm",
    "qterminal",
    "st-256color",
    "terminator",
    "terminology",
    "tilix",
    "urxvt",
    "uxterm",
    "xfce4-terminal",
    "xterm",
];

impl ApplicationReach {
    /// What can be done in windows with one of these keys, as far as their names say.
    pub(crate) fn of_keys(keys: &BTreeSet<String>) -> ApplicationReach {
        match TERMINALS.iter().any(|it| keys.contains(*it)) {
            true => ApplicationReach::Commands,
            false => ApplicationReach::Itself,
        }
    }
}

/// Parses the entry of a file called `id.desktop`; `None` if it is not an application to show.
pub(crate) fn parse(id: &str, text: &str) -> Option<Application> {
    let mut is_main = false;
    let (mut name, mut exec, mut class) = (None, None, None);
    let (mut is_application, mut needs_terminal, mut is_terminal) = (false, false, false);
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            is_main = line == "[Desktop Entry]";
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| is_main) else { continue };
        let value = value.trim();
        match key.trim() {
            "Type" => is_application = value == "Application",
            "Name" => name = Some(shown(value, MAX_NAME)),
            "Exec" => exec = Some(value),
            "StartupWMClass" => class = Some(value),
            "Categories" => is_terminal = value.split(';').any(|it| it == "TerminalEmulator"),
            "Terminal" => needs_terminal = value == "true",
            "NoDisplay" | "Hidden" if value == "true" => return None,
            _ => {}
        }
    }
    let name = name.filter(|it| is_application && !it.is_empty())?;
    let words = split_command(exec.unwrap_or_default());
    let program = words.first().and_then(|it| it.rsplit('/').next());
    let program = program.filter(|it| !RUNNERS.contains(it));
    let last_part = id.rsplit('.').next();
    let keys = [class, program, Some(id), last_part].into_iter().flatten();
    let keys = keys.filter(|it| !it.is_empty()).map(str::to_lowercase).collect();
    let command = if needs_terminal { Vec::new() } else { words };
    let reach = match is_terminal {
        true => ApplicationReach::Commands,
        false => ApplicationReach::of_keys(&keys),
    };
    Some(Application { name, command, keys, reach })
}

/// The words of a command, without the codes for files and icons.
fn split_command(exec: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut is_quoted, mut has_word) = (false, false);
    let mut characters = exec.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                is_quoted = !is_quoted;
                has_word = true;
            }
            '\\' if is_quoted => word.extend(characters.next()),
            '%' => {
                if characters.next() == Some('%') {
                    word.push('%');
                    has_word = true;
                }
            }
            ' ' | '\t' if !is_quoted => {
                if has_word {
                    words.push(std::mem::take(&mut word));
                }
                has_word = false;
            }
            other => {
                word.push(other);
                has_word = true;
            }
        }
    }
    if has_word {
        words.push(word);
    }
    words.truncate(MAX_WORDS);
    words
}

impl Application {
    /// Whether a person may mean this application by a name.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        self.name.to_lowercase() == name || self.keys.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(exec: &str, expected: &[&str]) {
        assert_eq!(split_command(exec), expected);
    }

    #[test]
    fn a_command_is_split_into_words() {
        check("xterm", &["xterm"]);
        check("firefox %u", &["firefox"]);
        check("\"/opt/my app/run\" --x=\"a b\" %F", &["/opt/my app/run", "--x=a b"]);
        check(r#"sh -c "echo \"hi\"""#, &["sh", "-c", "echo \"hi\""]);
        check("a 100%% %i", &["a", "100%"]);
        check("a \"\" b", &["a", "", "b"]);
        check("", &[]);
    }

    #[test]
    fn an_entry_names_the_windows_it_opens() {
        let text = "# c\n[Desktop Entry]\nType=Application\nName=Text Editor\nName[de]=X\nExec=/usr/bin/gedit %U\n\
                    StartupWMClass=Gedit-3\n[Desktop Action new]\nName=New\nExec=other\n";
        let application = parse("org.gnome.gedit", text).expect("an application");
        assert_eq!(application.name, "Text Editor");
        assert_eq!(application.command, ["/usr/bin/gedit"]);
        let keys: Vec<&str> = application.keys.iter().map(String::as_str).collect();
        assert_eq!(keys, ["gedit", "gedit-3", "org.gnome.gedit"]);
        assert!(application.is_called("text editor") && application.is_called("Gedit"));
        assert!(!application.is_called("text"));
    }

    #[test]
    fn terminals_are_known_by_their_category_or_their_class() {
        let reach = |more: &str, program: &str| {
            let text =
                format!("[Desktop Entry]\nType=Application\nName=A\nExec={program}\n{more}\n");
            parse("a", &text).expect("an application").reach
        };
        assert_eq!(reach("Categories=System;TerminalEmulator;", "new"), ApplicationReach::Commands);
        assert_eq!(reach("", "/usr/bin/konsole -e x"), ApplicationReach::Commands);
        assert_eq!(reach("Categories=Utility;", "calculator"), ApplicationReach::Itself);
    }

    #[test]
    fn what_is_not_shown_in_menus_is_not_an_application() {
        let entry = |more: &str| format!("[Desktop Entry]\nName=A\nExec=sh -c x\n{more}\n");
        assert!(parse("a", &entry("Type=Application")).is_some());
        assert!(parse("a", &entry("Type=Link")).is_none());
        assert!(parse("a", &entry("Type=Application\nNoDisplay=true")).is_none());
        assert!(parse("a", "[Other]\nType=Application\nName=A\n").is_none());
        assert!(parse("a", "[Desktop Entry]\nType=Application\nName=\n").is_none());
        let keys = parse("a", &entry("Type=Application")).expect("an application").keys;
        assert_eq!(keys.len(), 1, "a shell does not name a window: {keys:?}");
    }

    #[test]
    fn a_name_cannot_carry_escape_sequences_or_pages_of_text() {
        let text =
            format!("[Desktop Entry]\nType=Application\nName=\u{1b}[31m{}\n", "x".repeat(500));
        let name = parse("a", &text).expect("an application").name;
        assert_eq!(name.chars().count(), MAX_NAME + 1);
        assert!(!name.contains('\u{1b}'));
    }

    #[test]
    fn a_program_for_the_terminal_has_no_command() {
        let text = "[Desktop Entry]\nType=Application\nName=Top\nExec=top\nTerminal=true\n";
        assert!(parse("top", text).expect("an application").command.is_empty());
    }
}
