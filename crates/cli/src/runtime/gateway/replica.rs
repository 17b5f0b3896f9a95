//! What a replica of a gateway shares with others: opens the store, the keys and the listener, and watches the key files.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use switchboard::config::display::printable;
use switchboard::config::template::{Template, TextSegment};
use switchboard::sources::secrets;
use switchboard_gateway::{
    RedisStore, ReplicaListener, SealKeyFiles, SessionPolicy, SessionsWhileAway, SharedState,
    SocketSharing, StoreChoice, StoreTarget,
};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::output::report;
use crate::runtime::gateway::{ListenMode, listening};

/// How often the key files are checked for changes.
const KEY_FILE_POLL: Duration = Duration::from_secs(2);
/// How long a replica has to leave. The others notice by themselves if it does not tell them.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Options for replicas.
#[derive(Debug, Clone, Default)]
pub struct ReplicaOptions {
    /// The URL of the store, with secret references.
    pub store: Option<String>,
    /// The file with the certificate authorities of the store.
    pub store_authorities: Option<PathBuf>,
    /// The beginning of the keys in the store.
    pub store_prefix: String,
    /// What happens to new sessions while the store is away.
    pub sessions_while_away: SessionsWhileAway,
    /// The files with the keys that seal; none if replicas share nothing.
    pub seal_keys: Vec<PathBuf>,
    /// Where other replicas send requests.
    pub address: Option<String>,
    /// Where this replica listens for them, if that is another address.
    pub listen: Option<SocketAddr>,
    /// Which clients have sessions.
    pub sessions: SessionPolicy,
}

/// A replica that has started.
#[derive(Debug)]
pub struct Replica {
    /// What it shares.
    pub shared: SharedState,
    /// Where other replicas send requests.
    pub listener: ReplicaListener,
    keys: SealKeyFiles,
    tasks: Vec<JoinHandle<()>>,
}

impl Replica {
    /// Opens what the options name; `None` if the gateway shares nothing.
    pub async fn open(
        invocation: &Invocation,
        options: &ReplicaOptions,
        (http, mode): (SocketAddr, ListenMode),
    ) -> Result<Option<Replica>, Failure> {
        if options.seal_keys.is_empty() {
            return Ok(None);
        }
        let keys = seal_keys(options)?;
        let (listener, address) = listen(invocation, options, (http, mode)).await?;
        let mut tasks = Vec::new();
        let store = match &options.store {
            None => StoreChoice::None,
            Some(url) => {
                let target = store_target(invocation, url, options.store_authorities.as_ref())?;
                let (store, connecting) = RedisStore::new(target, &options.store_prefix);
                tasks.push(tokio::spawn(connecting));
                StoreChoice::Redis(Box::new(store))
            }
        };
        let while_away = options.sessions_while_away;
        let (shared, running) = SharedState::open(&keys, store, &address, while_away);
        tasks.push(tokio::spawn(running));
        Ok(Some(Replica { shared, listener, keys, tasks }))
    }

    /// What the gateway gets, and what is left to do besides.
    pub fn split(self) -> (SharedState, ReplicaListener, ReplicaTasks) {
        let Replica { shared, listener, keys, tasks } = self;
        (shared, listener, ReplicaTasks { keys: Some(keys), tasks })
    }
}

/// What runs besides the gateway of a replica.
#[derive(Debug, Default)]
pub struct ReplicaTasks {
    keys: Option<SealKeyFiles>,
    tasks: Vec<JoinHandle<()>>,
}

impl ReplicaTasks {
    /// Reads the key files again when they change. After an error, the last keys stay in use. Runs until it is dropped.
    pub async fn watch_keys(&mut self) {
        let Some(keys) = &mut self.keys else { return std::future::pending().await };
        let mut last_error = String::new();
        loop {
            tokio::time::sleep(KEY_FILE_POLL).await;
            let now = match keys.reload() {
                Ok(true) => {
                    report::print_stderr("note: the seal keys have changed\n");
                    String::new()
                }
                Ok(false) => String::new(),
                Err(error) => error.to_string(),
            };
            if now != last_error && !now.is_empty() {
                report::print_stderr(&format!(
                    "{}; the seal keys that were read last stay in use\n",
                    printable(&now)
                ));
            }
            last_error = now;
        }
    }

    /// Waits until the replica has left, which it does when its gateway has ended, or until the time for it is over.
    pub async fn finish(self) {
        let deadline = Instant::now() + LEAVE_TIMEOUT;
        for mut task in self.tasks {
            if timeout_at(deadline, &mut task).await.is_err() {
                task.abort();
            }
        }
    }
}

impl ReplicaOptions {
    /// Checks what [`Replica::open`] would open, without connecting to the store. The port of the address may be in use,
    /// by a replica that runs.
    pub fn check(&self, invocation: &Invocation, http: SocketAddr) -> Result<(), Failure> {
        if self.seal_keys.is_empty() {
            return Ok(());
        }
        seal_keys(self)?;
        let wanted = wanted_address(self, http)?;
        let addresses = wanted.to_socket_addrs();
        let addresses: Vec<_> = addresses.map_err(|error| cannot_listen(&wanted, error))?.collect();
        let unspecified = addresses.iter().find(|it| it.ip().is_unspecified());
        if let (Some(unspecified), None) = (unspecified, self.listen) {
            return Err(unreachable(unspecified.ip()));
        }
        let free_ports: Vec<_> = addresses.iter().map(|it| SocketAddr::new(it.ip(), 0)).collect();
        std::net::TcpListener::bind(&*free_ports).map_err(|error| cannot_listen(&wanted, error))?;
        if let Some(url) = &self.store {
            store_target(invocation, url, self.store_authorities.as_ref())?;
        }
        Ok(())
    }
}

fn seal_keys(options: &ReplicaOptions) -> Result<SealKeyFiles, Failure> {
    SealKeyFiles::open(options.seal_keys.clone()).map_err(|error| {
        Failure::new(Exit::Usage, "--seal-key").caused_by(error).hint(
            "make a key with `umask 077; openssl rand -base64 32 > seal.key`, the same file for all replicas",
        )
    })
}

fn unreachable(ip: IpAddr) -> Failure {
    let message = format!("--replica-address is missing: other replicas cannot connect to {ip}");
    Failure::new(Exit::Usage, &message)
        .hint("name an address of this machine, for example `--replica-address 10.0.0.7:8809`")
}

fn cannot_listen(address: &str, error: io::Error) -> Failure {
    let message = format!("--replica-address: cannot listen at {}", printable(address));
    Failure::new(Exit::Usage, &message).caused_by(error)
}

/// Where to listen for other replicas.
fn wanted_address(options: &ReplicaOptions, http: SocketAddr) -> Result<String, Failure> {
    match (options.listen, &options.address) {
        (Some(listen), _) => Ok(listen.to_string()),
        (None, Some(address)) => Ok(address.clone()),
        (None, None) if http.ip().is_unspecified() => Err(unreachable(http.ip())),
        (None, None) => Ok(SocketAddr::new(http.ip(), 0).to_string()),
    }
}

/// The listener for other replicas, and the address at which they reach it.
async fn listen(
    invocation: &Invocation,
    options: &ReplicaOptions,
    (http, mode): (SocketAddr, ListenMode),
) -> Result<(ReplicaListener, String), Failure> {
    let wanted = wanted_address(options, http)?;
    let failure = |error: io::Error| cannot_listen(&wanted, error);
    let taken = match mode {
        ListenMode::Open => None,
        ListenMode::Takeover => {
            listening::take_replica_listener(invocation, &wanted).await.map_err(failure)?
        }
    };
    let (listener, sharing) = match taken {
        Some(listener) => (listener, SocketSharing::WithPredecessor),
        None => (TcpListener::bind(&wanted).await.map_err(failure)?, SocketSharing::Alone),
    };
    let bound = listener.local_addr().map_err(|error| {
        Failure::new(Exit::Failure, "--replica-address: no address").caused_by(error)
    })?;
    let address = match (options.listen, &options.address) {
        (Some(_), Some(address)) => address.clone(),
        (Some(_), None) | (None, _) if bound.ip().is_unspecified() => {
            return Err(unreachable(bound.ip()));
        }
        (Some(_), None) | (None, _) => bound.to_string(),
    };
    Ok((ReplicaListener { listener, sharing }, address))
}

/// The store of a URL whose secrets are put in.
fn store_target(
    invocation: &Invocation,
    url: &str,
    authorities: Option<&PathBuf>,
) -> Result<StoreTarget, Failure> {
    let authorities = authorities.map(std::fs::read).transpose().map_err(|error| {
        Failure::new(Exit::Usage, "--store-ca: the file cannot be read").caused_by(error)
    })?;
    let url = revealed_url(invocation, url)?;
    StoreTarget::parse(&url, authorities.as_deref())
        .map_err(|error| Failure::new(Exit::Usage, "--store").caused_by(error))
}

/// Puts secrets and variables into a URL. Their characters are escaped, so that a password may have any.
fn revealed_url(invocation: &Invocation, url: &str) -> Result<String, Failure> {
    let mut missing = BTreeSet::new();
    let text = Template::parse(url).expand(&invocation.env.template_environment(), &mut missing);
    if let Some(name) = missing.first() {
        let message = format!("--store: the variable {} is not set", printable(name));
        return Err(Failure::new(Exit::Usage, &message));
    }
    let mut revealed = String::new();
    for segment in text.segments() {
        match segment {
            TextSegment::Plain(plain) => revealed.push_str(plain),
            TextSegment::Variable { value, .. } => revealed.push_str(&percent_encoded(value)),
            TextSegment::Secret(reference) => {
                let secret = secrets::fetch_secret(reference, &invocation.env.home);
                let secret = secret.map_err(|error| {
                    Failure::new(Exit::Configuration, "--store").caused_by(error)
                })?;
                revealed.push_str(&percent_encoded(secret.reveal()));
            }
        }
    }
    Ok(revealed)
}

fn percent_encoded(text: &str) -> String {
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"-._~".contains(&it);
    text.bytes()
        .map(|it| match is_plain(it) {
            true => char::from(it).to_string(),
            false => format!("%{it:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_may_have_any_character() {
        assert_eq!(percent_encoded("a/b@c:%d é"), "a%2Fb%40c%3A%25d%20%C3%A9");
    }
}
