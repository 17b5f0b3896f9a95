//! Who may use the dashboard: one-time login links, and the sessions that they open. One task owns both. Only digests of
//! their secrets are kept.

use std::collections::HashMap;
use std::time::Duration;

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use switchboard_config::entry::server::sha256;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::info;

/// How long a login link can be used.
pub(crate) const LINK_TTL: Duration = Duration::from_secs(10 * 60);
/// How long a session lives without a request.
const IDLE_TTL: Duration = Duration::from_secs(8 * 3600);
/// How long a session lives.
pub(crate) const SESSION_TTL: Duration = Duration::from_secs(24 * 3600);
/// The most unused links and the most sessions. Beyond them, the oldest ends.
const MAX_LINKS: usize = 16;
const MAX_SESSIONS: usize = 64;
/// The capacity of the command queue.
const COMMAND_CAPACITY: usize = 64;

/// The digest of a secret.
type Digest = String;

/// The links and sessions. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    commands: mpsc::Sender<Command>,
}

/// A session that a request belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DashboardSession {
    /// The token that every form of the session's pages carries.
    pub(crate) page_token: String,
}

#[derive(Debug)]
enum Command {
    CreateLink { reply: oneshot::Sender<String> },
    Redeem { secret: String, reply: oneshot::Sender<Option<String>> },
    Check { secret: String, reply: oneshot::Sender<Option<DashboardSession>> },
    End { secret: String, done: oneshot::Sender<()> },
}

impl Access {
    /// No links and no sessions, and the task that owns them. It ends when the last clone is dropped.
    pub(crate) fn new() -> (Access, impl Future<Output = ()> + Send + 'static) {
        let (commands, mut receiver) = mpsc::channel(COMMAND_CAPACITY);
        let task = async move {
            let mut table = AccessTable::default();
            while let Some(command) = receiver.recv().await {
                table.apply(command, Instant::now());
            }
        };
        (Access { commands }, task)
    }

    /// The secret of a new login link. None while the gateway shuts down.
    pub(crate) async fn create_link(&self) -> Option<String> {
        let (reply, created) = oneshot::channel();
        self.commands.send(Command::CreateLink { reply }).await.ok()?;
        created.await.ok()
    }

    /// Uses up a login link, and returns the secret of a new session. None if the link is unknown, used or expired.
    pub(crate) async fn redeem(&self, secret: &str) -> Option<String> {
        let (reply, redeemed) = oneshot::channel();
        self.commands.send(Command::Redeem { secret: secret.to_owned(), reply }).await.ok()?;
        redeemed.await.ok()?
    }

    /// The session with this secret.
    pub(crate) async fn check(&self, secret: &str) -> Option<DashboardSession> {
        let (reply, checked) = oneshot::channel();
        self.commands.send(Command::Check { secret: secret.to_owned(), reply }).await.ok()?;
        checked.await.ok()?
    }

    /// Ends a session.
    pub(crate) async fn end(&self, secret: &str) {
        let (done, ended) = oneshot::channel();
        if self.commands.send(Command::End { secret: secret.to_owned(), done }).await.is_ok() {
            let _task_gone = ended.await;
        }
    }
}

#[derive(Debug)]
struct OpenSession {
    page_token: String,
    opened: Instant,
    used: Instant,
}

#[derive(Debug, Default)]
struct AccessTable {
    links: HashMap<Digest, Instant>,
    sessions: HashMap<Digest, OpenSession>,
}

impl AccessTable {
    fn apply(&mut self, command: Command, now: Instant) {
        self.remove_expired(now);
        match command {
            Command::CreateLink { reply } => {
                remove_oldest(&mut self.links, MAX_LINKS, |created| *created);
                let secret = random_secret();
                self.links.insert(digest(&secret), now);
                let _caller_gone = reply.send(secret);
            }
            Command::Redeem { secret, reply } => {
                let is_known = self.links.remove(&digest(&secret)).is_some();
                let session = is_known.then(|| self.open_session(now));
                info!(is_known, "dashboard login");
                let _caller_gone = reply.send(session);
            }
            Command::Check { secret, reply } => {
                let session = self.sessions.get_mut(&digest(&secret)).map(|open| {
                    open.used = now;
                    DashboardSession { page_token: open.page_token.clone() }
                });
                let _caller_gone = reply.send(session);
            }
            Command::End { secret, done } => {
                self.sessions.remove(&digest(&secret));
                let _caller_gone = done.send(());
            }
        }
    }

    fn open_session(&mut self, now: Instant) -> String {
        remove_oldest(&mut self.sessions, MAX_SESSIONS, |session| session.used);
        let secret = random_secret();
        let session = OpenSession { page_token: random_secret(), opened: now, used: now };
        self.sessions.insert(digest(&secret), session);
        secret
    }

    fn remove_expired(&mut self, now: Instant) {
        self.links.retain(|_, created| now.duration_since(*created) < LINK_TTL);
        self.sessions.retain(|_, it| {
            now.duration_since(it.opened) < SESSION_TTL && now.duration_since(it.used) < IDLE_TTL
        });
    }
}

/// Makes room for one more entry.
fn remove_oldest<V>(table: &mut HashMap<Digest, V>, limit: usize, age: fn(&V) -> Instant) {
    if table.len() >= limit
        && let Some(oldest) = table.iter().min_by_key(|it| age(it.1)).map(|it| it.0.clone())
    {
        table.remove(&oldest);
    }
}

/// A lookup by digest takes no longer for a secret that is nearly right.
fn digest(secret: &str) -> Digest {
    sha256(secret.as_bytes()).to_string()
}

/// 256 random bits, as text for a URL or a cookie.
fn random_secret() -> String {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).expect("the system has random numbers");
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Are both the same page token? Compares digests, so that the time says nothing about the token.
pub(crate) fn is_same_token(one: &str, other: &str) -> bool {
    digest(one) == digest(other)
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn open() -> Access {
        let (access, task) = Access::new();
        tokio::spawn(task);
        access
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_opens_one_session_and_only_in_time() {
        let access = open();
        let link = access.create_link().await.expect("the task runs");
        let session = access.redeem(&link).await.expect("it is new");
        assert_eq!(access.redeem(&link).await, None);
        assert_eq!(access.redeem("").await, None);
        let page = access.check(&session).await.expect("it is open");
        assert_eq!(access.check(&session).await, Some(page));
        let late = access.create_link().await.expect("the task runs");
        advance(LINK_TTL).await;
        assert_eq!(access.redeem(&late).await, None);
        assert!(access.check(&session).await.is_some(), "the session stays");
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_when_it_is_idle_or_old_or_ended() {
        let access = open();
        let mut sessions = Vec::new();
        for _ in 0..3 {
            let link = access.create_link().await.expect("the task runs");
            sessions.push(access.redeem(&link).await.expect("it is new"));
        }
        let [used, idle, ended] = &sessions[..] else { panic!("three") };
        access.end(ended).await;
        assert_eq!(access.check(ended).await, None);
        for _ in 0..3 {
            advance(IDLE_TTL - Duration::from_secs(1)).await;
            assert!(access.check(used).await.is_some());
        }
        assert_eq!(access.check(idle).await, None);
        advance(Duration::from_secs(3)).await;
        assert_eq!(access.check(used).await, None, "it is a day old");
    }

    #[tokio::test(start_paused = true)]
    async fn links_and_sessions_are_bounded_and_the_oldest_ends_first() {
        let access = open();
        let first = access.create_link().await.expect("the task runs");
        let mut last = first.clone();
        for _ in 0..MAX_LINKS {
            advance(Duration::from_millis(1)).await;
            last = access.create_link().await.expect("the task runs");
        }
        assert_eq!(access.redeem(&first).await, None);
        let mut sessions = vec![access.redeem(&last).await.expect("it is new")];
        for _ in 0..MAX_SESSIONS {
            advance(Duration::from_millis(1)).await;
            let link = access.create_link().await.expect("the task runs");
            sessions.push(access.redeem(&link).await.expect("it is new"));
        }
        assert_eq!(access.check(&sessions[0]).await, None);
        assert!(access.check(&sessions[1]).await.is_some());
    }

    #[test]
    fn a_page_token_is_compared_as_a_whole() {
        assert!(is_same_token("abc", "abc"));
        assert!(!is_same_token("abc", "abx") && !is_same_token("abc", ""));
    }
}
