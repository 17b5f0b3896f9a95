//! The command line of a package: which program runs it, and in which order the arguments stand. What a publisher wrote
//! although it is there anyway (`-y`, `run -i --rm`, the package itself) is not repeated.

use super::package::Package;
use super::package_type::PackageType;
use super::slot::{Slot, SlotPart, SlotValue};

/// A part of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// An argument.
    Published(Slot),
    /// An argument of the program that runs the package.
    Runtime(Slot),
    /// `-e NAME` for each environment variable that has a value, except these.
    VariableNames { except: Vec<String> },
}

/// A command line.
#[derive(Debug)]
pub(super) struct CommandLine {
    pub(super) command: String,
    pub(super) words: Vec<Word>,
    pub(super) warnings: Vec<String>,
}

/// How often the option that answers the runtime's own question is kept.
const YES: [&str; 2] = ["-y", "--yes"];
/// Arguments of `docker` for a terminal, which the protocol cannot use.
const TERMINAL: [&str; 5] = ["-t", "--tty", "-it", "-ti", "--tty=true"];

/// The command line of a package.
pub(super) fn arrange(package: &Package, runtime: Vec<Slot>, arguments: Vec<Slot>) -> CommandLine {
    let pinned = package.pinned();
    let mut warnings = Vec::new();
    let published = |word: &str| Word::Published(Slot::word(word));
    let mut words: Vec<Word> = Vec::new();
    let command = match package.package_type {
        PackageType::Npm => {
            let RuntimeArguments { slots, names_package } = without_repeats(package, runtime);
            if !slots.iter().any(|it| it.fixed_word().is_some_and(|word| YES.contains(&word))) {
                words.push(published("-y"));
            }
            words.extend(slots.into_iter().map(Word::Runtime));
            words.extend((!names_package).then(|| published(&pinned)));
            "npx".to_owned()
        }
        PackageType::Pypi => {
            let RuntimeArguments { slots, names_package } = without_repeats(package, runtime);
            words.extend(slots.into_iter().map(Word::Runtime));
            words.extend((!names_package).then(|| published(&pinned)));
            "uvx".to_owned()
        }
        PackageType::Oci => {
            words.extend(["run", "-i", "--rm"].map(published));
            let RuntimeArguments { slots, .. } = without_repeats(package, runtime);
            let except = passed_variables(&slots);
            words.extend(slots.into_iter().map(Word::Runtime));
            words.push(Word::VariableNames { except });
            words.push(published(&pinned));
            "docker".to_owned()
        }
        PackageType::Nuget => {
            let RuntimeArguments { slots, .. } = without_repeats(package, runtime);
            words.extend([pinned.as_str(), "--yes"].map(published));
            words.extend(slots.into_iter().map(Word::Runtime));
            "dnx".to_owned()
        }
        PackageType::Cargo => {
            if !runtime.is_empty() {
                warnings.push("its runtime arguments are not used".to_owned());
            }
            format!("~/.cargo/bin/{}", package.identifier)
        }
        // Its entry is made from the manifest of the bundle.
        PackageType::Mcpb => String::new(),
    };
    words.extend(arguments.into_iter().map(Word::Published));
    CommandLine { command, words, warnings }
}

/// Arguments of a runtime without repeats.
struct RuntimeArguments {
    slots: Vec<Slot>,
    /// Whether they name the package themselves, as the value of an option.
    names_package: bool,
}

fn without_repeats(package: &Package, runtime: Vec<Slot>) -> RuntimeArguments {
    let options = package_options(package.package_type);
    let mut slots: Vec<Slot> = Vec::new();
    let mut names_package = false;
    for mut slot in runtime {
        let has_package_option = slot.flag.as_deref().is_some_and(|it| options.contains(&it));
        let follows_option = slot.flag.is_none()
            && slots.last().and_then(Slot::fixed_word).is_some_and(|it| options.contains(&it));
        let value = slot.fixed_value().unwrap_or_default();
        if (has_package_option || follows_option) && is_same_package(value, package) {
            slot.value = SlotValue::Parts(vec![SlotPart::Text(package.pinned())]);
            names_package = true;
        } else if let Some(option) = joined_option(&slot, options, package) {
            slot = Slot::word(&format!("{option}={}", package.pinned()));
            names_package = true;
        } else if is_repeat(&slot, &slots, package) {
            continue;
        }
        slots.push(slot);
    }
    RuntimeArguments { slots, names_package }
}

/// Is it there anyway?
fn is_repeat(slot: &Slot, before: &[Slot], package: &Package) -> bool {
    let flag = slot.flag.as_deref();
    let Some(word) = slot.fixed_word().or(flag) else { return false };
    let is_earlier = || before.iter().any(|it| it.fixed_word().is_some_and(|it| YES.contains(&it)));
    if flag.is_none() && is_same_package(word, package) {
        return true;
    }
    match package.package_type {
        PackageType::Npm => word == "npx" || (YES.contains(&word) && is_earlier()),
        PackageType::Pypi => word == "uvx",
        PackageType::Oci => {
            // An interactive terminal would change what the server reads and writes.
            ["docker", "run", "-i", "--interactive", "--rm"].contains(&word)
                || TERMINAL.contains(&word)
        }
        PackageType::Nuget => word == "dnx" || YES.contains(&word),
        PackageType::Cargo | PackageType::Mcpb => false,
    }
}

/// The options of a runtime whose value is the package.
fn package_options(of: PackageType) -> &'static [&'static str] {
    match of {
        PackageType::Npm => &["-p", "--package"],
        PackageType::Pypi => &["--from"],
        PackageType::Oci | PackageType::Nuget | PackageType::Cargo | PackageType::Mcpb => &[],
    }
}

/// The option of `--option=package`.
fn joined_option<'o>(slot: &Slot, options: &[&'o str], package: &Package) -> Option<&'o str> {
    let (option, value) = slot.fixed_word()?.split_once('=')?;
    let option = options.iter().find(|it| **it == option)?;
    is_same_package(value, package).then_some(option)
}

/// Does a word name the package, with whatever version?
pub(super) fn is_same_package(word: &str, package: &Package) -> bool {
    let Some(rest) = word.strip_prefix(package.identifier.as_str()) else { return false };
    let is_separator = |c: char| match package.package_type {
        PackageType::Npm | PackageType::Nuget => c == '@',
        PackageType::Pypi => "@=<>~![".contains(c),
        PackageType::Oci => c == ':' || c == '@',
        PackageType::Cargo | PackageType::Mcpb => false,
    };
    rest.is_empty() || rest.starts_with(is_separator) || word == package.pinned()
}

/// The environment variables that the runtime's arguments pass themselves: `-e NAME`, `--env NAME=value`.
fn passed_variables(slots: &[Slot]) -> Vec<String> {
    let options = ["-e", "--env"];
    let mut names = Vec::new();
    for (index, slot) in slots.iter().enumerate() {
        let follows = index
            .checked_sub(1)
            .and_then(|before| slots[before].fixed_word())
            .is_some_and(|it| slot.flag.is_none() && options.contains(&it));
        if follows || slot.flag.as_deref().is_some_and(|it| options.contains(&it)) {
            let text = slot.leading_text().unwrap_or_default();
            names.push(text.split('=').next().unwrap_or(text).to_owned());
        }
    }
    names
}
