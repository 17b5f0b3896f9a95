//! Steps around a login: the "needs login" cache, other running processes, and hints about missing scopes.

use std::time::Duration;

use switchboard::config::merge::ResolvedServer;
use switchboard::{Host, login};

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::output::report;
use crate::prompt::login_prompt::TerminalLoginPrompt;
use crate::runtime::control;

/// How long nothing is shown before the user is told what the login waits for.
const NOTE_DELAY: Duration = Duration::from_secs(2);

/// Removes the cached "needs login" state, so that the next connection asks the server again.
pub fn forget_auth_required(invocation: &Invocation, server: &ResolvedServer) {
    if let Some(fingerprint) = &server.fingerprint {
        login::forget_auth_required(&invocation.env.paths, &server.name, fingerprint);
    }
}

/// Tells other running processes to reconnect. Processes that cannot be reached notice the login later.
pub fn notify_running(invocation: &Invocation, name: &str) {
    let _they_find_out = control::reconnect(&invocation.env.paths.control_sockets(), name);
}

/// Waits, with a note if nothing was shown for a while: another process may be logging in.
pub async fn with_waiting_note<T>(
    waiting: impl Future<Output = T>,
    login_prompt: &TerminalLoginPrompt,
) -> T {
    tokio::pin!(waiting);
    tokio::select! {
        outcome = &mut waiting => return outcome,
        () = tokio::time::sleep(NOTE_DELAY) => {}
    }
    if !login_prompt.was_shown() {
        report::print_stderr(
            "Waiting for the authorization server, or for another program that is signing in.\n",
        );
    }
    waiting.await
}

/// Adds the login command to a failure that was caused by missing scopes.
pub async fn with_scope_hint(failure: Failure, host: &Host, tool: &str) -> Failure {
    let pool = host.pool();
    let Some(tool) = pool.find(tool).filter(|_| failure.exit == Exit::Connection) else {
        return failure;
    };
    match host.required_scopes(&tool.server).await {
        None => failure,
        Some(scopes) => {
            let hint = format!("`swb login {} --scopes {}`", tool.server, scopes.join(","));
            let causes = vec!["the login lacks scopes that the server requires".to_owned()];
            Failure { exit: Exit::LoginRequired, causes, ..failure }.hint(&hint)
        }
    }
}
