//! Heads of HTTP/1.1 messages: writes those of requests and parses those of responses (RFC 9112).

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use httparse::{EMPTY_HEADER, Status};
use memchr::memmem;
use url::Position;

use super::framing::{BodyFraming, ChunkState};
use crate::http::request::HttpRequest;

/// Limits for the size and the number of headers of a response head.
const MAX_HEAD_SIZE: usize = 400 * 1024;
const MAX_HEADERS: usize = 100;
/// How many interim (1xx) responses may precede a response. Together they are not larger than one head.
const MAX_INTERIM_RESPONSES: usize = 16;

/// The head of a response.
#[derive(Debug)]
pub(crate) struct Http1Head {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) framing: BodyFraming,
    pub(crate) reuse: ConnectionReuse,
}

/// Whether a connection can be reused after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionReuse {
    Reusable,
    Close,
}

/// The part of a response head that has been read so far.
#[derive(Debug, Default)]
pub(crate) struct HeadProgress {
    /// How far the buffer was searched for the end of the head.
    searched: usize,
    /// How many interim responses were skipped, and their size in bytes.
    interim_count: usize,
    interim_size: usize,
}

/// Writes the head of a request. `user_agent` is used unless the request sets its own.
pub(crate) fn write_request_head(
    request: &HttpRequest<'_>,
    user_agent: Option<&HeaderValue>,
    out: &mut Vec<u8>,
) -> Result<(), &'static str> {
    let target = &request.url[Position::BeforePath..Position::AfterQuery];
    let host = &request.url[Position::BeforeHost..Position::AfterPort];
    if !target.bytes().chain(host.bytes()).all(|byte| byte.is_ascii_graphic()) {
        return Err("the URL contains characters that cannot be sent");
    }
    out.extend_from_slice(request.method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(if target.is_empty() { b"/" } else { target.as_bytes() });
    out.extend_from_slice(b" HTTP/1.1\r\nhost: ");
    out.extend_from_slice(host.as_bytes());
    // This client does not decompress.
    out.extend_from_slice(b"\r\naccept-encoding: identity\r\n");
    let mut has_user_agent = false;
    for (name, value) in &request.headers {
        if !is_managed_header(name) {
            has_user_agent |= *name == header::USER_AGENT;
            write_header(name, value, out);
        }
    }
    if let Some(user_agent) = user_agent.filter(|_| !has_user_agent) {
        write_header(&header::USER_AGENT, user_agent, out);
    }
    if !request.body.is_empty() || request.method == Method::POST {
        let mut digits = [0; 20];
        out.extend_from_slice(b"content-length: ");
        out.extend_from_slice(decimal(request.body.len(), &mut digits));
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Whether only this module may write the header. Conflicting framing headers would be a request smuggling risk.
fn is_managed_header(name: &HeaderName) -> bool {
    *name == header::HOST
        || *name == header::CONTENT_LENGTH
        || *name == header::TRANSFER_ENCODING
        || *name == header::ACCEPT_ENCODING
}

fn write_header(name: &HeaderName, value: &HeaderValue, out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn decimal(mut number: usize, digits: &mut [u8; 20]) -> &[u8] {
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        if number == 0 {
            return &digits[first..];
        }
    }
}

/// Parses the head of a response once it is complete, and removes it from the buffer. Interim responses are skipped, up
/// to a limit: a server could send them forever.
pub(crate) fn read_response_head(
    buffer: &mut BytesMut,
    progress: &mut HeadProgress,
) -> Result<Option<Http1Head>, &'static str> {
    const HTTP_PREFIX: &[u8] = b"HTTP/";
    loop {
        // Another protocol may never send an empty line.
        let known = buffer.len().min(HTTP_PREFIX.len());
        if buffer[..known] != HTTP_PREFIX[..known] {
            return Err("the response is not HTTP");
        }
        let Some(end) = head_end(buffer, &mut progress.searched) else {
            let is_too_large = buffer.len() > MAX_HEAD_SIZE;
            return if is_too_large { Err("the headers are too large") } else { Ok(None) };
        };
        let text = buffer.split_to(end).freeze();
        progress.searched = 0;
        let head = parse(&text)?;
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err("the server switched protocols without an upgrade request");
        }
        if !head.status.is_informational() {
            return Ok(Some(head));
        }
        progress.interim_count += 1;
        progress.interim_size += end;
        if progress.interim_count > MAX_INTERIM_RESPONSES || progress.interim_size > MAX_HEAD_SIZE {
            return Err("too many interim responses");
        }
    }
}

/// The end of the head. Each byte is searched once, however slowly the head arrives.
fn head_end(buffer: &[u8], searched: &mut usize) -> Option<usize> {
    // An empty line. Both line ends may be a line feed alone (RFC 9112, section 2.2).
    const BLANK_LINES: [&[u8]; 2] = [b"\n\r\n", b"\n\n"];
    let from = searched.saturating_sub(2);
    let found =
        BLANK_LINES.iter().filter_map(|end| Some(memmem::find(&buffer[from..], end)? + end.len()));
    *searched = buffer.len();
    found.min().map(|end| from + end).filter(|end| *end <= MAX_HEAD_SIZE)
}

fn parse(text: &Bytes) -> Result<Http1Head, &'static str> {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    match response.parse(text) {
        Ok(Status::Complete(_)) => {}
        Ok(Status::Partial) => return Err("the response is not HTTP"),
        Err(httparse::Error::TooManyHeaders) => return Err("too many headers"),
        Err(_) => return Err("the response is not HTTP"),
    }
    let status = response.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or("the response has no status")?;
    let mut headers = HeaderMap::with_capacity(response.headers.len());
    for header in response.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        let value = HeaderValue::from_maybe_shared(text.slice_ref(header.value));
        let (Ok(name), Ok(value)) = (name, value) else {
            return Err("a response header is invalid");
        };
        headers.append(name, value);
    }
    let framing = body_framing(status, &headers)?;
    let reuse = match response.version {
        Some(1) if !has_connection_close(&headers) && !has_two_lengths(&headers) => {
            ConnectionReuse::Reusable
        }
        Some(_) | None => ConnectionReuse::Close,
    };
    Ok(Http1Head { status, headers, framing, reuse })
}

fn body_framing(status: StatusCode, headers: &HeaderMap) -> Result<BodyFraming, &'static str> {
    let has_none = status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED;
    if has_none || status.is_informational() {
        return Ok(BodyFraming::Length(0));
    }
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        let is_chunked = coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
        return match is_chunked && codings.next().is_none() {
            true => Ok(BodyFraming::Chunked(ChunkState::Size)),
            false => Err("the transfer encoding is not supported"),
        };
    }
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let Some(length) = lengths.next() else { return Ok(BodyFraming::UntilClose) };
    let digits = length.as_bytes();
    let number = std::str::from_utf8(digits).ok().and_then(|it| it.parse().ok());
    match number.filter(|_| digits.iter().all(u8::is_ascii_digit) && lengths.all(|it| it == length))
    {
        Some(number) => Ok(BodyFraming::Length(number)),
        None => Err("the content length is invalid"),
    }
}

/// Whether the head has both framing headers. An intermediary may have used the other one.
fn has_two_lengths(headers: &HeaderMap) -> bool {
    headers.contains_key(header::TRANSFER_ENCODING) && headers.contains_key(header::CONTENT_LENGTH)
}

fn has_connection_close(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CONNECTION).iter();
    let mut options = values.flat_map(|it| it.as_bytes().split(|byte| *byte == b','));
    options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use url::Url;

    use super::*;

    /// Parses a head that arrives byte by byte, and returns the bytes after it.
    fn parse_byte_by_byte(text: &str) -> Result<Option<(Http1Head, String)>, &'static str> {
        let (mut buffer, mut progress) = (BytesMut::new(), HeadProgress::default());
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            buffer.extend_from_slice(&[byte]);
            if let Some(head) = read_response_head(&mut buffer, &mut progress)? {
                buffer.extend(bytes);
                return Ok(Some((head, String::from_utf8_lossy(&buffer).into_owned())));
            }
        }
        Ok(None)
    }

    #[track_caller]
    fn check(lines: &str, framing: BodyFraming, reuse: ConnectionReuse) {
        let (head, rest) =
            parse_byte_by_byte(&format!("{lines}\r\n\r\nrest")).expect("HTTP").expect("whole");
        assert_eq!((head.framing, head.reuse, &*rest), (framing, reuse, "rest"), "{lines}");
    }

    #[test]
    fn a_head_decides_body_framing_and_connection_reuse() {
        use ConnectionReuse::{Close, Reusable};
        let chunked = BodyFraming::Chunked(ChunkState::Size);
        check("HTTP/1.1 200 OK\r\nContent-Length: 12", BodyFraming::Length(12), Reusable);
        check(
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\ncontent-length: 3",
            BodyFraming::Length(3),
            Reusable,
        );
        check("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked", chunked, Reusable);
        check(
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: x, Close",
            BodyFraming::Length(1),
            Close,
        );
        check("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked", chunked, Close);
        check("HTTP/1.1 200 OK", BodyFraming::UntilClose, Reusable);
        check("HTTP/1.0 200 OK\r\ncontent-length: 1", BodyFraming::Length(1), Close);
        check("HTTP/1.1 200 OK\ncontent-length: 1", BodyFraming::Length(1), Reusable);
        check("HTTP/1.1 204 No Content", BodyFraming::Length(0), Reusable);
        check(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 Accepted\r\ncontent-length: 0",
            BodyFraming::Length(0),
            Reusable,
        );
    }

    #[test]
    fn lines_may_end_with_a_line_feed_alone() {
        let (head, rest) = parse_byte_by_byte("HTTP/1.1 200 OK\ncontent-length: 4\n\nrest")
            .expect("HTTP")
            .expect("whole");
        assert_eq!((head.framing, &*rest), (BodyFraming::Length(4), "rest"));
    }

    #[test]
    fn an_ambiguous_response_is_an_error() {
        let check = |lines: &str, expected: &str| {
            let error = parse_byte_by_byte(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n"))
                .expect_err(lines);
            assert_eq!(error, expected, "{lines}");
        };
        check("content-length: 1\r\ncontent-length: 2", "the content length is invalid");
        check("content-length: +1", "the content length is invalid");
        check("content-length: -1", "the content length is invalid");
        check("content-length: 99999999999999999999", "the content length is invalid");
        let coding = "the transfer encoding is not supported";
        check("transfer-encoding: gzip, chunked", coding);
        check("transfer-encoding: chunked\r\ntransfer-encoding: chunked", coding);
        check("no header", "the response is not HTTP");
        check(&"a: b\r\n".repeat(MAX_HEADERS + 1), "too many headers");
    }

    #[test]
    fn invalid_or_oversized_heads_are_errors() {
        assert_eq!(parse_byte_by_byte("SSH-2.0-x").expect_err("SSH"), "the response is not HTTP");
        let upgraded =
            parse_byte_by_byte("HTTP/1.1 101 Switching Protocols\r\n\r\n").expect_err("unasked");
        assert_eq!(upgraded, "the server switched protocols without an upgrade request");
        let mut endless = BytesMut::from("HTTP/1.1 200 ");
        endless.resize(MAX_HEAD_SIZE + 1, b'a');
        assert_eq!(
            read_response_head(&mut endless, &mut HeadProgress::default()).expect_err("too large"),
            "the headers are too large"
        );
        assert!(parse_byte_by_byte("HTTP/1.1 200 OK\r\ncontent-le").expect("not yet").is_none());
    }

    #[test]
    fn interim_responses_are_limited_in_number_and_size() {
        let check = |interim: &str, count: usize, is_accepted: bool| {
            let text = format!("{}HTTP/1.1 204 No Content\r\n\r\n", interim.repeat(count));
            let (mut buffer, mut progress) = (BytesMut::from(&*text), HeadProgress::default());
            let error = read_response_head(&mut buffer, &mut progress).err();
            let expected = (!is_accepted).then_some("too many interim responses");
            assert_eq!(error, expected, "{count}");
        };
        let small = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
        check(small, MAX_INTERIM_RESPONSES, true);
        check(small, MAX_INTERIM_RESPONSES + 1, false);
        let large =
            format!("HTTP/1.1 103 Early Hints\r\nlink: {}\r\n\r\n", "a".repeat(MAX_HEAD_SIZE / 3));
        check(&large, 2, true);
        check(&large, 3, false);
    }

    #[test]
    fn a_request_head_has_the_given_headers_and_its_length() {
        let url = Url::parse("http://example.test:8080/mcp?a=b#c").expect("a URL");
        let mut headers = HeaderMap::new();
        headers.insert("x-one", HeaderValue::from_static("1"));
        headers.insert(header::HOST, HeaderValue::from_static("elsewhere"));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("999"));
        headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        let body = Bytes::from_static(b"body");
        let mut request =
            HttpRequest { method: Method::POST, url: Cow::Borrowed(&url), headers, body };
        let written = |request: &HttpRequest<'_>| {
            let (mut out, user_agent) = (Vec::new(), HeaderValue::from_static("us"));
            write_request_head(request, Some(&user_agent), &mut out).expect("it can be sent");
            String::from_utf8(out).expect("text")
        };
        assert_eq!(
            written(&request),
            "POST /mcp?a=b HTTP/1.1\r\nhost: example.test:8080\r\naccept-encoding: identity\r\n\
             x-one: 1\r\nuser-agent: us\r\ncontent-length: 4\r\n\r\n"
        );
        request.body = Bytes::new();
        request.headers.insert(header::USER_AGENT, HeaderValue::from_static("me"));
        assert!(written(&request).ends_with("user-agent: me\r\ncontent-length: 0\r\n\r\n"));
        request.method = Method::GET;
        assert!(written(&request).ends_with("user-agent: me\r\n\r\n"));
    }
}
