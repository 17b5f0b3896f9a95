//! The browser server of this process: where its browser is from, what pages may reach, and its files.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use switchboard::config::display::printable;
use switchboard::connection::InProcessServer;
use switchboard::sources::child_env;
use switchboard_browser::{
    ALIASES, BrowserSettings, BrowserSource, NAME, OriginPattern, ReachRules, ScriptUse,
    UpstreamProxy, Window,
};

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::runtime::subprocess;

/// The file with the keys of the display. It is no credential of a service, and a window needs it.
const DISPLAY_KEYS: &str = "XAUTHORITY";
/// Variables that name the proxy that leads out, the most specific first.
const PROXIES: [&str; 6] =
    ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "http_proxy", "HTTP_PROXY"];

/// Variables that name the hosts that are reached without it.
const NO_PROXY: [&str; 2] = ["no_proxy", "NO_PROXY"];

/// The server under all of its names, unless an administrator forbids it. Their clients share one browser.
pub fn in_process(invocation: &Invocation) -> Result<BTreeMap<String, InProcessServer>, Failure> {
    if invocation.providers().browser.managed.is_forbidden {
        return Ok(BTreeMap::new());
    }
    let settings = settings(invocation)?;
    let server = InProcessServer::new(move |transport| {
        switchboard_browser::serve(settings.clone(), transport)
    })
    .per_client();
    let names = std::iter::once(NAME).chain(ALIASES);
    Ok(names.map(|it| (it.to_owned(), server.clone())).collect())
}

/// The settings, from options and settings files. Options precede files, except what an administrator has set.
pub fn settings(invocation: &Invocation) -> Result<BrowserSettings, Failure> {
    let (options, section) = (&invocation.global.browser, &invocation.providers().browser);
    let env = &invocation.env;
    let keys = env.variables.get(DISPLAY_KEYS).map(|it| (DISPLAY_KEYS.to_owned(), it.clone()));
    let environment = child_env::child_environment(&env.variables, keys);
    let mut settings = BrowserSettings::new(env.paths.data.join("browser"), environment);
    let has_window = options.browser_window || section.window == Some(true);
    let endpoint = options.cdp_endpoint.as_ref();
    let is_own = options.browser_window || options.browser_profile.is_some();
    let endpoint = endpoint.or_else(|| section.endpoint.as_ref().filter(|_| !is_own));
    settings.source = match endpoint {
        Some(url) => BrowserSource::Endpoint(url.clone()),
        None => BrowserSource::Own {
            window: if has_window { Window::Windowed } else { Window::Headless },
            profile: options.browser_profile.clone().or_else(|| section.profile.clone()),
            program: section.program.as_ref().map(|it| env.working_folder.join(it)),
        },
    };
    let allowed = match (&section.managed.origins, options.browser_origins.is_empty()) {
        (Some(managed), _) => patterns(managed)?,
        (None, false) => options.browser_origins.clone(),
        (None, true) => patterns(section.origins.as_deref().unwrap_or_default())?,
    };
    settings.reach = ReachRules { allowed, blocked: patterns(&section.blocked)? };
    settings.scripts = match section.managed.forbids_scripts || section.scripts == Some(false) {
        true => ScriptUse::Off,
        false => ScriptUse::Offered,
    };
    let (folder, added) = (env.working_folder.clone(), invocation.session.added_folders.clone());
    settings.folders = Arc::new(move || {
        std::iter::once(folder.clone()).chain(added.folders()).collect::<Vec<PathBuf>>()
    });
    settings.watchdog = subprocess::watchdog_program();
    let proxy = PROXIES.iter().find_map(|it| env.variables.get(*it).filter(|it| !it.is_empty()));
    let exceptions = NO_PROXY.iter().find_map(|it| env.variables.get(*it));
    let exceptions = exceptions.map(String::as_str).unwrap_or_default();
    settings.proxy = match exceptions.trim() {
        "*" => None,
        _ => proxy.and_then(|it| UpstreamProxy::parse(it)).map(|it| it.except(exceptions)),
    };
    Ok(settings)
}

fn patterns(texts: &[String]) -> Result<Vec<OriginPattern>, Failure> {
    let parse = |text: &String| {
        OriginPattern::parse(text).map_err(|error| {
            let message = format!("the setting `browser`: {}", printable(&error.to_string()));
            Failure::new(Exit::Configuration, &message)
        })
    };
    texts.iter().map(parse).collect()
}
