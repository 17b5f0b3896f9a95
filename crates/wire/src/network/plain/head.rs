//! Heads of plain HTTP/1.1 messages: ours are written, the other side's are read (RFC 9112). Pure but for the buffer.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use httparse::{EMPTY_HEADER, Status};
use memchr::memmem;
use url::Position;

use super::framing::{Chunk, Framing};
use crate::network::Request;

/// How large the head of an answer may be, and how many headers it may have.
const LARGEST: usize = 400 * 1024;
const MOST: usize = 100;

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) framing: Framing,
    pub(super) afterwards: Afterwards,
}

/// What becomes of a connection after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Afterwards {
    /// It can be used again.
    Kept,
    /// It cannot.
    Closed,
}

/// Writes the head of a request. Who asks is said unless the request says so itself.
pub(super) fn write(
    request: &Request<'_>,
    agent: Option<&HeaderValue>,
    out: &mut Vec<u8>,
) -> Result<(), &'static str> {
    let target = &request.url[Position::BeforePath..Position::AfterQuery];
    let host = &request.url[Position::BeforeHost..Position::AfterPort];
    if !target.bytes().chain(host.bytes()).all(|byte| byte.is_ascii_graphic()) {
        return Err("the URL has signs that cannot be sent");
    }
    out.extend_from_slice(request.method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(if target.is_empty() { b"/" } else { target.as_bytes() });
    out.extend_from_slice(b" HTTP/1.1\r\nhost: ");
    out.extend_from_slice(host.as_bytes());
    // Nothing here unpacks anything.
    out.extend_from_slice(b"\r\naccept-encoding: identity\r\n");
    let mut is_named = false;
    for (name, value) in &request.headers {
        if !is_ours(name) {
            is_named |= *name == header::USER_AGENT;
            put(name, value, out);
        }
    }
    if let Some(agent) = agent.filter(|_| !is_named) {
        put(&header::USER_AGENT, agent, out);
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

/// Is the header one that only this file may write? Two words on where a message ends are one too many.
fn is_ours(name: &HeaderName) -> bool {
    *name == header::HOST
        || *name == header::CONTENT_LENGTH
        || *name == header::TRANSFER_ENCODING
        || *name == header::ACCEPT_ENCODING
}

fn put(name: &HeaderName, value: &HeaderValue, out: &mut Vec<u8>) {
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

/// Takes the head of an answer out of what was read, once it is whole. `searched` is how much was looked at before.
/// Interim answers are passed over.
pub(super) fn read(
    buffer: &mut BytesMut,
    searched: &mut usize,
) -> Result<Option<Head>, &'static str> {
    const BEGINNING: &[u8] = b"HTTP/";
    loop {
        // Who speaks something else may never come to an empty line.
        let known = buffer.len().min(BEGINNING.len());
        if buffer[..known] != BEGINNING[..known] {
            return Err("no answer in HTTP");
        }
        let Some(end) = end_of_head(buffer, searched) else {
            let is_too_large = buffer.len() > LARGEST;
            return if is_too_large { Err("the headers are too large") } else { Ok(None) };
        };
        let text = buffer.split_to(end).freeze();
        *searched = 0;
        let head = parse(&text)?;
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err("another protocol that nobody asked for");
        }
        if !head.status.is_informational() {
            return Ok(Some(head));
        }
    }
}

/// Where the head ends. It is searched once, however slowly it comes.
fn end_of_head(buffer: &[u8], searched: &mut usize) -> Option<usize> {
    // An empty line. Its own end and that of the line before may be a line feed alone (RFC 9112, section 2.2).
    const ENDS: [&[u8]; 2] = [b"\n\r\n", b"\n\n"];
    let from = searched.saturating_sub(2);
    let found = ENDS.iter().filter_map(|end| Some(memmem::find(&buffer[from..], end)? + end.len()));
    *searched = buffer.len();
    found.min().map(|end| from + end).filter(|end| *end <= LARGEST)
}

fn parse(text: &Bytes) -> Result<Head, &'static str> {
    let mut headers = [EMPTY_HEADER; MOST];
    let mut answer = httparse::Response::new(&mut headers);
    match answer.parse(text) {
        Ok(Status::Complete(_)) => {}
        Ok(Status::Partial) => return Err("no answer in HTTP"),
        Err(httparse::Error::TooManyHeaders) => return Err("too many headers"),
        Err(_) => return Err("no answer in HTTP"),
    }
    let status = answer.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or("an answer without a status")?;
    let mut headers = HeaderMap::with_capacity(answer.headers.len());
    for header in answer.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        let value = HeaderValue::from_maybe_shared(text.slice_ref(header.value));
        let (Ok(name), Ok(value)) = (name, value) else { return Err("a header that is none") };
        headers.append(name, value);
    }
    let framing = framing(status, &headers)?;
    let afterwards = match answer.version {
        Some(1) if !says_close(&headers) && !is_ambiguous(&headers) => Afterwards::Kept,
        Some(_) | None => Afterwards::Closed,
    };
    Ok(Head { status, headers, framing, afterwards })
}

fn framing(status: StatusCode, headers: &HeaderMap) -> Result<Framing, &'static str> {
    let has_none = status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED;
    if has_none || status.is_informational() {
        return Ok(Framing::Length(0));
    }
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        let is_chunked = coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
        return match is_chunked && codings.next().is_none() {
            true => Ok(Framing::Chunked(Chunk::Size)),
            false => Err("an answer in a coding that was not asked for"),
        };
    }
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let Some(length) = lengths.next() else { return Ok(Framing::ToTheEnd) };
    let digits = length.as_bytes();
    let number = std::str::from_utf8(digits).ok().and_then(|it| it.parse().ok());
    match number.filter(|_| digits.iter().all(u8::is_ascii_digit) && lengths.all(|it| it == length))
    {
        Some(number) => Ok(Framing::Length(number)),
        None => Err("a length that is none"),
    }
}

/// Are there two words on where the answer ends? Whoever stands in between may have believed the other one.
fn is_ambiguous(headers: &HeaderMap) -> bool {
    headers.contains_key(header::TRANSFER_ENCODING) && headers.contains_key(header::CONTENT_LENGTH)
}

fn says_close(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CONNECTION).iter();
    let mut words = values.flat_map(|it| it.as_bytes().split(|byte| *byte == b','));
    words.any(|word| word.trim_ascii().eq_ignore_ascii_case(b"close"))
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use url::Url;

    use super::*;

    /// Reads a head that comes byte by byte, and what is left behind it.
    fn heard(text: &str) -> Result<Option<(Head, String)>, &'static str> {
        let (mut buffer, mut searched) = (BytesMut::new(), 0);
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            buffer.extend_from_slice(&[byte]);
            if let Some(head) = read(&mut buffer, &mut searched)? {
                buffer.extend(bytes);
                return Ok(Some((head, String::from_utf8_lossy(&buffer).into_owned())));
            }
        }
        Ok(None)
    }

    #[track_caller]
    fn check(lines: &str, framing: Framing, afterwards: Afterwards) {
        let (head, rest) = heard(&format!("{lines}\r\n\r\nrest")).expect("HTTP").expect("whole");
        assert_eq!(
            (head.framing, head.afterwards, &*rest),
            (framing, afterwards, "rest"),
            "{lines}"
        );
    }

    #[test]
    fn where_an_answer_ends_and_what_becomes_of_its_connection() {
        use Afterwards::{Closed, Kept};
        let chunked = Framing::Chunked(Chunk::Size);
        check("HTTP/1.1 200 OK\r\nContent-Length: 12", Framing::Length(12), Kept);
        check(
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\ncontent-length: 3",
            Framing::Length(3),
            Kept,
        );
        check("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked", chunked, Kept);
        check(
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: x, Close",
            Framing::Length(1),
            Closed,
        );
        check(
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked",
            chunked,
            Closed,
        );
        check("HTTP/1.1 200 OK", Framing::ToTheEnd, Kept);
        check("HTTP/1.0 200 OK\r\ncontent-length: 1", Framing::Length(1), Closed);
        check("HTTP/1.1 200 OK\ncontent-length: 1", Framing::Length(1), Kept);
        check("HTTP/1.1 204 No Content", Framing::Length(0), Kept);
        check(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 Accepted\r\ncontent-length: 0",
            Framing::Length(0),
            Kept,
        );
    }

    #[test]
    fn lines_may_end_with_a_line_feed_alone() {
        let (head, rest) =
            heard("HTTP/1.1 200 OK\ncontent-length: 4\n\nrest").expect("HTTP").expect("whole");
        assert_eq!((head.framing, &*rest), (Framing::Length(4), "rest"));
    }

    #[test]
    fn an_answer_that_can_be_read_in_two_ways_is_refused() {
        let check = |lines: &str, expected: &str| {
            let told = heard(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n")).expect_err(lines);
            assert_eq!(told, expected, "{lines}");
        };
        check("content-length: 1\r\ncontent-length: 2", "a length that is none");
        check("content-length: +1", "a length that is none");
        check("content-length: -1", "a length that is none");
        check("content-length: 99999999999999999999", "a length that is none");
        let coding = "an answer in a coding that was not asked for";
        check("transfer-encoding: gzip, chunked", coding);
        check("transfer-encoding: chunked\r\ntransfer-encoding: chunked", coding);
        check("no header", "no answer in HTTP");
        check(&"a: b\r\n".repeat(MOST + 1), "too many headers");
    }

    #[test]
    fn what_is_no_answer_or_too_large_is_refused() {
        assert_eq!(heard("SSH-2.0-x").expect_err("SSH"), "no answer in HTTP");
        let upgraded = heard("HTTP/1.1 101 Switching Protocols\r\n\r\n").expect_err("unasked");
        assert_eq!(upgraded, "another protocol that nobody asked for");
        let mut endless = BytesMut::from("HTTP/1.1 200 ");
        endless.resize(LARGEST + 1, b'a');
        assert_eq!(read(&mut endless, &mut 0).expect_err("too large"), "the headers are too large");
        assert!(heard("HTTP/1.1 200 OK\r\ncontent-le").expect("not yet").is_none());
    }

    #[test]
    fn a_request_says_what_it_was_given_and_where_it_ends() {
        let url = Url::parse("http://example.test:8080/mcp?a=b#c").expect("a URL");
        let mut headers = HeaderMap::new();
        headers.insert("x-one", HeaderValue::from_static("1"));
        headers.insert(header::HOST, HeaderValue::from_static("elsewhere"));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("999"));
        headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        let body = Bytes::from_static(b"body");
        let mut request = Request { method: Method::POST, url: Cow::Borrowed(&url), headers, body };
        let written = |request: &Request<'_>| {
            let (mut out, agent) = (Vec::new(), HeaderValue::from_static("us"));
            write(request, Some(&agent), &mut out).expect("it can be sent");
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
