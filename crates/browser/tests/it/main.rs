//! The browser server with a real Chromium on sites of this machine.

mod dialogs;
mod forms;
mod frames;
mod jobs;
mod life;
mod pages;
mod reach;
mod reading;
mod red_team;
mod site;
mod tabs;
mod test_browser;
