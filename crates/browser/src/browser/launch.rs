//! Starts a browser of our own: its arguments, and the pipe to it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use switchboard_wire::process::{
    Process, ProcessOptions, ProcessSet, Program, Watchdog, WatchdogProgram, spawn_with_pipes,
};
use tempfile::TempDir;

use crate::browser::profile;
use crate::browser::profile::ProfileLock;
use crate::browser::program::{Window, find, in_path};
use crate::cdp::channel::{Channel, PipeChannel};
use crate::error::{BrowserError, Result};

/// Connects the descriptors that the browser uses, 3 and 4, to the standard streams that it is started with.
const PIPE_SCRIPT: &str = r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null"#;

/// What every browser is started with.
const ARGUMENTS: [&str; 28] = [
    "--remote-debugging-pipe",
    "--no-startup-window",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-extensions-with-background-pages",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-domain-reliability",
    "--disable-extensions",
    // Pages would come back with references that count as stale; the rest contacts services of the vendor.
    "--disable-features=BackForwardCache,AutofillServerCommunication,MediaRouter,OptimizationHints,Translate,\
     InterestFeedContentSuggestions,CertificateTransparencyComponentUpdater,HttpsUpgrades,PaintHolding",
    "--disable-hang-monitor",
    "--disable-popup-blocking",
    "--disable-prompt-on-repost",
    "--disable-renderer-backgrounding",
    "--disable-search-engine-choice-screen",
    "--disable-sync",
    "--force-color-profile=srgb",
    // Connections past the proxy.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--metrics-recording-only",
    "--mute-audio",
    "--password-store=basic",
];

/// How a browser of our own is started.
#[derive(Clone)]
pub(crate) struct LaunchOptions {
    pub(crate) window: Window,
    /// The name of a profile that stays.
    pub(crate) profile: Option<String>,
    /// The folder of the profiles.
    pub(crate) profiles: PathBuf,
    /// The program; otherwise one is looked for.
    pub(crate) program: Option<PathBuf>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) watchdog: Option<WatchdogProgram>,
    /// The proxy of the default context.
    pub(crate) proxy: Option<String>,
}

/// A browser of our own.
pub(crate) struct BrowserStart {
    pub(crate) channel: Channel,
    pub(crate) process: Process,
    pub(crate) profile: ProfileFolder,
}

/// The folder of a browser's profile, for as long as the browser runs.
#[expect(dead_code, reason = "the values are dropped, nothing reads them")]
pub(crate) enum ProfileFolder {
    /// It goes with the browser.
    Temporary(TempDir),
    /// It stays; nothing else may use it meanwhile.
    Named(ProfileLock),
    /// It belongs to a browser that was not started here.
    Foreign,
}

/// Whether the sandbox of the browser has to be off: it refuses to start as root with it.
pub(crate) fn runs_without_sandbox() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|it| it.uid() == 0)
}

/// The folders of programs.
pub(crate) fn search_path(environment: &[(String, String)]) -> Vec<PathBuf> {
    let path = environment.iter().find(|(name, _)| name == "PATH");
    path.map(|(_, value)| value.split(':').map(PathBuf::from).collect()).unwrap_or_default()
}

/// Starts a browser. Must be called inside a runtime.
pub(crate) fn launch(options: &LaunchOptions) -> Result<BrowserStart> {
    let search_path = search_path(&options.environment);
    let program = match &options.program {
        Some(program) => program.clone(),
        None => find(options.window, options.profile.is_some(), &search_path)
            .ok_or(BrowserError::NoProgram)?,
    };
    let has =
        |name: &str| options.environment.iter().any(|(it, value)| it == name && !value.is_empty());
    if options.window == Window::Windowed && !has("DISPLAY") && !has("WAYLAND_DISPLAY") {
        return Err(BrowserError::NoScreen);
    }
    let (folder, profile) = user_data(options)?;
    let shell = in_path("sh", &search_path).unwrap_or_else(|| PathBuf::from("/bin/sh"));
    let mut args: Vec<OsString> = vec!["-c".into(), PIPE_SCRIPT.into(), "sh".into()];
    args.push(program.into());
    args.extend(arguments(options, &folder));
    // The browser gets its proxy as an argument.
    let is_proxy = |name: &str| name.to_ascii_lowercase().ends_with("_proxy");
    let mut env: Vec<(OsString, OsString)> = options
        .environment
        .iter()
        .filter(|(name, _)| !is_proxy(name))
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    if !has("HOME") {
        env.push(("HOME".into(), folder.clone().into()));
    }
    let watchdog = options.watchdog.as_ref().and_then(|it| Watchdog::start(it).ok());
    let process_options =
        ProcessOptions { watchdog, process_set: ProcessSet::new(), ..ProcessOptions::default() };
    let program = Program { command: shell.into(), args, env, cwd: Some(folder) };
    let (input, output, process) = spawn_with_pipes(&program, &process_options)?;
    let channel = Channel::Pipe(Box::new(PipeChannel::new(input, output)));
    Ok(BrowserStart { channel, process, profile })
}

fn arguments(options: &LaunchOptions, folder: &Path) -> Vec<OsString> {
    let mut args: Vec<OsString> = ARGUMENTS.iter().map(Into::into).collect();
    match options.window {
        Window::Headless => {
            args.extend(["--headless=new", "--disable-gpu", "--hide-scrollbars"].map(Into::into));
        }
        Window::Windowed => args.push("--window-size=1280,900".into()),
    }
    if runs_without_sandbox() {
        args.push("--no-sandbox".into());
    }
    if let Some(proxy) = &options.proxy {
        args.push(format!("--proxy-server={proxy}").into());
        args.push("--proxy-bypass-list=<-loopback>".into());
    }
    let mut data = OsString::from("--user-data-dir=");
    data.push(folder);
    args.push(data);
    args
}

/// The folder of the profile: a named one that nothing else uses, or a temporary one.
fn user_data(options: &LaunchOptions) -> Result<(PathBuf, ProfileFolder)> {
    let fail = |source| BrowserError::Folder { what: "the folder of the profile", source };
    match &options.profile {
        None => {
            let folder = tempfile::Builder::new().prefix("swb-browser-").tempdir().map_err(fail)?;
            Ok((folder.path().to_owned(), ProfileFolder::Temporary(folder)))
        }
        Some(name) => {
            let folder = profile::folder(&options.profiles, name)?;
            create_private(&folder).map_err(fail)?;
            let in_use = |holder| BrowserError::ProfileInUse { name: name.clone(), holder };
            let lock = ProfileLock::take(&folder).map_err(fail)?.map_err(in_use)?;
            match profile::holder(&folder) {
                Some(holder) => Err(in_use(holder)),
                None => Ok((folder, ProfileFolder::Named(lock))),
            }
        }
    }
}

/// Creates a folder that only its owner can read.
pub(crate) fn create_private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
