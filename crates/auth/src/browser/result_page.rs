//! The page that the browser shows after the redirect. Foreign text is escaped, and the page loads nothing.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;

/// The content of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultPage {
    /// The login succeeded.
    SignedIn {
        /// The name of the server.
        server: String,
    },
    /// The login failed.
    Failed {
        /// The reason.
        why: String,
    },
    /// The callback does not belong to this login.
    Rejected {
        /// The reason.
        why: String,
    },
    /// The result is not known here.
    Unknown,
    /// There is no such page.
    NotFound,
    /// The `Host` header does not name this machine.
    Forbidden,
}

/// The maximum length of foreign text.
const MAX_TEXT_LENGTH: usize = 500;

impl ResultPage {
    fn text(&self) -> (&'static str, String) {
        match self {
            ResultPage::SignedIn { server } => (
                "You are signed in",
                format!(
                    "Switchboard can now use <b>{}</b>. You can close this page.",
                    escape_html(server)
                ),
            ),
            ResultPage::Failed { why } => (
                "Signing in failed",
                format!("{}. Go back to the terminal to see what to do.", escape_html(why)),
            ),
            ResultPage::Rejected { why } => (
                "This is not the response that Switchboard waits for",
                format!("{}. Use the page that was opened last.", escape_html(why)),
            ),
            ResultPage::Unknown => (
                "Go back to the terminal",
                "Switchboard received the response. See the terminal for the result.".to_owned(),
            ),
            ResultPage::NotFound => {
                ("There is nothing here", "You can close this page.".to_owned())
            }
            ResultPage::Forbidden => {
                ("Request refused", "The request was not meant for this machine.".to_owned())
            }
        }
    }

    /// The HTTP response.
    pub(crate) fn response(&self, status: StatusCode) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(self.html())));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        for (name, value) in [
            (header::CONTENT_TYPE, "text/html; charset=utf-8"),
            (header::CACHE_CONTROL, "no-store"),
            (header::REFERRER_POLICY, "no-referrer"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::X_FRAME_OPTIONS, "DENY"),
            (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }

    fn html(&self) -> String {
        let (title, text) = self.text();
        format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
             <style>body{{font:16px/1.5 system-ui,sans-serif;max-width:34em;margin:15vh auto;\
             padding:0 1em;color-scheme:light dark}}</style></head>\
             <body><h1>{title}</h1><p>{text}</p></body></html>"
        )
    }
}

fn escape_html(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars().filter(|character| !character.is_control()).take(MAX_TEXT_LENGTH)
    {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_escaped() {
        let evil = "<script>alert('x')</script>\"&\u{1b}[31m";
        for page in [
            ResultPage::SignedIn { server: evil.to_owned() },
            ResultPage::Failed { why: evil.to_owned() },
            ResultPage::Rejected { why: evil.to_owned() },
        ] {
            let html = page.html();
            assert!(!html.contains("<script") && !html.contains('\u{1b}'), "{html}");
            assert!(
                html.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;[31m")
            );
        }
        let long = ResultPage::Failed { why: "<".repeat(10_000) }.html();
        assert!(long.len() < 4_000);
    }

    #[test]
    fn a_page_loads_nothing_and_is_not_cached() {
        let response = ResultPage::Unknown.response(StatusCode::OK);
        assert_eq!(response.headers()["cache-control"], "no-store");
        assert!(
            response.headers()["content-security-policy"]
                .to_str()
                .expect("text")
                .starts_with("default-src 'none'")
        );
    }
}
