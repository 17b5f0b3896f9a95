//! Opens a page in the user's browser. The URL is passed as one argument, never as part of a command line, and is
//! always http or https.

use std::io;
use std::process::{Command, Stdio};

use switchboard::config::import::Platform;
use url::Url;

use crate::env::platform;

/// Opens a URL, with `preferred` if it is set.
pub fn open(url: &Url, preferred: Option<&str>) -> io::Result<()> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a web address"));
    }
    let programs: &[&[&str]] = match platform() {
        Platform::Linux => &[&["xdg-open"], &["gio", "open"], &["wslview"]],
        Platform::MacOs => &[&["open"]],
        Platform::Windows => &[&["rundll32", "url.dll,FileProtocolHandler"]],
    };
    let own = preferred.filter(|it| !it.is_empty()).map(Command::new);
    let defaults = programs.iter().map(|words| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command
    });
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for mut command in own.into_iter().chain(defaults) {
        command.arg(url.as_str()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(mut child) => {
                // The thread waits for the child, which would otherwise stay a zombie.
                let _outlives_us = std::thread::Builder::new().spawn(move || child.wait());
                return Ok(());
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
