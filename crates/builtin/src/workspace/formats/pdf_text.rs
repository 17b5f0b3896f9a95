//! The text of PDFs. The library that makes it out takes whatever memory and time a file asks for, and sometimes
//! panics, so it runs in a process of its own with limits. That process gets the file on standard input, and no path.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};

use pdf_extract::{Document, OutputError, PlainTextOutput, output_doc_page};
use rustix::process::{Resource, Rlimit, setrlimit};
use switchboard_wire::process::child::Program;
use thiserror::Error;

use crate::workspace::files::contents::MAX_FILE_SIZE;

/// The memory and the time that a PDF may take, in bytes and in seconds of work.
const MAX_MEMORY: u64 = 1024 * 1024 * 1024;
const MAX_CPU_SECONDS: u64 = 20;
/// How much text is taken, in bytes.
const MAX_TEXT_BYTES: u64 = 8 * 1024 * 1024;
/// How much is read of what went wrong.
const MAX_STDERR_BYTES: u64 = 2000;

/// Is it a PDF? Its beginning decides.
pub(crate) fn is_pdf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"%PDF-")
}

/// Why there is no text.
#[derive(Debug, Error)]
pub(crate) enum PdfTextError {
    /// The reader could not be started.
    #[error("its reader cannot be started: {0}")]
    Spawn(io::ErrorKind),
    /// It found none.
    #[error("{0}")]
    Unreadable(ReaderMessage),
}

/// What the reader said last.
#[derive(Debug)]
pub(crate) struct ReaderMessage(String);

impl fmt::Display for ReaderMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_empty() {
            true => f.write_str("it is damaged, or asks for too much"),
            false => f.write_str(&self.0),
        }
    }
}

/// The text of a file, page by page, as another process makes it out. Blocks until that is done, which its limits see to.
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
        // What came before a failure is worth showing.
        let _broken_off = stdout.take(MAX_TEXT_BYTES).read_to_end(&mut bytes);
    }
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    let is_cut = u64::try_from(bytes.len()).is_ok_and(|length| length >= MAX_TEXT_BYTES);
    if is_cut || process.0.wait().is_ok_and(|status| status.success()) {
        return Ok(text);
    }
    if !text.is_empty() {
        text.push_str("\n[the rest cannot be made out]\n");
        return Ok(text);
    }
    let mut stderr_text = Vec::new();
    if let Some(stderr) = process.0.stderr.take() {
        let _gone = stderr.take(MAX_STDERR_BYTES).read_to_end(&mut stderr_text);
    }
    let stderr_text = String::from_utf8_lossy(&stderr_text);
    // The first line is ours; a panic's many lines are nobody's business.
    let first = stderr_text.lines().next().filter(|line| !line.contains("panicked"));
    Err(PdfTextError::Unreadable(ReaderMessage(first.unwrap_or_default().trim().to_owned())))
}

/// A reader at work. Dropping it ends it.
struct ReaderProcess(Child);

impl Drop for ReaderProcess {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _collected_already = self.0.wait();
    }
}

/// A PDF could not be read.
#[derive(Debug, Error)]
pub enum PdfReaderError {
    /// It could not be had, or its text not be handed on.
    #[error("it cannot be read or written: {0}")]
    Io(#[from] io::Error),
    /// The system does not let us limit what it may take.
    #[error("no limits can be set")]
    Limits,
    /// It is damaged, protected or something else.
    #[error("it is damaged, or protected with a password")]
    Damaged,
}

/// The reader's whole life: limits itself, reads a PDF and writes its text, page by page.
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
    fn a_reader_that_fails_or_is_not_there_is_told() {
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
        let silent = "it is damaged, or asks for too much".to_owned();
        assert_eq!(read("echo thread x panicked at y >&2; exit 101"), Err(silent.clone()));
        assert_eq!(read("kill -9 $$"), Err(silent));
        let broken_off = "[page 1]\n\n[the rest cannot be made out]\n".to_owned();
        assert_eq!(read("echo '[page 1]'; exit 101"), Ok(broken_off));
        let flood = read("yes").unwrap();
        assert_eq!(u64::try_from(flood.len()), Ok(MAX_TEXT_BYTES));
    }
}
