//! `swb audit verify` and `swb audit key`: the chain of the audit log and the key of its signatures.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use switchboard::audit::log::{AuditChain, AuditOptions};
use switchboard::audit::verify::{
    ChainExpectation, ChainKey, ChainPublicKey, ChainReport, default_key_path, verify,
};
use switchboard::config::display::printable;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;

/// Arguments of `swb audit verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The log to check [default: that of this user]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The public key of the signatures, as `swb audit key` prints it [default: that of the key of this user, if the
    /// chain is signed]
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// A record that must be in the log, as noted before or elsewhere: its number and its digest
    #[arg(long, value_name = "NUMBER:DIGEST")]
    pub anchor: Option<String>,
}

/// Checks the log.
pub(super) fn run(
    arguments: &VerifyArgs,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    let own = invocation.env.paths.audit();
    let log = match &arguments.file {
        Some(path) => invocation.env.working_folder.join(path),
        None => own.clone(),
    };
    let key = match &arguments.key {
        Some(text) => Some(ChainPublicKey::parse(text).ok_or_else(|| {
            Failure::new(Exit::Usage, "--key is not a key as `swb audit key` prints it")
        })?),
        None if log == own => own_key(invocation)?,
        None => None,
    };
    let anchor = arguments.anchor.as_deref().map(parse_anchor).transpose()?;
    let is_signed = key.is_some();
    let report = verify(&log, &ChainExpectation { key, anchor }).map_err(|error| {
        Failure::new(Exit::Failure, "the audit log cannot be read").caused_by(error)
    })?;
    let output = output(invocation, &log, &report, is_signed);
    match report.problems.len() {
        0 => Ok(output),
        count => {
            let message = match count {
                1 => "the audit log has a problem".to_owned(),
                count => format!("the audit log has {count} problems"),
            };
            let failure = Failure::new(Exit::Failure, &message);
            Ok(output.failed(failure))
        }
    }
}

/// Prints the public key.
pub(super) fn print_key(invocation: &Invocation) -> Result<CommandOutput, Failure> {
    match own_key(invocation)? {
        Some(key) if invocation.wants_json() => Ok(json_output(&json!({"key": key.to_text()}))),
        Some(key) => Ok(CommandOutput::text(format!("{}\n", key.to_text()))),
        None => {
            let message = "the audit log is not signed, or has no record yet";
            Err(Failure::new(Exit::Configuration, message)
                .hint("set `audit.chain` to `signed` in the settings"))
        }
    }
}

/// The public key of this user's log; `None` if its chain is not signed, or there is no record.
fn own_key(invocation: &Invocation) -> Result<Option<ChainPublicKey>, Failure> {
    let options = AuditOptions::from(&invocation.load()?.audit);
    let path = options.key_file.unwrap_or_else(|| default_key_path(&invocation.env.paths.audit()));
    // A chain that was signed stays so, even if it is not continued.
    if options.chain != AuditChain::Signed && !path.exists() {
        return Ok(None);
    }
    let opened = match (path.exists(), invocation.env.paths.audit().exists()) {
        (true, _) => ChainKey::open(&path),
        // A key of its own, with which none of the signatures can be verified.
        (false, true) => ChainKey::open_or_create(&path),
        // Nothing was recorded yet.
        (false, false) => return Ok(None),
    };
    opened.map(|it| Some(it.public())).map_err(|error| {
        let message = format!("the key `{}` cannot be used", invocation.display_path(&path));
        Failure::new(Exit::Configuration, &message).caused_by(error)
    })
}

fn parse_anchor(text: &str) -> Result<(u64, String), Failure> {
    let parsed = text.split_once(':').and_then(|(number, digest)| {
        let is_digest = digest.len() == 64 && digest.bytes().all(|it| it.is_ascii_hexdigit());
        is_digest.then_some((number.parse().ok()?, digest.to_ascii_lowercase()))
    });
    parsed.ok_or_else(|| {
        let message =
            "--anchor is not a number and a digest of 64 hexadecimal digits, with a colon";
        Failure::new(Exit::Usage, message)
    })
}

fn output(
    invocation: &Invocation,
    log: &Path,
    report: &ChainReport,
    is_signed: bool,
) -> CommandOutput {
    let last = report.last.as_ref();
    if invocation.wants_json() {
        let problems: Vec<_> = report
            .problems
            .iter()
            .map(|it| {
                json!({
                    "file": it.file, "line": it.line, "kind": it.kind.id(),
                    "message": it.kind.to_string(),
                })
            })
            .collect();
        return json_output(&json!({
            "records": report.records,
            "unlinkedBefore": report.unlinked_before,
            "tornLines": report.torn_lines,
            "signatures": is_signed,
            "last": last.map(|it| json!({"number": it.0, "digest": it.1})),
            "problems": problems,
        }));
    }
    let mut text = String::new();
    for problem in &report.problems {
        let file = printable(&invocation.display_path(&problem.file));
        let line = if problem.line > 0 { format!(":{}", problem.line) } else { String::new() };
        text.push_str(&format!("{file}{line}: {}\n", problem.kind));
    }
    if report.records == 0 && report.problems.is_empty() {
        let file = invocation.display_path(log);
        text.push_str(&format!("{file} has no chain; `audit.chain` in the settings begins one\n"));
        return CommandOutput::text(text);
    }
    let signatures = if is_signed { "with signatures" } else { "without signatures" };
    text.push_str(&format!("{} records in the chain, {signatures}", report.records));
    if report.unlinked_before > 0 {
        text.push_str(&format!("; {} before it began", report.unlinked_before));
    }
    if report.torn_lines > 0 {
        text.push_str(&format!("; {} torn lines of failed writes", report.torn_lines));
    }
    text.push('\n');
    if let Some((number, digest)) = last {
        text.push_str(&format!("last: {number}:{digest}\n"));
    }
    if report.problems.is_empty() {
        text.push_str("ok\n");
    }
    CommandOutput::text(text)
}
