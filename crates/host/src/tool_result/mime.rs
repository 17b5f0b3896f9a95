//! Detects media types from the bytes; uses the server's claim only where the bytes are ambiguous.

/// How many bytes are inspected.
pub(crate) const SNIFF_BYTES: usize = 8192;

/// A detected media type and its file extension.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DetectedType {
    /// The type detected from the bytes; `None` if they are ambiguous.
    pub mime: Option<&'static str>,
    /// The extension without a dot, from our own list, never from the server.
    pub extension: &'static str,
}

/// Detects the type from the first bytes and the server's claim.
pub(crate) fn detect(head: &[u8], claimed: Option<&str>) -> DetectedType {
    let by_claim = claimed.and_then(extension_of);
    match infer::get(head) {
        // For text formats such as XML and HTML, the server's claim is more precise.
        Some(kind) if kind.matcher_type() != infer::MatcherType::Text => DetectedType {
            mime: Some(kind.mime_type()),
            extension: plain_extension(kind.extension()),
        },
        Some(kind) => DetectedType {
            mime: None,
            extension: by_claim.unwrap_or(plain_extension(kind.extension())),
        },
        None => DetectedType { mime: None, extension: by_claim.unwrap_or("bin") },
    }
}

/// Restricts extensions to short lower-case names; the spill store relies on it.
fn plain_extension(extension: &'static str) -> &'static str {
    let is_plain = extension.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if is_plain && (1..=8).contains(&extension.len()) { extension } else { "bin" }
}

/// The extension of a media type; parameters are ignored.
fn extension_of(mime: &str) -> Option<&'static str> {
    const KNOWN: &[(&str, &str)] = &[
        ("application/gzip", "gz"),
        ("application/javascript", "js"),
        ("application/json", "json"),
        ("application/msword", "doc"),
        ("application/octet-stream", "bin"),
        ("application/pdf", "pdf"),
        ("application/rtf", "rtf"),
        ("application/vnd.ms-excel", "xls"),
        ("application/vnd.openxmlformats-officedocument.presentationml.presentation", "pptx"),
        ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
        ("application/wasm", "wasm"),
        ("application/x-ndjson", "ndjson"),
        ("application/x-tar", "tar"),
        ("application/xml", "xml"),
        ("application/yaml", "yaml"),
        ("application/zip", "zip"),
        ("audio/aac", "aac"),
        ("audio/flac", "flac"),
        ("audio/mp4", "m4a"),
        ("audio/mpeg", "mp3"),
        ("audio/ogg", "ogg"),
        ("audio/wav", "wav"),
        ("audio/webm", "weba"),
        ("audio/x-wav", "wav"),
        ("image/avif", "avif"),
        ("image/bmp", "bmp"),
        ("image/gif", "gif"),
        ("image/heic", "heic"),
        ("image/jpeg", "jpg"),
        ("image/png", "png"),
        ("image/svg+xml", "svg"),
        ("image/tiff", "tif"),
        ("image/webp", "webp"),
        ("text/css", "css"),
        ("text/csv", "csv"),
        ("text/html", "html"),
        ("text/javascript", "js"),
        ("text/markdown", "md"),
        ("text/plain", "txt"),
        ("text/xml", "xml"),
        ("video/mp4", "mp4"),
        ("video/mpeg", "mpeg"),
        ("video/quicktime", "mov"),
        ("video/webm", "webm"),
    ];
    let mime = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    KNOWN.iter().find(|(known, _)| *known == mime).map(|(_, extension)| *extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &[u8], claimed: Option<&str>, mime: Option<&'static str>, extension: &str) {
        let detected = detect(head, claimed);
        assert_eq!((detected.mime, detected.extension), (mime, extension), "{claimed:?}");
    }

    #[test]
    fn detected_types_take_precedence_over_claims() {
        check(b"\x89PNG\r\n\x1a\n", Some("audio/wav"), Some("image/png"), "png");
        check(b"RIFF\x00\x00\x00\x00WAVEfmt ", None, Some("audio/x-wav"), "wav");
        check(b"%PDF-1.7", Some("application/../../x"), Some("application/pdf"), "pdf");
    }

    #[test]
    fn claims_count_where_the_bytes_are_ambiguous() {
        check(b"a,b\n1,2", Some("text/CSV; charset=utf-8"), None, "csv");
        check(b"<?xml version=\"1.0\"?><svg/>", Some("image/svg+xml"), None, "svg");
        check(b"<?xml version=\"1.0\"?><a/>", Some("nonsense"), None, "xml");
        check(b"\x00\x01", Some("../../etc"), None, "bin");
        check(b"", None, None, "bin");
    }
}
