//! How long single calls take, and how much memory a server holds beside Chromium.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::driver::Driver;
use super::mcp_client::failed;
use super::programs::{Kind, Programs};
use super::site::Site;
use crate::effort::repetitions;
use crate::failure::Failure;
use crate::process_stats;

/// The figures of one server.
#[derive(Debug, Default, Clone)]
pub struct Speed {
    pub first_page: Vec<Duration>,
    pub navigate: Vec<Duration>,
    pub type_text: Vec<Duration>,
    pub click: Vec<Duration>,
    pub screenshot: Vec<Duration>,
    pub snapshot_small: Vec<Duration>,
    pub navigate_big: Vec<Duration>,
    pub snapshot_big: Vec<Duration>,
    pub find_big: Vec<Duration>,
    /// Memory of the server, without Chromium: after its start, and after the calls.
    pub megabytes: (f64, f64),
    /// The definitions of its tools, and what its first read of the big page returned.
    pub definitions: String,
    pub tools: usize,
    pub first_read: String,
}

/// Measures one server once; the figures are added.
pub fn measure(
    programs: &Programs,
    kind: Kind,
    site: &Site,
    folder: &Path,
    speed: &mut Speed,
) -> Result<(), Failure> {
    let began = Instant::now();
    let client = programs.start(kind, folder, site, &[])?;
    let before = process_stats::resident_megabytes(client.process())?;
    let mut driver = Driver::new(client, kind);
    driver.open(&site.url("/small"))?;
    speed.first_page.push(began.elapsed());
    let tools = driver.client.request("tools/list", json!({}))?;
    let tools = tools["tools"].as_array().cloned().unwrap_or_default();
    speed.tools = tools.len();
    let shown: Vec<_> = tools
        .iter()
        .map(|it| json!({"name": it["name"], "description": it["description"], "input_schema": it["inputSchema"]}))
        .collect();
    speed.definitions = json!(shown).to_string();
    for _ in 0..repetitions(5) {
        speed.navigate.push(go(&mut driver, kind, &site.url("/small2"))?);
        go(&mut driver, kind, &site.url("/small"))?;
        driver.changed();
        let view = Instant::now();
        driver.view()?;
        speed.snapshot_small.push(view.elapsed());
        let (field, button) =
            (driver.element("textbox", "Name")?, driver.element("button", "Save")?);
        speed.type_text.push(driver.type_ref(&field, "Zoë 漢字 🦀 1")?.took);
        speed.click.push(driver.click_ref(&button)?.took);
        speed.screenshot.push(driver.screenshot()?.took);
    }
    for round in 0..repetitions(3) {
        speed.navigate_big.push(go(&mut driver, kind, &site.url("/big"))?);
        driver.changed();
        let began = Instant::now();
        let read = driver.view()?;
        speed.snapshot_big.push(began.elapsed());
        if round == 0 {
            speed.first_read = read;
        }
        if kind != Kind::DevTools {
            let began = Instant::now();
            driver.find("Edit 1777")?;
            speed.find_big.push(began.elapsed());
        }
        go(&mut driver, kind, &site.url("/small"))?;
    }
    speed.megabytes = (before, server_megabytes(driver.client.process())?);
    Ok(())
}

/// Goes to a page in the tab that is open.
fn go(driver: &mut Driver, kind: Kind, url: &str) -> Result<Duration, Failure> {
    match kind {
        Kind::DevTools => Ok(driver
            .client
            .done("navigate_page", json!({"pageId": 2, "type": "url", "url": url}))?
            .took),
        Kind::Ours | Kind::OursWithChromium | Kind::Playwright => Ok(driver.open(url)?.took),
    }
}

/// The memory of a process and its descendants that are not Chromium.
fn server_megabytes(process: u32) -> Result<f64, Failure> {
    let mut total = process_stats::resident_megabytes(process)?;
    for child in children(process) {
        let line = fs::read(format!("/proc/{child}/cmdline")).map_err(failed)?;
        let line = String::from_utf8_lossy(&line).into_owned();
        if !line.contains("chromium") {
            total += server_megabytes(child).unwrap_or(0.0);
        }
    }
    Ok(total)
}

fn children(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|it| fs::read_to_string(it.path().join("children")).ok());
    let text: String = lists.collect::<Vec<_>>().join(" ");
    text.split_whitespace().filter_map(|it| it.parse().ok()).collect()
}
