//! Downloads of a session. Each file has a name that the browser chose at random; the name that the site suggests is only
//! shown, and used with its dangerous parts removed.

use std::path::PathBuf;

use serde::Deserialize;

use crate::shown_text::{cut, shown};

/// How many downloads a session may have, how large one may be, and all of them together.
pub(crate) const MAX_DOWNLOADS: usize = 100;
pub(crate) const MAX_DOWNLOAD_BYTES: u64 = 1024 * 1024 * 1024;
pub(crate) const MAX_TOTAL_BYTES: u64 = 2 * MAX_DOWNLOAD_BYTES;

/// How far a download is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum DownloadState {
    InProgress,
    Completed,
    Canceled,
}

impl DownloadState {
    pub(crate) fn id(self) -> &'static str {
        match self {
            DownloadState::InProgress => "in progress",
            DownloadState::Completed => "complete",
            DownloadState::Canceled => "cancelled",
        }
    }
}

/// One download.
#[derive(Debug, Clone)]
pub(crate) struct Download {
    pub(crate) number: u32,
    pub(crate) guid: String,
    pub(crate) url: String,
    pub(crate) suggested_name: String,
    pub(crate) received: u64,
    pub(crate) total: u64,
    pub(crate) state: DownloadState,
    pub(crate) saved_as: Option<PathBuf>,
}

/// The downloads of a session.
#[derive(Debug, Default)]
pub(crate) struct Downloads {
    pub(crate) list: Vec<Download>,
    refused: u64,
}

/// The parameters of `Browser.downloadWillBegin`.
#[derive(Deserialize)]
pub(crate) struct DownloadStart {
    #[serde(rename = "frameId")]
    pub(crate) frame: String,
    pub(crate) guid: String,
    url: String,
    #[serde(rename = "suggestedFilename")]
    name: String,
}

/// The parameters of `Browser.downloadProgress`.
#[derive(Deserialize)]
pub(crate) struct DownloadProgress {
    pub(crate) guid: String,
    #[serde(rename = "totalBytes")]
    total: f64,
    #[serde(rename = "receivedBytes")]
    received: f64,
    state: DownloadState,
}

/// Whether a download may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DownloadVerdict {
    Continue,
    Cancel,
}

impl Downloads {
    pub(crate) fn begin(&mut self, beginning: DownloadStart) -> DownloadVerdict {
        let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '-';
        let is_full = self.list.len() >= MAX_DOWNLOADS || self.total() >= MAX_TOTAL_BYTES;
        if is_full || !beginning.guid.chars().all(is_plain) {
            self.refused += 1;
            return DownloadVerdict::Cancel;
        }
        let number = self.list.last().map_or(1, |it| it.number + 1);
        self.list.push(Download {
            number,
            guid: beginning.guid,
            url: cut(&beginning.url, 300),
            suggested_name: safe_name(&beginning.name),
            received: 0,
            total: 0,
            state: DownloadState::InProgress,
            saved_as: None,
        });
        DownloadVerdict::Continue
    }

    pub(crate) fn progress(&mut self, progress: &DownloadProgress) -> DownloadVerdict {
        let Some(download) = self.list.iter_mut().find(|it| it.guid == progress.guid) else {
            return DownloadVerdict::Continue;
        };
        // Sizes are numbers of JavaScript; the conversion saturates.
        download.received = progress.received as u64;
        download.total = progress.total as u64;
        download.state = progress.state;
        let is_under_way = download.state == DownloadState::InProgress;
        let is_too_large = download.received > MAX_DOWNLOAD_BYTES;
        match is_under_way && (is_too_large || self.total() > MAX_TOTAL_BYTES) {
            true => DownloadVerdict::Cancel,
            false => DownloadVerdict::Continue,
        }
    }

    /// How many bytes all of them have.
    fn total(&self) -> u64 {
        self.list.iter().fold(0, |sum, it| sum.saturating_add(it.received))
    }

    pub(crate) fn has_guid(&self, guid: &str) -> bool {
        self.list.iter().any(|it| it.guid == guid)
    }

    /// How many were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }
}

/// A file name without folders, hidden files and characters that shells or systems treat specially.
pub(crate) fn safe_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let allowed =
        |it: char| it.is_alphanumeric() || matches!(it, '.' | '-' | '_' | ' ' | '(' | ')');
    let plain: String = shown(last, 120).chars().filter(|it| allowed(*it)).collect();
    let plain = plain.trim_start_matches(['.', '-', ' ']).trim_end_matches(['.', ' ']);
    match plain.is_empty() {
        true => "download".to_owned(),
        false => plain.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn downloads_are_bounded_alone_and_together() {
        let mut downloads = Downloads::default();
        let begin = |downloads: &mut Downloads, guid: &str| {
            let (frame, url, name) = (String::new(), String::new(), String::new());
            downloads.begin(DownloadStart { frame, guid: guid.to_owned(), url, name })
        };
        let receive = |downloads: &mut Downloads, guid: &str, received: u64, state| {
            let received = received as f64;
            let guid = guid.to_owned();
            downloads.progress(&DownloadProgress { guid, total: received, received, state })
        };
        let (most, done) = (MAX_DOWNLOAD_BYTES, DownloadState::Completed);
        let under_way = DownloadState::InProgress;
        for guid in ["a", "b"] {
            assert_eq!(begin(&mut downloads, guid), DownloadVerdict::Continue);
            assert_eq!(
                receive(&mut downloads, guid, most - 10, under_way),
                DownloadVerdict::Continue
            );
        }
        assert_eq!(receive(&mut downloads, "a", most + 1, under_way), DownloadVerdict::Cancel);
        assert_eq!(receive(&mut downloads, "a", most, done), DownloadVerdict::Continue);
        assert_eq!(begin(&mut downloads, "c"), DownloadVerdict::Continue);
        assert_eq!(receive(&mut downloads, "c", 11, under_way), DownloadVerdict::Cancel);
        assert_eq!(receive(&mut downloads, "b", most, done), DownloadVerdict::Continue);
        assert_eq!(begin(&mut downloads, "d"), DownloadVerdict::Cancel);
        assert_eq!(downloads.refused(), 1);
        let mut many = Downloads::default();
        for number in 0..MAX_DOWNLOADS {
            assert_eq!(begin(&mut many, &number.to_string()), DownloadVerdict::Continue);
        }
        assert_eq!(begin(&mut many, "x"), DownloadVerdict::Cancel);
    }

    #[test]
    fn a_suggested_name_is_only_a_plain_file_name() {
        for (name, expected) in [
            ("report.pdf", "report.pdf"),
            ("../../etc/passwd", "passwd"),
            ("..\\..\\x.exe", "x.exe"),
            (".bashrc", "bashrc"),
            ("-rf", "rf"),
            ("a\u{202e}fdp.exe", "afdp.exe"),
            ("$(id)`x`;.txt", "(id)x.txt"),
            ("...", "download"),
            ("Ümläut 1.csv", "Ümläut 1.csv"),
        ] {
            assert_eq!(safe_name(name), expected, "{name}");
        }
    }
}
