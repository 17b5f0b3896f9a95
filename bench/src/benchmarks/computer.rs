//! The computer server on a virtual screen: how long a picture and a click take, and whether what is typed arrives.

mod screen;
mod session;

use std::time::Duration;

use serde_json::json;
use tokio::runtime::Builder;

use crate::effort;
use crate::failure::Failure;
use crate::machine;
use crate::output::report::{Extent, Report};
use crate::output::table;
use crate::output::table::milliseconds;
use crate::workspace::Workspace;
use screen::VirtualScreen;
use session::ComputerSession;

const PICTURES: usize = 100;
const CLICKS: usize = 300;
const RUNS: usize = 50;
/// Thirty characters: letters, accents, other scripts, an emoji, signs.
const TEXT: &str = "Zoë 漢字 🦀 €µß ЖЩя λΩ ñ «x» ¿? œ";

const PICTURE_BUDGET: Duration = Duration::from_millis(60);
const CLICK_BUDGET: Duration = Duration::from_millis(10);

const PLAIN: &str = "a screenshot with a terminal and a GTK dialog";
const COLOURED: &str = "a screenshot of a terminal full of coloured characters";
const CLICK: &str = "a click";

/// The times of one kind of call.
struct Times {
    label: &'static str,
    times: Vec<Duration>,
}

/// What was typed into one kind of program.
struct Typing {
    label: &'static str,
    runs: usize,
    right: usize,
    times: Vec<Duration>,
}

/// Runs the benchmark.
pub fn run(workspace: &Workspace) -> Result<Report, Failure> {
    let runtime = Builder::new_multi_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::file(&workspace.report_path("computer.md"), error))?;
    let (times, typing) = runtime.block_on(async {
        let times = measure_times().await?;
        let typing = vec![type_into_terminal().await?, type_into_dialogs().await?];
        Ok::<_, Failure>((times, typing))
    })?;
    let budgets = budgets(&times, &typing);
    Ok(Report {
        name: "computer",
        text: page(&times, &typing, &budgets),
        pictures: Vec::new(),
        budgets,
        extent: Extent::Whole,
    })
}

async fn measure_times() -> Result<Vec<Times>, Failure> {
    eprintln!("measuring screenshots and clicks");
    let mut screen = VirtualScreen::start()?;
    let _typed = screen.terminal()?;
    let _dialog = screen.dialog()?;
    let session = ComputerSession::open(&screen.display).await?;
    for application in ["XTerm", "zenity", "desktop"] {
        session.grant(application).await?;
    }
    let plain = repeat(&session, (PLAIN, "screenshot"), json!({}), PICTURES).await?;
    let place = json!({"coordinate": [100, 120]});
    let click = repeat(&session, (CLICK, "left_click"), place, CLICKS).await?;
    screen.coloured_terminal()?;
    session.grant("Coloured").await?;
    let coloured = repeat(&session, (COLOURED, "screenshot"), json!({}), PICTURES).await?;
    session.close().await?;
    Ok(vec![plain, coloured, click])
}

async fn repeat(
    session: &ComputerSession,
    (label, tool): (&'static str, &str),
    arguments: serde_json::Value,
    count: usize,
) -> Result<Times, Failure> {
    let mut times = Vec::new();
    session.time(tool, arguments.clone()).await?;
    for _ in 0..effort::scaled(count) {
        times.push(session.time(tool, arguments.clone()).await?);
    }
    times.sort_unstable();
    Ok(Times { label, times })
}

async fn type_into_terminal() -> Result<Typing, Failure> {
    eprintln!("typing into a terminal");
    let mut screen = VirtualScreen::start()?;
    let typed = screen.terminal()?;
    let session = ComputerSession::open(&screen.display).await?;
    session.grant("XTerm").await?;
    session.focus("XTerm", &[]).await?;
    let mut typing = Typing::new("xterm");
    for _ in 0..typing.runs {
        let before = typed.read();
        typing.times.push(session.time("type", json!({"text": TEXT})).await?);
        let all = typed.wait_for(before.chars().count() + TEXT.chars().count());
        typing.right += usize::from(all.strip_prefix(&before) == Some(TEXT));
    }
    session.close().await?;
    Ok(typing)
}

async fn type_into_dialogs() -> Result<Typing, Failure> {
    eprintln!("typing into GTK dialogs");
    let screen = VirtualScreen::start()?;
    let session = ComputerSession::open(&screen.display).await?;
    let mut typing = Typing::new("GTK 3 (zenity), a new dialog for each run");
    let mut before = Vec::new();
    for _ in 0..typing.runs {
        let dialog = screen.dialog()?;
        session.grant("zenity").await?;
        before.push(session.focus("Zenity", &before).await?);
        typing.times.push(session.time("type", json!({"text": TEXT})).await?);
        session.expect("key", json!({"keys": "Return"})).await?;
        typing.right += usize::from(dialog.result()? == TEXT);
    }
    session.close().await?;
    Ok(typing)
}

impl Typing {
    fn new(label: &'static str) -> Typing {
        Typing { label, runs: effort::scaled(RUNS), right: 0, times: Vec::new() }
    }
}

/// The time that this share of the sorted times does not exceed.
fn quantile(times: &[Duration], percent: usize) -> Duration {
    let at = (times.len() * percent).div_ceil(100).saturating_sub(1);
    times.get(at).copied().unwrap_or_default()
}

fn budgets(times: &[Times], typing: &[Typing]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut row = |what: String, limit: String, measured: String, is_met: bool| {
        let verdict = if is_met { "met" } else { "**missed**" };
        rows.push(vec![what, limit, measured, verdict.to_owned()]);
    };
    for it in times {
        let limit = if it.label == CLICK { CLICK_BUDGET } else { PICTURE_BUDGET };
        let median = quantile(&it.times, 50);
        row(
            it.label.to_owned(),
            format!("≤ {} ms", milliseconds(limit)),
            format!("{} ms", milliseconds(median)),
            median <= limit,
        );
    }
    for it in typing {
        row(
            format!("30 Unicode characters into {}", it.label),
            format!("{0} of {0} right", it.runs),
            format!("{} of {}", it.right, it.runs),
            it.right == it.runs,
        );
    }
    rows
}

/// The folder of this program, which is named after the settings that it was built with.
fn build_folder() -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().and_then(|it| it.file_name());
    folder.map(|it| it.to_string_lossy().into_owned()).unwrap_or_default()
}

fn page(times: &[Times], typing: &[Typing], budgets: &[Vec<String>]) -> String {
    let mut text = format!(
        "# The computer server\n\nWritten by `cargo xtask bench computer`. Machine: {}. Built in the folder `{}`.\n\n\
         The server runs in this process, on a virtual screen (Xvfb) of 1280×800 with a window manager (openbox). A call is \
         measured from the client's request to its response; a screenshot contains reading the pixels, hiding what is not \
         granted, encoding as PNG or JPEG, and base64.\n\n## Budgets\n\n",
        machine::describe(),
        build_folder()
    );
    text.push_str(&table::markdown(&["budget", "limit", "measured", ""], &[3], budgets));
    text.push_str("\n## Pictures and clicks\n\nA click contains the check of the window under the pointer.\n\n");
    let rows: Vec<Vec<String>> = times
        .iter()
        .map(|it| {
            let quantiles = [50, 90, 99].map(|percent| milliseconds(quantile(&it.times, percent)));
            let label = vec![it.label.to_owned()];
            label.into_iter().chain(quantiles).chain([it.times.len().to_string()]).collect()
        })
        .collect();
    text.push_str(&table::markdown(
        &["call", "ms, median", "ms, 90 %", "ms, 99 %", "calls"],
        &[],
        &rows,
    ));
    text.push_str(&format!(
        "\n## Typing\n\nEach run types `{TEXT}`. A run is right if the program got exactly these characters. Between two \
         characters the server checks that the focus has not moved and that the user has not taken over.\n\n"
    ));
    let rows: Vec<Vec<String>> = typing
        .iter()
        .map(|it| {
            let mut times = it.times.clone();
            times.sort_unstable();
            vec![
                it.label.to_owned(),
                format!("{} of {}", it.right, it.runs),
                milliseconds(quantile(&times, 50)),
                milliseconds(quantile(&times, 99)),
            ]
        })
        .collect();
    text.push_str(&table::markdown(&["program", "right", "ms, median", "ms, 99 %"], &[], &rows));
    text
}
