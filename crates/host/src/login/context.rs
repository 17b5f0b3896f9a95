//! The context that all logins of a host share: options, environment, token store and HTTP client.

use std::path::PathBuf;
use std::sync::Arc;

use switchboard_auth::fetch::{Fetch, HttpFetcher};
use switchboard_auth::token_store::TokenStore;
use switchboard_auth::token_store::file_store::{FileTokenStore, StorageBackend};
use switchboard_auth::token_store::keychain::SystemKeychain;
use switchboard_auth::token_store::shared_lock::SharedlyLockedStore;
use tokio::sync::OnceCell;

use crate::failure::ConnectionFailure;
use crate::login::options::LoginOptions;
use crate::login::session_ingress::SessionToken;
use crate::sources::host_env::HostEnv;
use crate::sources::network::LazyNetwork;
use crate::storage::stderr_log::StderrLog;

/// The service name of our entry in the system's keychain.
const KEYCHAIN_SERVICE: &str = "switchboard";

/// The dependencies of logins besides the server's entry.
pub(crate) struct LoginContext {
    pub(crate) options: LoginOptions,
    pub(crate) env: HostEnv,
    pub(crate) stderr_log: StderrLog,
    /// The token of the session that this program runs in.
    pub(crate) session_token: Option<SessionToken>,
    logins_folder: PathBuf,
    network: Arc<LazyNetwork>,
    services: OnceCell<Arc<LoginServices>>,
}

impl LoginContext {
    pub(crate) fn new(
        options: LoginOptions,
        env: HostEnv,
        logins_folder: PathBuf,
        network: Arc<LazyNetwork>,
        stderr_log: StderrLog,
    ) -> LoginContext {
        let session_token = options.session_ingress.as_ref().map(|it| SessionToken::new(it, &env));
        LoginContext {
            options,
            env,
            stderr_log,
            session_token,
            logins_folder,
            network,
            services: OnceCell::new(),
        }
    }

    /// The token store and HTTP client, opened when the first login needs them.
    pub(crate) async fn services(&self) -> Result<Arc<LoginServices>, ConnectionFailure> {
        let opened = self
            .services
            .get_or_try_init(|| async { LoginServices::open(self).await.map(Arc::new) });
        opened.await.cloned()
    }
}

/// The token store and the HTTP client of all logins.
pub(crate) struct LoginServices {
    pub(crate) token_store: Arc<dyn TokenStore>,
    pub(crate) storage_backend: StorageBackend,
    pub(crate) fetch: Arc<dyn Fetch>,
    pub(crate) proxies: Vec<String>,
}

impl LoginServices {
    async fn open(context: &LoginContext) -> Result<LoginServices, ConnectionFailure> {
        let keychain = SystemKeychain::new(KEYCHAIN_SERVICE);
        let opened = FileTokenStore::open(
            &context.logins_folder,
            context.options.token_storage,
            Some(&keychain),
        )
        .await;
        let (token_store, storage_backend) = opened.map_err(|error| {
            ConnectionFailure::invalid_config(format!("the token store cannot be opened: {error}"))
        })?;
        let network = context.network.client(None)?;
        let proxies = network.proxy_hosts().to_vec();
        let own: Arc<dyn TokenStore> = Arc::new(token_store);
        let token_store = match &context.options.shared_locks {
            Some(locks) => Arc::new(SharedlyLockedStore::new(own, locks.clone())),
            None => own,
        };
        Ok(LoginServices {
            token_store,
            storage_backend,
            fetch: Arc::new(HttpFetcher::new(network)),
            proxies,
        })
    }
}
