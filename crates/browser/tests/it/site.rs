//! A site on this machine: a small HTTP/1.1 server with fixed answers, redirects, uploads, and an answer that never comes.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// The answer to a request.
#[derive(Clone)]
pub enum Reply {
    Html(String),
    /// A file to download, with its suggested name.
    File(&'static str, Vec<u8>),
    Json(String),
    Redirect(String),
    /// A page with a status.
    Status(u16, String),
    /// Nothing, ever.
    Never,
    /// The body of the request, as text of a page.
    Echo,
}

/// One request, as the site got it.
#[derive(Debug, Clone)]
pub struct Seen {
    pub path: String,
    pub body: Vec<u8>,
}

/// A site. It stops with the process of the test.
pub struct Site {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Site {
    /// A site with answers by path.
    pub fn new(routes: &[(&str, Reply)]) -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let fill = |text: &str| text.replace("{port}", &address.port().to_string());
        let routes: HashMap<String, Reply> = routes
            .iter()
            .map(|(path, reply)| {
                let reply = match reply {
                    Reply::Html(text) => Reply::Html(fill(text)),
                    Reply::Redirect(url) => Reply::Redirect(fill(url)),
                    Reply::File(..)
                    | Reply::Json(_)
                    | Reply::Status(..)
                    | Reply::Never
                    | Reply::Echo => reply.clone(),
                };
                ((*path).to_owned(), reply)
            })
            .collect();
        let routes = Arc::new(routes);
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let log = seen.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (routes, log) = (routes.clone(), log.clone());
                thread::spawn(move || serve(stream, &routes, &log));
            }
        });
        Site { address, seen }
    }

    /// A URL of this site.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The same site under another name, which for a browser is another site.
    pub fn url_at(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.address.port())
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no panic").clone()
    }

    /// The paths of the requests so far.
    pub fn paths(&self) -> Vec<String> {
        self.seen().into_iter().map(|it| it.path).collect()
    }
}

fn serve(stream: TcpStream, routes: &HashMap<String, Reply>, log: &Mutex<Vec<Seen>>) {
    let Ok(mut writer) = stream.try_clone() else { return };
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) if line.trim().is_empty() => break,
                Ok(_) => head.push(line.trim().to_owned()),
            }
        }
        let Some(first) = head.first() else { return };
        let path = first.split(' ').nth(1).unwrap_or("/").to_owned();
        let header = |name: &str| {
            head.iter().find_map(|it| {
                let (key, value) = it.split_once(':')?;
                key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
            })
        };
        let length = header("content-length").and_then(|it| it.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        log.lock().expect("no panic").push(Seen { path: path.clone(), body: body.clone() });
        let plain = path.split('?').next().unwrap_or_default();
        let (status, headers, body) = match routes.get(plain) {
            None => (
                404,
                "Content-Type: text/html".to_owned(),
                b"<title>none</title>no such page".to_vec(),
            ),
            Some(Reply::Html(text)) => (
                200,
                "Content-Type: text/html; charset=utf-8\r\nSet-Cookie: sid=top-secret-cookie"
                    .to_owned(),
                text.clone().into_bytes(),
            ),
            Some(Reply::Json(text)) => {
                (200, "Content-Type: application/json".to_owned(), text.clone().into_bytes())
            }
            Some(Reply::File(name, bytes)) => (
                200,
                format!(
                    "Content-Type: application/octet-stream\r\nContent-Disposition: attachment; filename=\"{name}\""
                ),
                bytes.clone(),
            ),
            Some(Reply::Redirect(url)) => (302, format!("Location: {url}"), Vec::new()),
            Some(Reply::Status(status, text)) => {
                (*status, "Content-Type: text/html".to_owned(), text.clone().into_bytes())
            }
            Some(Reply::Echo) => {
                let text = String::from_utf8_lossy(&body).replace('<', "&lt;");
                (
                    200,
                    "Content-Type: text/html; charset=utf-8".to_owned(),
                    format!("<title>echo</title><pre>got: {text}</pre>").into_bytes(),
                )
            }
            Some(Reply::Never) => loop {
                // The connection stays open until the browser gives up.
                let mut byte = [0];
                match reader.read(&mut byte) {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
            },
        };
        let head =
            format!("HTTP/1.1 {status} X\r\n{headers}\r\nContent-Length: {}\r\n\r\n", body.len());
        if writer.write_all(head.as_bytes()).and_then(|()| writer.write_all(&body)).is_err() {
            return;
        }
    }
}

/// A page.
pub fn html(text: &str) -> Reply {
    Reply::Html(format!("<!doctype html><html lang=en><meta charset=utf-8>{text}</html>"))
}
