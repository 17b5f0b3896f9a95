//! Tools that pass files in and out.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use switchboard_builtin::kit::{HandlerError, Tool};

use crate::actions::files::{creatable, described, readable, save};
use crate::error::{BrowserError, Result};
use crate::page::downloads::{Download, DownloadState};
use crate::settings::BrowserSource;
use crate::tools::registry::{Answer, CallScope, Registry};

/// How long a download is waited for.
const DOWNLOAD_SECONDS: f64 = 30.0;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UploadArguments {
    paths: Vec<String>,
    /// The file field; otherwise the file chooser that is open.
    #[serde(rename = "ref")]
    reference: Option<String>,
    tab: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum DownloadAction {
    List,
    Wait,
    Save,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DownloadsArguments {
    action: DownloadAction,
    id: Option<u32>,
    /// For save: a new file.
    path: Option<String>,
    /// For wait.
    seconds: Option<f64>,
}

/// Adds the tools.
pub(super) fn add(registry: &mut Registry) {
    registry.add(
        "upload",
        "Gives files of the user's folders to a page. Needs the user's permission.",
        |it| it.destructive().open_world(),
        upload,
    );
    registry.add(
        "downloads",
        "Lists downloads, waits until they are complete, or saves one (needs the user's permission).",
        Tool::non_destructive,
        downloads,
    );
}

async fn upload(
    scope: CallScope,
    it: UploadArguments,
) -> std::result::Result<Answer, HandlerError> {
    let folders = (scope.session.settings.folders)();
    let files: Vec<PathBuf> =
        it.paths.iter().map(|path| readable(path, &folders)).collect::<Result<_>>()?;
    let turn = scope.session.turn(it.tab).await?;
    let page = &turn.page;
    page.check_usable()?;
    let mark = page.mark()?;
    let element = it.reference.as_deref().map(|it| page.element(it)).transpose()?;
    let done = page.upload(element.as_ref(), &files).await?;
    page.settle(&mark).await;
    Ok(page.report(&done, &mark).into())
}

async fn downloads(
    scope: CallScope,
    it: DownloadsArguments,
) -> std::result::Result<Answer, HandlerError> {
    let session = &scope.session;
    let visit = session.visit().await?;
    let context = &visit.context;
    match it.action {
        DownloadAction::List => {}
        DownloadAction::Wait => {
            let seconds = it.seconds.unwrap_or(DOWNLOAD_SECONDS).clamp(0.1, 120.0);
            let is_done = |state: &mut crate::browser::context::ContextState| {
                let of_id = state
                    .downloads
                    .list
                    .iter()
                    .filter(|download| it.id.is_none_or(|id| id == download.number));
                let states: Vec<DownloadState> = of_id.map(|download| download.state).collect();
                let has_open = states.contains(&DownloadState::InProgress);
                (!states.is_empty() && !has_open).then_some(())
            };
            context.wait(Duration::from_secs_f64(seconds), is_done).await;
        }
        DownloadAction::Save => {
            let id = it.id.ok_or_else(|| {
                let expected = "given: the number of a download".to_owned();
                BrowserError::Argument { name: "id", expected }
            })?;
            let found = context.lock().downloads.list.iter().find(|it| it.number == id).cloned();
            let download = found.ok_or(BrowserError::NoDownload(id))?;
            let saved = save_download(&scope, &download, it.path).await?;
            let text = format!("saved {} bytes as {}", saved.1, saved.0.display());
            let mut state = context.lock();
            if let Some(download) = state.downloads.list.iter_mut().find(|it| it.number == id) {
                download.saved_as = Some(saved.0);
            }
            return Ok(text.into());
        }
    }
    let state = context.lock();
    let mut lines: Vec<String> = state.downloads.list.iter().map(described).collect();
    if state.downloads.refused() > 0 {
        lines.push(format!("{} more were refused", state.downloads.refused()));
    }
    if lines.is_empty() {
        lines.push("no downloads".to_owned());
    }
    drop(state);
    Ok(lines.join("\n").into())
}

async fn save_download(
    scope: &CallScope,
    download: &Download,
    path: Option<String>,
) -> Result<(PathBuf, u64)> {
    if download.state != DownloadState::Completed {
        let reason = format!("the download is {}; use action=wait", download.state.id());
        return Err(BrowserError::File { path: download.suggested_name.clone().into(), reason });
    }
    let (session, download) = (scope.session.clone(), download.clone());
    let work = move || {
        let folders = (session.settings.folders)();
        let path = path.unwrap_or_else(|| download.suggested_name.clone());
        let to = creatable(&path, &folders)?;
        let gone = || BrowserError::File {
            path: download.suggested_name.clone().into(),
            reason: match session.settings.source {
                BrowserSource::Endpoint(_) => {
                    "it is where the user's browser keeps its downloads".to_owned()
                }
                BrowserSource::Own { .. } => "the file is gone".to_owned(),
            },
        };
        let from = session.download_path(&download.guid).ok_or_else(gone)?;
        let bytes = save(&from, &to)?;
        Ok((to, bytes))
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(saved) => saved,
        Err(_) => Err(BrowserError::Load("saving failed unexpectedly".to_owned())),
    }
}
