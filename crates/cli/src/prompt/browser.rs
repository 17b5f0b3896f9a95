//! Opens a page in the person's browser. The address is one argument of a program, never part of a command line, and
//! is always a web address.

use std::io;
use std::process::{Command, Stdio};

use switchboard::config::import::Platform;
use url::Url;

use crate::env::platform;

/// Opens it, with the program that the person prefers where there is one.
pub fn open(url: &Url, preferred: Option<&str>) -> io::Result<()> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no web address"));
    }
    let programs: &[&[&str]] = match platform() {
        Platform::Linux => &[&["xdg-open"], &["gio", "open"], &["wslview"]],
        Platform::MacOs => &[&["open"]],
        Platform::Windows => &[&["rundll32", "url.dll,FileProtocolHandler"]],
    };
    let own = preferred.filter(|it| !it.is_empty()).map(Command::new);
    let usual = programs.iter().map(|words| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command
    });
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for mut command in own.into_iter().chain(usual) {
        command.arg(url.as_str()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(mut child) => {
                // Somebody has to see it end, or it stays in the process table.
                let _outlives_us = std::thread::Builder::new().spawn(move || child.wait());
                return Ok(());
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
