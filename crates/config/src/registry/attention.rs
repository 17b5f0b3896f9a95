//! What a user should look at before a published server is added: options that reach beyond the package, and URLs that
//! are not public or not encrypted.

use url::{Host, Url};

use super::package::Package;
use super::package_argv;
use super::package_type::PackageType;

/// Options of `docker` that open the container to this machine.
const CONTAINER_OPTIONS: &[&str] = &[
    "--privileged",
    "-v",
    "--volume",
    "--volumes-from",
    "--mount",
    "--network",
    "--net",
    "--pid",
    "--ipc",
    "--uts",
    "--userns",
    "--cap-add",
    "--device",
    "--security-opt",
    "--env-file",
    "--entrypoint",
    "-p",
    "--publish",
    "-P",
    "--add-host",
    "-u",
    "--user",
    "--group-add",
    "--cgroupns",
    "--gpus",
    "--runtime",
];
/// Options of `npx` that change what is run, or where it comes from.
const NPX_OPTIONS: &[&str] = &[
    "-p",
    "--package",
    "-c",
    "--call",
    "--registry",
    "--node-options",
    "--script-shell",
    "--userconfig",
    "--prefix",
];
/// Options of `uvx` that change what is run, or where it comes from.
const UVX_OPTIONS: &[&str] = &[
    "--from",
    "--with",
    "--with-editable",
    "--with-requirements",
    "--index",
    "--default-index",
    "-i",
    "--index-url",
    "--extra-index-url",
    "-f",
    "--find-links",
    "--python",
    "-p",
    "--env-file",
    "--overrides",
    "--config-file",
    "--directory",
    "--allow-insecure-host",
];
/// Options of `dnx` that change what is run, or where it comes from.
const DNX_OPTIONS: &[&str] =
    &["--source", "--add-source", "--configfile", "--framework", "--allow-roll-forward"];

/// What is known about the options of a program that runs packages.
struct RunnerOptions {
    program: &'static str,
    /// Options that matter.
    reaching: &'static [&'static str],
    /// What these do.
    meaning: &'static str,
    /// Options without a value that change nothing that matters.
    plain: &'static [&'static str],
    /// Options with a value that change nothing that matters.
    plain_with_value: &'static [&'static str],
    /// Whether a word that is no option, in front of the package, would be run in its place.
    takes_first_word: FirstWord,
}

/// What a program does with the first word that is no option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstWord {
    /// It runs it as a package.
    IsRun,
    /// The package stands before it.
    IsArgument,
}

impl RunnerOptions {
    /// The options of the program for this type of package; `None` if none is run.
    fn of(package_type: PackageType) -> Option<RunnerOptions> {
        Some(match package_type {
            PackageType::Npm => RunnerOptions {
                program: "npx",
                reaching: NPX_OPTIONS,
                meaning: "changes what npx runs, or where it comes from",
                plain: &["-y", "--yes", "-q", "--quiet", "-s", "--silent", "--prefer-offline"],
                plain_with_value: &[],
                takes_first_word: FirstWord::IsRun,
            },
            PackageType::Pypi => RunnerOptions {
                program: "uvx",
                reaching: UVX_OPTIONS,
                meaning: "changes what uvx runs, or where it comes from",
                plain: &["-q", "--quiet", "--no-progress", "--isolated", "--offline"],
                plain_with_value: &[],
                takes_first_word: FirstWord::IsRun,
            },
            PackageType::Oci => RunnerOptions {
                program: "docker",
                reaching: CONTAINER_OPTIONS,
                meaning: "opens the container to this machine",
                plain: &["-i", "--interactive", "--rm", "--init", "--read-only"],
                plain_with_value: &[
                    "-e",
                    "--env",
                    "--name",
                    "-l",
                    "--label",
                    "--platform",
                    "--pull",
                    "-m",
                    "--memory",
                    "--cpus",
                    "--pids-limit",
                    "--cap-drop",
                ],
                takes_first_word: FirstWord::IsRun,
            },
            PackageType::Nuget => RunnerOptions {
                program: "dnx",
                reaching: DNX_OPTIONS,
                meaning: "changes what dnx runs, or where it comes from",
                plain: &["-y", "--yes"],
                plain_with_value: &["-v", "--verbosity"],
                takes_first_word: FirstWord::IsArgument,
            },
            PackageType::Cargo => RunnerOptions {
                program: "cargo",
                reaching: &[],
                meaning: "",
                plain: &[],
                plain_with_value: &[],
                takes_first_word: FirstWord::IsArgument,
            },
            PackageType::Mcpb => return None,
        })
    }

    /// What a user should look at among the words between the program and the package. An option that is not known
    /// counts, because programs have many spellings: abbreviations, several letters in one word.
    fn word_warnings(&self, words: &[String], package: &Package) -> Vec<String> {
        let program = self.program;
        let mut warnings = Vec::new();
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            if !word.starts_with('-') {
                let is_package = package_argv::is_same_package(word, package);
                if self.takes_first_word == FirstWord::IsRun && !is_package {
                    warnings.push(format!(
                        "`{word}` stands in front of the package, so {program} may run it in its place"
                    ));
                }
                continue;
            }
            let (option, has_value) = match word.split_once(['=', ':']) {
                Some((option, _)) => (option, true),
                None => (word.as_str(), false),
            };
            if self.plain.contains(&option) {
                continue;
            }
            // The word after any other option may be its value.
            if !has_value {
                words.next_if(|it| !it.starts_with('-'));
            }
            if self.plain_with_value.contains(&option) {
                continue;
            }
            warnings.push(match self.reaching.contains(&option) {
                true => format!("`{option}` {}", self.meaning),
                false => {
                    format!("`{word}` is an unusual option of {program}: find out what it does")
                }
            });
        }
        let mut seen = std::collections::BTreeSet::new();
        warnings.retain(|it| seen.insert(it.clone()));
        warnings
    }
}

/// What a user should look at before this package is run with these words in front of it.
pub(super) fn runtime_warnings(package: &Package, words: &[String]) -> Vec<String> {
    let options = RunnerOptions::of(package.package_type);
    options.map(|it| it.word_warnings(words, package)).unwrap_or_default()
}

/// What a user should look at before this package is run, whatever its arguments are.
pub(super) fn package_warnings(package: &Package) -> Vec<String> {
    let Some(RunnerOptions { program, .. }) = RunnerOptions::of(package.package_type) else {
        return Vec::new();
    };
    let mut warnings = Vec::new();
    if let Some(hint) = package.runtime_hint.as_deref().filter(|it| *it != program) {
        warnings.push(format!("its publisher suggests to run it with `{hint}`, not `{program}`"));
    }
    if let Some(host) = package.foreign_registry() {
        warnings.push(format!(
            "its publisher publishes it at `{host}`, but {program} asks the package registry that it is configured for, \
             where another package may have this name"
        ));
    }
    warnings
}

pub(super) fn url_warnings(url: &str) -> Vec<String> {
    let Ok(url) = Url::parse(url) else { return Vec::new() };
    let is_private = match url.host() {
        Some(Host::Ipv4(address)) => {
            address.is_loopback()
                || address.is_private()
                || address.is_link_local()
                || address.is_unspecified()
        }
        Some(Host::Ipv6(address)) => {
            address.is_loopback()
                || address.is_unspecified()
                || address.is_unique_local()
                || address.is_unicast_link_local()
        }
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            !name.contains('.')
                || [".localhost", ".local", ".internal", ".lan"].iter().any(|it| name.ends_with(it))
        }
        None => false,
    };
    let mut warnings = Vec::new();
    if is_private {
        warnings.push("its URL leads to this machine or to a private network".to_owned());
    }
    if url.scheme() == "http" && !is_private {
        warnings.push("its URL is not encrypted".to_owned());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_are_private_or_not_encrypted_are_pointed_out() {
        for (url, expected) in [
            ("https://api.example/mcp", None),
            ("http://api.example/mcp", Some("not encrypted")),
            ("http://169.254.169.254/latest", Some("private network")),
            ("http://localhost:3000/mcp", Some("private network")),
            ("https://10.0.0.1/mcp", Some("private network")),
            ("https://[::1]/mcp", Some("private network")),
            ("https://db.internal/mcp", Some("private network")),
        ] {
            let warnings = url_warnings(url);
            match expected {
                None => assert!(warnings.is_empty(), "{url}: {warnings:?}"),
                Some(text) => assert!(warnings[0].contains(text), "{url}: {warnings:?}"),
            }
        }
    }
}
