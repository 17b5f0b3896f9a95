//! Tabs, navigation and dialogs.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use switchboard_builtin::kit::elicitation::{Elicitation, ElicitationResult, FormField};
use switchboard_builtin::kit::{HandlerError, Tool};
use url::Url;

use crate::actions::navigation::Destination;
use crate::actions::page::Page;
use crate::browser::router::Ownership;
use crate::error::{BrowserError, Result};
use crate::page::tab::TabHealth;
use crate::reach::guard::{ReachError, ReachGuard};
use crate::shown_text::{cut, quoted, shown};
use crate::tools::registry::{Answer, CallScope, Questions, Registry};

/// How long a page may take unless the call says otherwise, and at most.
const NAVIGATION_SECONDS: f64 = 30.0;
const MAX_SECONDS: f64 = 120.0;
/// How long a page may take to tell its title.
const TITLE_LIMIT: Duration = Duration::from_millis(500);

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TabAction {
    List,
    New,
    Select,
    Close,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TabsArguments {
    action: TabAction,
    tab: Option<u32>,
    /// For new.
    url: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Direction {
    Back,
    Forward,
    Reload,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NavigateArguments {
    url: Option<String>,
    /// Instead of url.
    go: Option<Direction>,
    tab: Option<u32>,
    /// Seconds; 30 by default.
    timeout: Option<f64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DialogArguments {
    accept: bool,
    /// For prompt dialogs.
    text: Option<String>,
    tab: Option<u32>,
}

/// Adds the tools.
pub(super) fn add(registry: &mut Registry) {
    registry.add(
        "tabs",
        "Lists, opens, selects or closes tabs. Other tools use the selected tab unless `tab` is given.",
        |it| it.non_destructive().open_world(),
        tabs,
    );
    registry.add(
        "navigate",
        "Opens a URL, or goes back, forward or reloads. Returns URL, title and status, no content.",
        |it| it.non_destructive().open_world(),
        navigate,
    );
    registry.add(
        "handle_dialog",
        "Answers an open confirm or prompt dialog.",
        Tool::destructive,
        handle_dialog,
    );
}

async fn tabs(scope: CallScope, it: TabsArguments) -> std::result::Result<Answer, HandlerError> {
    let session = &scope.session;
    let needed = || {
        let expected = "given: the number of a tab".to_owned();
        BrowserError::Argument { name: "tab", expected }
    };
    match it.action {
        TabAction::List => {
            let visit = session.visit().await?;
            if visit.browser.ownership == Ownership::Foreign {
                find_foreign(&visit.browser, &visit.context).await?;
            }
            refresh_titles(&visit).await;
            Ok(list(&visit.context).into())
        }
        TabAction::New => {
            let url = match &it.url {
                Some(url) => Some(permitted_url(&scope, url).await?),
                None => None,
            };
            let visit = session.visit().await?;
            let tab = visit.browser.open_tab(&visit.context).await?;
            let page = Page::new(&visit.browser, &visit.context, tab)?;
            let text = match url {
                Some(url) => page.go(&Destination::Url(url), seconds(None)?).await?,
                None => format!("tab {tab}: about:blank"),
            };
            Ok(text.into())
        }
        TabAction::Select => {
            let number = it.tab.ok_or_else(needed)?;
            let page = session.page(Some(number)).await?;
            page.context.lock().selected = Some(page.tab);
            page.browser.cdp.post(None, "Target.activateTarget", json!({"targetId": page.target}));
            Ok(format!("selected {}", line(&page.context, page.tab)).into())
        }
        TabAction::Close => {
            let page = session.page(Some(it.tab.ok_or_else(needed)?)).await?;
            let params = json!({"targetId": page.target});
            page.browser
                .cdp
                .call(None, "Target.closeTarget", params)
                .await
                .map_err(BrowserError::from)?;
            let closed = page.context.wait(Duration::from_secs(5), |state| {
                (!state.tabs.contains_key(&page.tab)).then_some(())
            });
            closed.await.ok_or(BrowserError::Busy(5.0))?;
            Ok(format!("closed tab {}; open tabs: {}", page.tab, page.context.lock().tab_list())
                .into())
        }
    }
}

/// Finds the pages of a browser that is not ours, without connecting to them.
async fn find_foreign(
    browser: &crate::browser::running::RunningBrowser,
    context: &crate::browser::context::BrowserContext,
) -> Result<()> {
    #[derive(Deserialize)]
    struct Targets {
        #[serde(rename = "targetInfos")]
        list: Vec<Target>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Target {
        target_id: String,
        #[serde(rename = "type")]
        kind: String,
        url: String,
    }
    let targets: Targets = browser.cdp.get(None, "Target.getTargets", json!({})).await?;
    let mut state = context.lock();
    let pages = targets
        .list
        .into_iter()
        .filter(|it| it.kind == "page" && (it.url.starts_with("http") || it.url == "about:blank"));
    for target in pages.take(100) {
        let is_known = state.tab_of_target(&target.target_id).is_some()
            || state.known_targets.iter().any(|it| it.1 == target.target_id);
        if !is_known {
            let number = state.new_tab_number();
            state.known_targets.push((number, target.target_id));
        }
    }
    Ok(())
}

/// Asks all pages for their titles, which the browser tells only later. Pages that are busy keep the old ones.
async fn refresh_titles(visit: &crate::session::Visit) {
    let numbers: Vec<u32> = visit.context.lock().tabs.keys().copied().collect();
    let pages =
        numbers.into_iter().filter_map(|it| Page::new(&visit.browser, &visit.context, it).ok());
    let pages: Vec<Page> = pages.filter(|it| it.check_usable().is_ok()).collect();
    let asking = pages.iter().map(|it| it.refresh_title(TITLE_LIMIT));
    futures_util::future::join_all(asking).await;
}

fn list(context: &crate::browser::context::BrowserContext) -> String {
    let (numbers, foreign) = {
        let state = context.lock();
        let numbers: Vec<u32> = state.tabs.keys().copied().collect();
        let foreign: Vec<String> = state.known_targets.iter().map(|it| it.0.to_string()).collect();
        (numbers, foreign)
    };
    let mut lines: Vec<String> = numbers.into_iter().map(|it| line(context, it)).collect();
    if !foreign.is_empty() {
        lines.push(format!("open in the user's browser, not used yet: {}", foreign.join(", ")));
    }
    if lines.is_empty() {
        lines.push("no tabs; navigate opens one".to_owned());
    }
    lines.join("\n")
}

/// One line about a tab.
fn line(context: &crate::browser::context::BrowserContext, number: u32) -> String {
    let state = context.lock();
    let selected = if state.selected == Some(number) { " [selected]" } else { "" };
    let Some(tab) = state.tabs.get(&number) else { return format!("tab {number}") };
    let crashed = if tab.health == TabHealth::Crashed { " [crashed]" } else { "" };
    let dialog = tab.dialogs.open.as_ref().map(|it| format!(" [{} dialog open]", it.kind.id()));
    let opener = tab.opener.map(|it| format!(" [opened by tab {it}]")).unwrap_or_default();
    let url = if tab.url.is_empty() { "about:blank" } else { &tab.url };
    format!(
        "tab {number}: {} {}{selected}{crashed}{}{opener}",
        shown(url, 150),
        quoted(&tab.title, 80),
        dialog.unwrap_or_default()
    )
}

async fn navigate(
    scope: CallScope,
    it: NavigateArguments,
) -> std::result::Result<Answer, HandlerError> {
    let limit = seconds(it.timeout)?;
    let destination = match (it.url, it.go) {
        (Some(url), None) => Destination::Url(permitted_url(&scope, &url).await?),
        (None, Some(Direction::Back)) => Destination::Back,
        (None, Some(Direction::Forward)) => Destination::Forward,
        (None, Some(Direction::Reload)) => Destination::Reload,
        (Some(_), Some(_)) | (None, None) => {
            let expected = "given, or `go`, but not both".to_owned();
            return Err(BrowserError::Argument { name: "url", expected }.into());
        }
    };
    let turn = scope.session.turn(it.tab).await?;
    if let Some(dialog) = turn.page.dialog() {
        return Err(turn.page.dialog_error(&dialog).into());
    }
    let text = turn.page.go(&destination, limit).await?;
    Ok(text.into())
}

/// A time limit from seconds.
fn seconds(given: Option<f64>) -> Result<Duration> {
    let seconds = given.unwrap_or(NAVIGATION_SECONDS);
    match (0.1..=MAX_SECONDS).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => {
            let expected = format!("from 0.1 to {MAX_SECONDS} seconds");
            Err(BrowserError::Argument { name: "timeout", expected })
        }
    }
}

/// A URL that may be opened. The user is asked about an origin outside the allowed ones.
async fn permitted_url(scope: &CallScope, text: &str) -> std::result::Result<Url, HandlerError> {
    let guard = &scope.session.guard;
    let url = ReachGuard::parse_url(text).map_err(BrowserError::from)?;
    match guard.check_url(&url) {
        Ok(()) => return Ok(url),
        Err(ReachError::NotAllowed { .. }) => {}
        Err(error) => return Err(BrowserError::from(error).into()),
    }
    let origin = url.origin().ascii_serialization();
    let Questions::User(context) = &scope.asking else {
        let text = format!(
            "{origin} is outside the allowed origins; call navigate by itself, so that the user can be asked"
        );
        return Err(HandlerError::failed(text));
    };
    const FIELD: &str = "allow";
    let question = format!(
        "The model wants to open {}, which is outside the origins that you allowed for the browser.",
        cut(&shown(url.as_str(), 300), 300)
    );
    let field = FormField::boolean(FIELD, "Allow this origin for the session").with_default(false);
    match context.elicit(&Elicitation::form(&question, vec![field])).await? {
        ElicitationResult::Accepted(content) if content.get(FIELD) == Some(&json!(true)) => {
            guard.grant(&url);
            Ok(url)
        }
        ElicitationResult::Accepted(_) | ElicitationResult::Declined => {
            Err(BrowserError::Declined(
                "the origin is outside the allowed ones; do not ask again for it",
            )
            .into())
        }
        ElicitationResult::Cancelled => {
            Err(BrowserError::Declined("the question was dismissed").into())
        }
    }
}

async fn handle_dialog(
    scope: CallScope,
    it: DialogArguments,
) -> std::result::Result<Answer, HandlerError> {
    let page = scope.session.page(it.tab).await?;
    let dialog = page.dialog().ok_or(BrowserError::NoDialog(page.tab))?;
    let mark = page.mark()?;
    let mut params = json!({"accept": it.accept});
    if let Some(text) = it.text.or_else(|| it.accept.then(|| dialog.default.clone())) {
        params["promptText"] = json!(text);
    }
    let answered = page.call("Page.handleJavaScriptDialog", params).await;
    if answered.is_err() {
        return Err(BrowserError::NoDialog(page.tab).into());
    }
    let _gone = page.with(|tab| tab.dialogs.open.take_if(|it| it.number == dialog.number));
    page.settle(&mark).await;
    let word = if it.accept { "accepted" } else { "dismissed" };
    let done = format!("{word} the {}: {}", dialog.kind.id(), quoted(&dialog.message, 100));
    Ok(page.report(&done, &mark).into())
}
