//! Takes somebody along who signs in: opens the page, shows where it leads, and hands over what is pasted. What came
//! back is judged by `auth`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use switchboard::auth::escort::{Guide, Pasting};
use switchboard::auth::flow::Instructions;
use switchboard::auth::runner::NobodyThere;
use tokio::sync::{mpsc, oneshot, watch};
use url::Url;

use crate::screen::dialog::login_dialog::{LoginPage, Pasted, Way};
use crate::screen::questions::{Arrival, Question, Questions};
use crate::signpost::Showing;

/// Shows the way on the screen.
#[derive(Debug)]
pub struct ScreenGuide {
    questions: Questions,
    showing: Showing,
    whom: String,
    /// Was the browser opened? One tab is enough.
    is_opened: AtomicBool,
    /// Why what was pasted last was not taken.
    refusal: watch::Sender<Option<String>>,
    departures: mpsc::Sender<oneshot::Receiver<Pasted>>,
}

/// Somebody who is shown a code, and may leave. Dropping it takes the code off the screen.
#[derive(Debug)]
pub struct Departure {
    codes: mpsc::Receiver<oneshot::Receiver<Pasted>>,
}

impl Departure {
    /// Comes back when somebody who was shown a code gave up.
    pub async fn left(&mut self) {
        while let Some(code) = self.codes.recv().await {
            if code.await.is_ok() {
                return;
            }
        }
        std::future::pending().await
    }
}

impl ScreenGuide {
    /// Somebody to show the way to a server.
    pub fn new(questions: &Questions, showing: Showing, whom: &str) -> (ScreenGuide, Departure) {
        // One code a login, and one more where it is shown anew.
        let (departures, codes) = mpsc::channel(2);
        let guide = ScreenGuide {
            questions: questions.clone(),
            showing,
            whom: whom.to_owned(),
            is_opened: AtomicBool::new(false),
            refusal: watch::Sender::new(None),
            departures,
        };
        (guide, Departure { codes })
    }

    fn opened(&self, url: &Url) -> Way {
        match (self.questions.circumstances.opener)(url) {
            Ok(()) => Way::Opened,
            Err(error) => Way::NotOpened(format!("no browser could be started: {error}")),
        }
    }

    async fn pasted(&self, url: &Url) -> Option<String> {
        let mut way = match (self.showing, self.is_opened.swap(true, Ordering::Relaxed)) {
            (Showing::Browser, false) => self.opened(url),
            (Showing::Browser, true) => Way::Opened,
            (Showing::Words, _) => Way::Shown,
        };
        loop {
            let refusal = self.refusal.send_replace(None);
            let page = LoginPage { whom: self.whom.clone(), url: url.clone(), way, refusal };
            match self.questions.put(|reply| Question::SignIn(page, reply)).await {
                Some(Pasted::Text(text)) => return Some(text),
                Some(Pasted::OpenIt) => way = self.opened(url),
                Some(Pasted::GaveUp) | None => return None,
            }
        }
    }
}

impl Guide for ScreenGuide {
    fn visit<'a>(&'a self, url: &'a Url) -> Pasting<'a> {
        Box::pin(self.pasted(url))
    }

    fn not_taken(&self, why: &str) {
        self.refusal.send_replace(Some(why.to_owned()));
    }

    fn show(&self, instructions: &Instructions) -> Result<(), NobodyThere> {
        let (reply, answer) = oneshot::channel();
        let way = Way::Code {
            code: instructions.code.clone(),
            complete: instructions.complete_url.clone(),
            expires_in: Duration::from_secs(instructions.expires_in),
        };
        let url = instructions.url.clone();
        let page = LoginPage { whom: self.whom.clone(), url, way, refusal: None };
        let question = Arrival::Asked(Box::new(Question::SignIn(page, reply)));
        self.questions.arrivals.try_send(question).map_err(|_| NobodyThere)?;
        self.departures.try_send(answer).map_err(|_| NobodyThere)
    }
}
