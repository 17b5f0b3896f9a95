//! `swb principals`: the clients of the running gateways, or of the audit log where none runs; revokes them.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use switchboard::audit::log;
use switchboard::audit::log::{AuditRecord, CallOutcome};
use switchboard::config::display::printable;
use switchboard_gateway::RevokedSubject;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::table;
use crate::output::table::{Cell, Truncate};
use crate::runtime::control::principals;
use crate::runtime::control::principals::RevocationChange;

/// Arguments of `swb principals`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct PrincipalsArgs {
    /// A change; without one, principals are listed.
    #[command(subcommand)]
    pub change: Option<PrincipalsChange>,
    /// Count the calls in the audit log instead of asking running gateways
    #[arg(long)]
    pub audit: bool,
}

/// A change of who may use the running gateways.
#[derive(Debug, Subcommand)]
pub enum PrincipalsChange {
    /// Refuse the requests of a principal at once, and end its sessions and streams. Tokens that an issuer issues later are
    /// accepted again
    Revoke(RevokeArgs),
    /// Accept a principal or a token again
    Restore(RevokeArgs),
}

/// Arguments of `swb principals revoke` and `restore`.
#[derive(Debug, Args)]
pub struct RevokeArgs {
    /// The principal, as `swb principals` lists it
    #[arg(required_unless_present = "token_id", conflicts_with = "token_id")]
    pub name: Option<String>,
    /// One access token of an issuer instead, by its id (the claim `jti`)
    #[arg(long, value_name = "ID")]
    pub token_id: Option<String>,
}

/// Runs the command.
pub fn run(arguments: &PrincipalsArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    match &arguments.change {
        Some(PrincipalsChange::Revoke(of)) => {
            return change(invocation, RevocationChange::Revoke, of);
        }
        Some(PrincipalsChange::Restore(of)) => {
            return change(invocation, RevocationChange::Restore, of);
        }
        None => {}
    }
    let gateways = match arguments.audit {
        true => Vec::new(),
        false => {
            let folder = invocation.env.paths.control_sockets();
            principals::of_running_gateways(&folder).map_err(|error| {
                Failure::new(Exit::Failure, "running gateways cannot be found").caused_by(error)
            })?
        }
    };
    if gateways.is_empty() {
        let principals = from_audit_log(invocation)?;
        let output = show(invocation, "audit", &principals);
        return Ok(match arguments.audit {
            true => output,
            false => output.note("note: no gateway runs; these are the callers in the audit log\n"),
        });
    }
    let is_one = gateways.len() == 1;
    let principals: Vec<Json> = gateways
        .into_iter()
        .flat_map(|(process, list)| list.into_iter().map(move |it| (process, it)))
        .map(|(process, mut it)| {
            if !is_one {
                it["process"] = process.into();
            }
            it
        })
        .collect();
    Ok(show(invocation, "gateway", &principals))
}

/// Changes what is revoked at all running gateways.
fn change(
    invocation: &Invocation,
    change: RevocationChange,
    of: &RevokeArgs,
) -> Result<CommandOutput, Failure> {
    let (subject, shown) = match (&of.name, &of.token_id) {
        (_, Some(id)) => {
            (RevokedSubject::Token(id.clone()), format!("the token `{}`", printable(id)))
        }
        (name, None) => {
            let name = name.clone().unwrap_or_default();
            let shown = format!("`{}`", printable(&name));
            (RevokedSubject::Principal(name), shown)
        }
    };
    let folder = invocation.env.paths.control_sockets();
    let outcomes = principals::change_revocation(&folder, change, &subject).map_err(|error| {
        Failure::new(Exit::Failure, "running gateways cannot be found").caused_by(error)
    })?;
    if outcomes.is_empty() {
        return Err(Failure::new(Exit::Failure, "no gateway runs")
            .hint("the command changes running gateways of this user: `swb serve --http …`"));
    }
    if let Some((process, error)) =
        outcomes.iter().find_map(|(process, it)| Some((process, it.error.as_ref()?)))
    {
        let message = format!("{shown}, gateway of process {process}: {}", printable(error));
        return Err(Failure::new(Exit::Failure, &message));
    }
    let is_changed = outcomes.iter().any(|(_, it)| it.is_changed);
    let is_shared = outcomes.iter().all(|(_, it)| it.is_shared);
    if invocation.wants_json() {
        let json = json!({"changed": is_changed, "shared": is_shared, "gateways": outcomes.len()});
        return Ok(json_output(&json));
    }
    let text = match (change, is_changed) {
        (RevocationChange::Revoke, _) => format!("Revoked {shown}.\n"),
        (RevocationChange::Restore, true) => format!("Restored {shown}.\n"),
        (RevocationChange::Restore, false) => format!("{shown} was not revoked.\n"),
    };
    let output = CommandOutput::text(text);
    Ok(match (change, is_shared) {
        (RevocationChange::Revoke, false) => output.note(
            "note: this lasts until the gateway stops; remove the client's token or certificate as well\n",
        ),
        (RevocationChange::Revoke, true) | (RevocationChange::Restore, _) => output,
    })
}

/// The callers in the audit log, the latest first.
fn from_audit_log(invocation: &Invocation) -> Result<Vec<Json>, Failure> {
    let records = log::read(&invocation.env.paths.audit()).map_err(|error| {
        Failure::new(Exit::Failure, "the audit log cannot be read").caused_by(error)
    })?;
    let mut callers: BTreeMap<String, Vec<AuditRecord>> = BTreeMap::new();
    for record in records {
        callers.entry(record.caller.clone()).or_default().push(record);
    }
    let mut all: Vec<Json> = callers
        .into_iter()
        .map(|(name, records)| {
            let count = |outcomes: &[CallOutcome]| {
                let is_one = |it: &&AuditRecord| outcomes.iter().any(|one| it.outcome == one.id());
                records.iter().filter(is_one).count()
            };
            let failed = [
                CallOutcome::ToolError,
                CallOutcome::Invalid,
                CallOutcome::Failed,
                CallOutcome::Timeout,
            ];
            json!({
                "name": name,
                "calls": records.len(),
                "denied": count(&[CallOutcome::Denied]),
                "failed": count(&failed),
                "lastSeen": records.iter().map(|it| &it.time).max(),
            })
        })
        .collect();
    let seen = |it: &Json| it["lastSeen"].as_str().unwrap_or_default().to_owned();
    all.sort_by_key(|it| std::cmp::Reverse(seen(it)));
    Ok(all)
}

fn show(invocation: &Invocation, source: &str, principals: &[Json]) -> CommandOutput {
    if invocation.wants_json() {
        return json_output(&json!({"source": source, "principals": principals}));
    }
    if principals.is_empty() {
        return CommandOutput::text("No principals.\n");
    }
    let has_processes = principals.iter().any(|it| it["process"].is_u64());
    let is_live = principals.iter().any(|it| it["running"].is_u64());
    let mut header = vec!["PRINCIPAL", "CALLS", "DENIED", "FAILED"];
    if is_live {
        header.push("RUNNING");
    }
    header.push("LAST SEEN");
    if is_live {
        header.push("QUOTAS");
    }
    if has_processes {
        header.push("PROCESS");
    }
    let number = |it: &Json, key: &str| Cell::plain(it[key].as_u64().unwrap_or(0).to_string());
    let rows: Vec<Vec<Cell>> = principals
        .iter()
        .map(|it| {
            let mut name = printable(it["name"].as_str().unwrap_or_default());
            if it["revoked"] == true {
                name.push_str(" (revoked)");
            }
            let mut row = vec![Cell::plain(name)];
            row.extend(["calls", "denied", "failed"].map(|key| number(it, key)));
            if is_live {
                row.push(number(it, "running"));
            }
            row.push(Cell::plain(printable(it["lastSeen"].as_str().unwrap_or("-"))));
            if is_live {
                row.push(Cell::plain(quotas_text(&it["quotas"])));
            }
            if has_processes {
                row.push(number(it, "process"));
            }
            row
        })
        .collect();
    let truncated: &[Truncate] = match is_live {
        true => &[Truncate::End(6), Truncate::End(0)],
        false => &[Truncate::End(0)],
    };
    CommandOutput::text(table::render(&header, &rows, invocation.env.terminal.width, truncated))
}

/// The quotas of a principal: what they count, how much is used, and the limit.
fn quotas_text(quotas: &Json) -> String {
    let one = |quota: &Json| {
        let units = [("perMinute", "/min"), ("perDay", "/day"), ("concurrent", " running")];
        let used = units.into_iter().filter_map(|(key, unit)| {
            let it = quota[key].as_object()?;
            Some(format!("{} of {}{unit}", it["used"], it["most"]))
        });
        let used: Vec<String> = used.collect();
        let subject = printable(quota["calls"].as_str().unwrap_or_default());
        format!("{subject}: {}", used.join(", "))
    };
    let all: Vec<String> = quotas.as_array().into_iter().flatten().map(one).collect();
    all.join("; ")
}
