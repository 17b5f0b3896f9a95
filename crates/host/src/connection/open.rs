//! Opens a connection: waits for a slot, fetches secrets, connects, signs in where the server requires it, and stores
//! what the attempt showed about the server.

use std::sync::Arc;

use switchboard_auth::scopes::StepUpLimit;
use switchboard_config::entry::server::{TransportConfig, TransportKind};
use switchboard_share::protocol::Reuse;
use switchboard_wire::client::handshake::EraHint;
use switchboard_wire::connect;
use switchboard_wire::connect::{
    Address, AttachError, ConnectError, ConnectErrorKind, ConnectOptions, Connection,
    NotSharedCause,
};
use switchboard_wire::http::client::HttpClient;
use switchboard_wire::process::child::ProcessOptions;
use switchboard_wire::protocol::capabilities::ClientDescription;
use switchboard_wire::protocol::era::Era;
use tokio::sync::{Notify, SemaphorePermit, watch};
use tracing::info;

use crate::connection::context::ConnectionContext;
use crate::connection::credentials;
use crate::connection::credentials::Credentials;
use crate::connection::resolve;
use crate::connection::start_window;
use crate::failure::{ConnectionFailure, Evidence, FailureClass, FailureKind, error_chain};
use crate::ide::is_ide;
use crate::login::auth_required::cache_key;
use crate::login::headers_helper;
use crate::login::options::LoginRequest;
use crate::login::server_login::{LoginSlot, ServerLogin};
use crate::sharing::ShareableProgram;
use crate::sources::desired_server::DesiredServer;
use crate::sources::network;
use crate::storage::ttl_cache::CacheEdit;

/// The connection to open.
#[derive(Clone)]
pub(super) struct OpenRequest {
    pub(super) desired: DesiredServer,
    pub(super) client_info: ClientDescription,
    pub(super) context: Arc<ConnectionContext>,
    pub(super) login_slot: LoginSlot,
    /// Notified when a caller waits for the connection: the attempt does not wait for a slot any more.
    pub(super) expedited: Arc<Notify>,
    /// Whether to connect even where the cache says that the server requires a login.
    pub(super) ignore_auth_cache: bool,
    /// Whether a copy of the program that other sessions use will do.
    pub(super) reuse: Reuse,
}

/// Opens a connection; the user signs in on the way, where the server requires it and there is a guide. The slot is
/// not held while the user signs in.
pub(super) async fn open_with_login(
    mut request: OpenRequest,
) -> Result<Connection, ConnectionFailure> {
    let context = request.context.clone();
    if credentials::uses_session(&request.desired, &context.login) {
        // The token may have been renewed since a server refused it.
        request.ignore_auth_cache = true;
        return open(&request, None).await;
    }
    let Some(login) = request.login_slot.login(&request.desired, &context.login).await? else {
        // A headers helper may print other headers now than those that were refused.
        request.ignore_auth_cache |= headers_helper::command(&request.desired.spec).is_some();
        return open(&request, None).await;
    };
    let mut step_ups = StepUpLimit::default();
    request.ignore_auth_cache |= login.has_login().await;
    loop {
        let cause = match open(&request, Some(&login)).await {
            Ok(connection) => return Ok(connection),
            Err(cause) => cause,
        };
        let is_rejected = matches!(cause.kind, FailureKind::AuthRequired | FailureKind::Forbidden);
        let guide = context.login.options.guide.as_deref();
        let (Some(guide), true) = (guide.filter(|_| is_rejected), step_ups.try_acquire()) else {
            return Err(with_login_error(cause, &login));
        };
        if let Err(error) = login.sign_in(guide, &LoginRequest::default()).await {
            return Err(cause.with_evidence(Evidence::Detail(error_chain(&error))));
        }
        request.ignore_auth_cache = true;
    }
}

/// Adds the state of the login to a failure: a server that rejects us while a refresh fails only for now does not
/// require another login.
pub(super) async fn explain_auth_failure(
    cause: ConnectionFailure,
    login_slot: &LoginSlot,
    desired: &DesiredServer,
    context: &ConnectionContext,
) -> ConnectionFailure {
    if cause.kind != FailureKind::AuthRequired {
        return cause;
    }
    if let Some(explained) = credentials::explain_shared_session(&cause, desired, context).await {
        return explained;
    }
    match login_slot.login(desired, &context.login).await {
        Ok(Some(login)) => with_login_error(cause, &login),
        Ok(None) | Err(_) => cause,
    }
}

/// A failure with the last error of the login, where there is one.
fn with_login_error(cause: ConnectionFailure, login: &ServerLogin) -> ConnectionFailure {
    match (&cause.kind, login.last_error()) {
        (FailureKind::AuthRequired, Some(error)) => {
            let kind = match login.may_refresh_later() {
                true => FailureKind::LoginNotRefreshed,
                false => FailureKind::AuthRequired,
            };
            ConnectionFailure { kind, ..cause }.with_evidence(Evidence::Detail(error))
        }
        (_, _) => cause,
    }
}

async fn open(
    request: &OpenRequest,
    login: Option<&Arc<ServerLogin>>,
) -> Result<Connection, ConnectionFailure> {
    let OpenRequest { desired, context, .. } = request;
    let slots = match desired.spec.transport.kind() {
        TransportKind::Stdio => &context.local_slots,
        TransportKind::Sse
        | TransportKind::Http
        | TransportKind::Ws
        | TransportKind::SseIde
        | TransportKind::WsIde
        | TransportKind::Sdk
        | TransportKind::ConnectorProxy => &context.remote_slots,
    };
    let slot = tokio::select! {
        biased;
        slot = slots.acquire() => slot.ok(),
        () = request.expedited.notified() => None,
    };
    let key = cache_key(desired.name(), &desired.fingerprint);
    let prepared = {
        let _slot = context.blocking_slots.acquire().await;
        let (request, key) = (request.clone(), key.clone());
        tokio::task::spawn_blocking(move || prepare(&request, &key)).await
    };
    let PreparedAttempt { address, shared, era_hint, http_client } =
        prepared.unwrap_or_else(|_| Err(ConnectionFailure::new(FailureKind::InvalidConfig)))?;
    let credentials = Credentials::load(desired, &address, login, context).await?;
    // A headers helper may have been slow; it must not hold up the attempts that wait for a slot.
    let mut slot = slot.filter(|_| !credentials.ran_command());
    let address = credentials.apply(address);
    let (stderr, log_task) = context.stderr_log.sender(desired.name());
    let (started, program) = watch::channel(None);
    let mut options = ConnectOptions {
        client: request.client_info.clone(),
        era_hint,
        timeout: desired.spec.common.connect_timeout.unwrap_or(context.connect_timeout),
        process_options: ProcessOptions {
            process_set: context.descendants,
            stderr: Some(stderr),
            started: Some(started),
            ..ProcessOptions::default()
        },
        http_client,
    };
    let mut connected = None;
    if let Some((shared_address, client)) = shared {
        options.client = client;
        match connect_in_window(&shared_address, &options, &mut slot, program.clone()).await {
            Err(ConnectError { kind: ConnectErrorKind::NotShared(error), .. }) => {
                note_not_shared(request, &key, &error);
                options.client = request.client_info.clone();
            }
            outcome => connected = Some(outcome),
        }
    }
    let connected = match connected {
        Some(outcome) => outcome,
        None => {
            if let Address::Stdio(_) = &address {
                // It is a process of its own, so it is started for programs that this process runs.
                options.process_options.watchdog = context.watchdog.get();
            }
            connect_in_window(&address, &options, &mut slot, program).await
        }
    };
    // The log task ends with the process whose output it writes.
    drop((options, log_task));
    let connected = match connected {
        Ok(connection) => Ok(connection),
        Err(error) if is_ide(desired.spec.transport.kind()) => Err(ide_failure(&error)),
        Err(error) => Err(credentials.explain(connect_failure(&error, &address), context).await),
    };
    if !is_ide(desired.spec.transport.kind()) {
        AttemptOutcome::of(&connected).save(context, key);
    }
    connected
}

/// Connects. The slot is released when the server is connected or clearly waits, so that a slow server delays no other.
async fn connect_in_window(
    address: &Address,
    options: &ConnectOptions,
    slot: &mut Option<SemaphorePermit<'_>>,
    program: watch::Receiver<Option<u32>>,
) -> Result<Connection, ConnectError> {
    let connecting = connect::connect(address, options);
    tokio::pin!(connecting);
    tokio::select! {
        biased;
        connected = &mut connecting => return connected,
        () = start_window::until_waiting(program) => drop(slot.take()),
    }
    connecting.await
}

/// The address of a copy of the program that other sessions use as well, if this server is shared.
fn shared_address(
    request: &OpenRequest,
    address: &Address,
) -> Option<(Address, ClientDescription)> {
    let Address::Stdio(program) = address else { return None };
    // The messages of a channel are for the session that was started with it.
    if request.context.channels.selects(&request.desired) {
        return None;
    }
    request.context.sharing.as_ref()?.address(&ShareableProgram {
        desired: &request.desired,
        program,
        home: &request.context.env.home,
        client: &request.client_info,
        reuse: request.reuse,
    })
}

/// Remembers a server that belongs to one session. Otherwise the shared host cannot be used now, and this session runs
/// its own copy.
fn note_not_shared(request: &OpenRequest, key: &str, error: &AttachError) {
    let AttachError::NotShared { reason, cause } = error else { return };
    let server = request.desired.name();
    info!(server, ?cause, "not shared: this session runs its own copy");
    if let (NotSharedCause::Server, Some(sharing)) = (cause, &request.context.sharing) {
        let edit = CacheEdit::Put { key: key.to_owned(), value: reason.clone() };
        request.context.state_writer.edit(&sharing.session_bound_cache, edit);
    }
}

/// Facts about a server that an attempt found.
enum AttemptOutcome {
    Era(Era),
    AuthRequired,
    Nothing,
}

impl AttemptOutcome {
    fn of(connected: &Result<Connection, ConnectionFailure>) -> AttemptOutcome {
        match connected {
            Ok(connection) => AttemptOutcome::Era(connection.client.server().era),
            // It is about no server, and ends when the session is renewed.
            Err(ConnectionFailure { kind: FailureKind::SessionRefused(_), .. }) => {
                AttemptOutcome::Nothing
            }
            Err(cause) => match cause.class() {
                FailureClass::AuthRequired => AttemptOutcome::AuthRequired,
                FailureClass::Transient | FailureClass::Permanent => AttemptOutcome::Nothing,
            },
        }
    }

    fn save(self, context: &ConnectionContext, key: String) {
        let writer = &context.state_writer;
        match self {
            AttemptOutcome::Era(era) => {
                // An unchanged entry keeps its age, so that a legacy server is probed again when it expires.
                let value = era.as_str().to_owned();
                writer
                    .edit(&context.era_cache, CacheEdit::PutIfChanged { key: key.clone(), value });
                writer.edit(&context.auth_required_cache, CacheEdit::Remove { key });
            }
            AttemptOutcome::AuthRequired => {
                let edit = CacheEdit::Put { key, value: "401".to_owned() };
                writer.edit(&context.auth_required_cache, edit);
            }
            AttemptOutcome::Nothing => {}
        }
    }
}

/// What an attempt needs that takes time to find out.
struct PreparedAttempt {
    address: Address,
    /// A copy of the program that other sessions use, and the description of ourselves for it.
    shared: Option<(Address, ClientDescription)>,
    era_hint: EraHint,
    http_client: Option<HttpClient>,
}

/// Reads caches and fetches secrets. Blocks.
fn prepare(request: &OpenRequest, key: &str) -> Result<PreparedAttempt, ConnectionFailure> {
    let OpenRequest { desired, context, .. } = request;
    if let Some(plugin) = &desired.plugin {
        // A plugin finds its folder for data. Where it cannot be made, the plugin's server says so.
        let folder = context.paths.plugin_data().join(plugin.data_folder());
        let _reported_by_the_server = std::fs::create_dir_all(folder);
    }
    if !request.ignore_auth_cache && context.auth_required_cache.get(key).is_some() {
        let detail =
            "the server required a login less than 15 minutes ago; `swb reconnect` tries again";
        let kind = match credentials::uses_account(desired) {
            true => FailureKind::ConnectorLoginRequired {
                manage_url: context
                    .login
                    .options
                    .account
                    .as_ref()
                    .and_then(|it| it.manage_url.clone()),
            },
            false => FailureKind::AuthRequired,
        };
        return Err(ConnectionFailure::new(kind).with_evidence(Evidence::Detail(detail.to_owned())));
    }
    let in_process = context.in_process.of_definition(desired.name());
    let hosted_hint = match &desired.spec.transport {
        TransportConfig::Sdk { name } => in_process.find(name).map(|it| it.era_hint()),
        TransportConfig::Stdio(_)
        | TransportConfig::Http(_)
        | TransportConfig::Sse(_)
        | TransportConfig::Ws(_)
        | TransportConfig::SseIde(_)
        | TransportConfig::WsIde(_)
        | TransportConfig::ConnectorProxy(_) => None,
    };
    let remembered_hint = match context.era_cache.get(key).as_deref().and_then(Era::parse) {
        Some(Era::Legacy) => EraHint::Legacy,
        // IDEs know no other era.
        Some(Era::Modern) | None if is_ide(desired.spec.transport.kind()) => EraHint::Legacy,
        Some(Era::Modern) | None => EraHint::Unknown,
    };
    let era_hint = match hosted_hint {
        Some(EraHint::Legacy) => EraHint::Legacy,
        Some(EraHint::Unknown) | None => remembered_hint,
    };
    let address = match context.embedded.get(desired.name()) {
        Some(embedded) => embedded.server.address(),
        None => resolve::server_address(&desired.spec, &context.env, &in_process)?,
    };
    let http_client = match &address {
        Address::Http(_) | Address::Sse(_) | Address::WebSocket(_) => {
            let certificates = network::load_certificates(&desired.spec, &context.env)?;
            Some(context.network.client(certificates)?)
        }
        Address::Stdio(_) | Address::Shared(_) | Address::InProcess(_) => None,
    };
    let shared = shared_address(request, &address);
    Ok(PreparedAttempt { address, shared, era_hint, http_client })
}

/// Why an IDE is not connected. IDEs have no login: one that refuses a request has another token than its lock file.
fn ide_failure(error: &ConnectError) -> ConnectionFailure {
    let cause = ConnectionFailure::from(error);
    let is_refused = matches!(
        cause.kind,
        FailureKind::AuthRequired | FailureKind::Forbidden | FailureKind::HttpStatus(400)
    );
    match is_refused {
        true => ConnectionFailure { kind: FailureKind::IdeTokenRefused, ..cause },
        false => cause,
    }
}

/// A connect error with the `PATH` that was searched, where the command was not found.
fn connect_failure(error: &ConnectError, address: &Address) -> ConnectionFailure {
    let cause = ConnectionFailure::from(error);
    match (&cause.kind, address) {
        (FailureKind::CommandNotFound { .. }, Address::Stdio(program)) => {
            let path = program.env.iter().find(|(name, _)| name == "PATH");
            let searched = path.map(|(_, value)| value.to_string_lossy().into_owned());
            cause.with_evidence(Evidence::SearchedPath(searched.unwrap_or_default()))
        }
        (_, _) => cause,
    }
}
