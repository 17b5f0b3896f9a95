//! Which of a server's packages and remotes is added.

use switchboard::config::display::sanitize_line;
use switchboard::config::registry::{
    InstallOption, PackageType, RegistryServer, RemoteType, Unusable,
};

use super::ask::{AskMode, ask_line};
use crate::exit::Exit;
use crate::outcome::Failure;
use crate::output::registry_text::option_text;

/// What the command line says about the option.
#[derive(Debug, Clone)]
pub(super) enum OptionFilter {
    /// Any.
    Any,
    /// A package of this type.
    Package(PackageType),
    /// A remote of this type, or of any.
    Remote(Option<RemoteType>),
}

impl OptionFilter {
    fn accepts(&self, option: InstallOption<'_>) -> bool {
        match (self, option) {
            (OptionFilter::Any, _) | (OptionFilter::Remote(None), InstallOption::Remote(_)) => true,
            (OptionFilter::Package(wanted), InstallOption::Package(it)) => {
                it.package_type == *wanted
            }
            (OptionFilter::Remote(Some(wanted)), InstallOption::Remote(it)) => {
                it.remote_type == *wanted
            }
            (OptionFilter::Package(_), InstallOption::Remote(_))
            | (OptionFilter::Remote(_), InstallOption::Package(_)) => false,
        }
    }
}

/// The option to add: the only one, or the one that the user chooses.
pub(super) fn choose<'s>(
    server: &'s RegistryServer,
    filter: &OptionFilter,
    mode: AskMode,
) -> Result<InstallOption<'s>, Failure> {
    let all = server.install_options();
    let matching: Vec<_> = all.iter().copied().filter(|it| filter.accepts(*it)).collect();
    let usable: Vec<_> = matching.iter().copied().filter(|it| it.check().is_ok()).collect();
    match (&usable[..], mode) {
        ([only], _) => Ok(*only),
        ([], _) => Err(nothing_usable(server, &all, &matching)),
        ([first, rest @ ..], _) if rest.iter().all(|it| it == first) => Ok(*first),
        (_, AskMode::Terminal) => ask(&usable),
        (_, AskMode::Never) => {
            let message = format!("`{}` can be added in several ways", server.name);
            let ways: Vec<String> = usable.iter().map(|it| flag(*it)).collect();
            Err(Failure::new(Exit::Usage, &message)
                .detail(option_lines(&usable))
                .hint(&format!("choose one: {}", ways.join(" or "))))
        }
    }
}

fn flag(option: InstallOption<'_>) -> String {
    match option {
        InstallOption::Package(_) => format!("--package {}", option.label()),
        InstallOption::Remote(_) => format!("--remote={}", option.label()),
    }
}

fn option_lines(options: &[InstallOption<'_>]) -> String {
    let lines = options.iter().enumerate();
    lines.map(|(index, it)| format!("  {}  {}\n", index + 1, option_text(*it))).collect()
}

fn ask<'s>(usable: &[InstallOption<'s>]) -> Result<InstallOption<'s>, Failure> {
    let question = format!("It can be added in several ways:\n{}Which one? ", option_lines(usable));
    let line = ask_line(&question)?;
    let chosen = line.trim().parse::<usize>().ok().and_then(|it| usable.get(it.checked_sub(1)?));
    chosen.copied().ok_or_else(|| {
        Failure::new(Exit::Usage, "nothing was written: that is none of the numbers")
    })
}

fn nothing_usable(
    server: &RegistryServer,
    all: &[InstallOption<'_>],
    matching: &[InstallOption<'_>],
) -> Failure {
    if matching.is_empty() && !all.is_empty() {
        let message = format!("`{}` has no such package or remote", server.name);
        let ways: Vec<String> = all.iter().map(|it| flag(*it)).collect();
        return Failure::new(Exit::NotFound, &message).hint(&format!("it has {}", ways.join(", ")));
    }
    let message = format!("`{}` has no package or remote that can be added", server.name);
    let failure = Failure::new(Exit::Configuration, &message);
    let reasons = matching.iter().filter_map(|it| {
        let why = it.check().err()?;
        Some(format!("  {}: {}\n", option_text(*it), sanitize_line(&why.to_string())))
    });
    let problems = server.problems.iter().map(|it| format!("  {}\n", sanitize_line(it)));
    let detail: String = reasons.chain(problems).collect();
    let separate = matching.iter().find_map(|it| match (it, it.check()) {
        (InstallOption::Package(package), Err(Unusable::Transport { .. })) => {
            package.transport_url.clone()
        }
        (InstallOption::Package(_) | InstallOption::Remote(_), _) => None,
    });
    match separate {
        Some(url) => failure.detail(detail).hint(&format!(
            "start it as its documentation says, then: swb add NAME {}",
            sanitize_line(&url)
        )),
        None => failure.detail(detail).hint("look at its documentation, then: swb add --help"),
    }
}
