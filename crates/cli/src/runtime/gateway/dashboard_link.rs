//! Opens a login link of the dashboard in the user's browser.

use switchboard_gateway::Dashboard;
use url::Url;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::output::report;
use crate::prompt::browser;
use crate::prompt::login_prompt::BrowserMode;

/// Whether a browser opens a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrowserLaunch {
    /// A browser was started.
    Started,
    /// The user has to open it.
    LeftToUser,
}

/// Opens a link in a browser, if that is wanted and possible.
pub fn open_link(invocation: &Invocation, link: &str, browser_mode: BrowserMode) -> BrowserLaunch {
    let preferred = invocation.env.variables.get("BROWSER").map(String::as_str);
    match (browser_mode, Url::parse(link)) {
        (BrowserMode::Open, Ok(url)) if browser::open(&url, preferred).is_ok() => {
            BrowserLaunch::Started
        }
        (BrowserMode::Open | BrowserMode::PrintUrl, _) => BrowserLaunch::LeftToUser,
    }
}

/// Prints the first login link of a dashboard, and opens it if that is wanted.
pub async fn announce(
    invocation: &Invocation,
    dashboard: &Dashboard,
    origin: &str,
    browser_mode: BrowserMode,
) -> Result<(), Failure> {
    dashboard.set_origin(origin);
    let link = dashboard.create_login_link().await;
    let link = link.ok_or_else(|| Failure::new(Exit::Failure, "the dashboard is shutting down"))?;
    report::print_stdout(&format!("dashboard {link}\n"));
    match open_link(invocation, &link, browser_mode) {
        BrowserLaunch::Started => {
            report::print_stderr("note: the dashboard was opened in your browser\n")
        }
        BrowserLaunch::LeftToUser => report::print_stderr(
            "note: open the link in a browser; it can be used once, within ten minutes; `swb ui` makes a new one\n",
        ),
    }
    Ok(())
}
