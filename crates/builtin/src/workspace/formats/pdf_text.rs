//! Extracts the text of PDFs. The library has no limits for memory and time and sometimes panics, so it runs in
//! its own process with limits. The process gets the file on standard input, and no path.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};

use pdf_extract::{Document, OutputError, PlainTextOutput, output_doc_page};
use rustix::process::{Resource, Rlimit, setrlimit};
use switchboard_wire::process::child::Program;
use thiserror::Error;

use crate::workspace::files::contents::MAX_FILE_SIZE;

/// Limits for memory in bytes and CPU time in seconds.
const MAX_MEMORY: u64 = 1024 * 1024 * 1024;
const MAX_CPU_SECONDS: u64 = 20;
/// The maximum size of the text, in bytes.
const MAX_TEXT_BYTES: u64 = 8 * 1024 * 1024;
/// The maximum size of the error output.
const MAX_STDERR_BYTES: u64 = 2000;

/// Whether the content is a PDF.
pub(crate) fn is_pdf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"%PDF-")
}

/// Why there is no text.
#[derive(Debug, Error)]
pub(crate) enum PdfTextError {
    /// The reader could not be started.
    #[error("its reader cannot be started: {0}")]
    Spawn(io::ErrorKind),
    /// The reader failed.
    #[error("{0}")]
    Unreadable(ReaderMessage),
}

/// The reader's error message.
#[derive(Debug)]
pub(crate) struct ReaderMessage(String);

impl fmt::Display for ReaderMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_empty() {
            true => f.write_str("it is damaged or exceeds the limits"),
            false => f.write_str(&self.0),
        }
    }
}

/// Extracts the text of a file, page by page, in another process. Blocks until it ends; its limits bound the
/// time.
pub(crate) fn extract_text(reader: &Program, file: File) -> Result<String, PdfTextError> {
    let child = Command::new(&reader.command)
        .args(&reader.args)
        .env_clear()
        .envs(reader.env.iter().map(|(name, value)| (name, value)))
        .current_dir("/")
        .stdin(Stdio::from(file))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut process = ReaderProcess(child.map_err(|error| PdfTextError::Spawn(error.kind()))?);
    let mut bytes = Vec::new();
    if let Some(stdout) = process.0.stdout.take() {
        // The text before a failure is still shown.
        let _broken_off = stdout.take(MAX_TEXT_BYTES).read_to_end(&mut bytes);
    }
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    let is_cut = u64::try_from(bytes.len()).is_ok_and(|length| length >= MAX_TEXT_BYTES);
    if is_cut || process.0.wait().is_ok_and(|status| status.success()) {
        return Ok(text);
    }
    if !text.is_empty() {
        text.push_str("\n[the rest cannot be extracted]\n");
        return Ok(text);
    }
    let mut stderr_text = Vec::new();
    if let Some(stderr) = process.0.stderr.take() {
        let _gone = stderr.take(MAX_STDERR_BYTES).read_to_end(&mut stderr_text);
    }
    let stderr_text = String::from_utf8_lossy(&stderr_text);
    // The first line is our message; a panic message is not shown.
    let first = stderr_text.lines().next().filter(|line| !line.contains("panicked"));
    Err(PdfTextError::Unreadable(ReaderMessage(first.unwrap_or_default().trim().to_owned())))
}

/// A running reader. Dropping it kills the process.
struct ReaderProcess(Child);

impl Drop for ReaderProcess {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _collected_already = self.0.wait();
    }
}

/// Why a PDF could not be read.
#[derive(Debug, Error)]
pub enum PdfReaderError {
    /// Reading the input or writing the text failed.
    #[error("it cannot be read or written: {0}")]
    Io(#[from] io::Error),
    /// The limits could not be set.
    #[error("no limits can be set")]
    Limits,
    /// The PDF is damaged or protected.
    #[error("it is damaged, or protected with a password")]
    Damaged,
}

/// The main function of the reader process: sets limits, reads a PDF and writes its text page by page.
pub fn run_pdf_reader(from: impl Read, mut to: impl Write) -> Result<(), PdfReaderError> {
    set_limit(Resource::As, MAX_MEMORY)?;
    set_limit(Resource::Cpu, MAX_CPU_SECONDS)?;
    set_limit(Resource::Core, 0)?;
    let mut bytes = Vec::new();
    from.take(MAX_FILE_SIZE).read_to_end(&mut bytes)?;
    let mut document = Document::load_mem(&bytes).map_err(|_| PdfReaderError::Damaged)?;
    if document.is_encrypted() {
        document.decrypt("").map_err(|_| PdfReaderError::Damaged)?;
    }
    for number in document.get_pages().into_keys() {
        let text = page_text(&document, number).map_err(|_| PdfReaderError::Damaged)?;
        writeln!(to, "[page {number}]\n{}\n", text.trim())?;
        to.flush()?;
    }
    Ok(())
}

fn page_text(document: &Document, number: u32) -> Result<String, OutputError> {
    let mut text = String::new();
    let mut output = PlainTextOutput::new(&mut text);
    output_doc_page(document, &mut output, number)?;
    Ok(text)
}

fn set_limit(resource: Resource, maximum: u64) -> Result<(), PdfReaderError> {
    let limit = Rlimit { current: Some(maximum), maximum: Some(maximum) };
    setrlimit(resource, limit).map_err(|_| PdfReaderError::Limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_reader_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it");
        std::fs::write(&path, "contents").unwrap();
        let read = |script: &str| {
            let program = Program {
                command: "sh".into(),
                args: vec!["-c".into(), script.into()],
                env: vec![("PATH".into(), std::env::var_os("PATH").unwrap_or_default())],
                cwd: None,
            };
            extract_text(&program, File::open(&path).unwrap()).map_err(|it| it.to_string())
        };
        assert_eq!(read("cat"), Ok("contents".to_owned()));
        assert_eq!(read("echo why >&2; exit 1"), Err("why".to_owned()));
        let silent = "it is damaged or exceeds the limits".to_owned();
        assert_eq!(read("echo thread x panicked at y >&2; exit 101"), Err(silent.clone()));
        assert_eq!(read("kill -9 $$"), Err(silent));
        let broken_off = "[page 1]\n\n[the rest cannot be extracted]\n".to_owned();
        assert_eq!(read("echo '[page 1]'; exit 101"), Ok(broken_off));
        let flood = read("yes").unwrap();
        assert_eq!(u64::try_from(flood.len()), Ok(MAX_TEXT_BYTES));
    }
}
