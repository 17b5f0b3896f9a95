//! The twelve jobs, each done with the tools of a server and checked by what the site was asked for.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::driver::Driver;
use super::mcp_client::failed;
use super::site::Site;
use crate::failure::Failure;

/// A job: its name, and how it is done.
pub struct Job {
    pub name: &'static str,
    run: fn(&mut Driver, &Site, &Path) -> Result<bool, Failure>,
}

/// How a job went.
pub struct JobResult {
    /// `None` if it was done, otherwise why not.
    pub problem: Option<String>,
    pub calls: usize,
    pub took: Duration,
    /// What a model would have had in its context.
    pub context: String,
}

pub const JOBS: [Job; 12] = [
    Job { name: "sign up with a form", run: sign_up },
    Job { name: "edit one row of two thousand", run: edit_row },
    Job { name: "collect the items of three pages", run: collect },
    Job { name: "upload a file", run: upload },
    Job { name: "download a file", run: download },
    Job { name: "delete behind a confirmation", run: confirm },
    Job { name: "sign in through a popup", run: popup },
    Job { name: "pay in a frame of another site", run: pay },
    Job { name: "a switch in closed web components", run: shadow },
    Job { name: "an entry of an endless list", run: endless },
    Job { name: "a shape in a canvas", run: canvas },
    Job { name: "past a page that hangs", run: hang },
];

impl Job {
    /// Does the job in a fresh server, after a first page.
    pub fn measure(&self, driver: &mut Driver, site: &Site, folder: &Path) -> JobResult {
        let _earlier = site.take("/", "never");
        driver.client.calls = 0;
        driver.client.context.clear();
        let began = Instant::now();
        let problem = match (self.run)(driver, site, folder) {
            Ok(true) => None,
            Ok(false) => Some("not done".to_owned()),
            Err(failure) => {
                eprintln!("{}: {failure:?}", self.name);
                Some("its tools cannot".to_owned())
            }
        };
        let (calls, context) = (driver.client.calls, driver.client.context.clone());
        JobResult { problem, calls, took: began.elapsed(), context }
    }
}

fn sign_up(driver: &mut Driver, site: &Site, _: &Path) -> Result<bool, Failure> {
    driver.open(&site.url("/signup"))?;
    let fields = [
        ("textbox", "Mail", json!("ada@example.com")),
        ("textbox", "Password", json!("long enough")),
        ("combobox", "Plan", json!("Pro")),
        ("checkbox", "I agree", json!(true)),
    ];
    driver.fill(&fields)?;
    driver.click("button", "Create account")?;
    Ok(site.take("/welcome", "plan=Pro"))
}

fn edit_row(driver: &mut Driver, site: &Site, _: &Path) -> Result<bool, Failure> {
    driver.open(&site.url("/big"))?;
    let found = driver.find("Edit 1777")?;
    let reference = driver.reference(&found, "button", "Edit 1777")?;
    driver.click_ref(&reference)?;
    Ok(site.take("/edited", "1777"))
}

fn collect(driver: &mut Driver, site: &Site, _: &Path) -> Result<bool, Failure> {
    driver.open(&site.url("/page1"))?;
    let mut all = String::new();
    for page in 1..=3 {
        driver.changed();
        all += &driver.view()?;
        if page < 3 {
            driver.click("link", "Next")?;
        }
    }
    Ok(["1a", "1b", "2a", "2b", "3a", "3b"].iter().all(|it| all.contains(&format!("item {it}"))))
}

fn upload(driver: &mut Driver, site: &Site, folder: &Path) -> Result<bool, Failure> {
    let file = folder.join("report.txt");
    fs::write(&file, "contents of the report").map_err(|error| Failure::file(&file, error))?;
    driver.open(&site.url("/upload"))?;
    driver.upload(&file.display().to_string())?;
    driver.click("button", "Send")?;
    Ok(site.take("/received", "contents of the report"))
}

fn download(driver: &mut Driver, site: &Site, _: &Path) -> Result<bool, Failure> {
    driver.open(&site.url("/downloads"))?;
    let clicked = driver.click("link", "Get report")?.text;
    let said = driver.downloaded()?;
    Ok(site.take("/file", "") && (clicked + &said).contains("report.csv"))
}

fn confirm(driver: &mut Driver, site: &Site, _: &Path) -> Result<bool, Failure> {
    driver.open(&site.url("/confirm"))?;
    driver.click("button", "Delete")?;
    driver.answer_dialog()?;
    driver.changed();
    let view = driver.view()?;
    Ok(site.take("/deleted", "") && !view.contains("old entry"))
}

fn popup(driver: &mut Driver, site: &Site, _: &Path) -> Result<bool, Failure> {
    driver.open(&site.url("/popup"))?;
    let clicked = driver.click("button", "Sign in")?.text;
    let number = match clicked.split("opened tab ").nth(1) {
        Some(rest) => rest.split([' ', ';']).next().and_then(|it| it.parse().ok()),
        None => Some(2),
    };
    driver.select_tab(number.unwrap_or(2))?;
    let user = driver.element("textbox", "User")?;
    driver.type_ref(&user, "ada")?;
    driver.click("button", "Log in")?;
    driver.wait_for("signed in as ada")?;
    Ok(site.take("/signed-in", "ada"))
}

fn pay(driver: &mut Driver, site: &Site, _: &Path) -> Result<bool, Failure> {
    driver.open(&site.url("/frame"))?;
    driver.fill(&[("textbox", "Card", json!("4242"))])?;
    driver.click("button", "Pay")?;
    driver.wait_for("paid 4242")?;
    Ok(site.take("/paid", "4242"))
}

fn shadow(driver: &mut Driver, site: &Site, _: &Path) -> Result<bool, Failure> {
    driver.open(&site.url("/shadow"))?;
    driver.click("switch", "Dark mode")?;
    Ok(site.take("/dark", ""))
}

fn endless(driver: &mut Driver, site: &Site, _: &Path) -> Result<bool, Failure> {
    driver.open(&site.url("/endless"))?;
    for _ in 0..12 {
        let found = driver.find("Like 88")?;
        if let Ok(reference) = driver.reference(&found, "button", "Like 88") {
            driver.click_ref(&reference)?;
            return Ok(site.take("/liked", "88"));
        }
        driver.scroll_down()?;
    }
    Ok(false)
}

fn canvas(driver: &mut Driver, site: &Site, _: &Path) -> Result<bool, Failure> {
    driver.open(&site.url("/canvas"))?;
    let picture = driver.screenshot()?;
    if picture.image.is_none() {
        return Err(failed("no picture"));
    }
    driver.click_at(450, 290)?;
    Ok(site.take("/hit", ""))
}

fn hang(driver: &mut Driver, site: &Site, _: &Path) -> Result<bool, Failure> {
    driver.open(&site.url("/busy"))?;
    driver.click("button", "Compute")?;
    driver.changed();
    let _busy = driver.view();
    driver.open(&site.url("/good"))?;
    driver.changed();
    Ok(driver.view()?.contains("the answer is 42"))
}
