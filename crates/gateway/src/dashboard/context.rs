//! What the pages of the dashboard are made from, and the handle that opens it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::access::Access;
use super::clients::ClientDirectory;
use super::history::{MetricsHistory, take_samples};
use super::operator::{DashboardOperator, OperatorView};
use super::records::Records;
use super::runs::Runs;
use crate::approval_queue::ApprovalQueue;
use crate::gateway::Gateway;

/// The path of the dashboard.
pub(crate) const ROOT: &str = "/ui/";
/// How many pages get live updates at once.
const MAX_OPEN_PAGES: usize = 32;
/// The path of the login page.
pub(crate) const LOGIN_PATH: &str = "/ui/login";

/// The dashboard of a gateway. Clones share it; its tasks end when the last clone is dropped.
#[derive(Clone)]
pub struct Dashboard(pub(crate) Arc<DashboardParts>);

/// The parts of a dashboard.
pub(crate) struct DashboardParts {
    pub(crate) gateway: Gateway,
    pub(crate) approvals: ApprovalQueue,
    pub(crate) operator: Arc<dyn DashboardOperator>,
    pub(crate) access: Access,
    pub(crate) runs: Runs,
    pub(crate) records: Records,
    pub(crate) history: watch::Receiver<Arc<MetricsHistory>>,
    /// Limits how many pages get live updates at once.
    pub(crate) open_pages: Arc<Semaphore>,
    /// The origin in login links, once the server listens.
    origin: OnceLock<String>,
}

impl fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dashboard({:?})", self.0.origin.get())
    }
}

impl Dashboard {
    /// The dashboard of a gateway, and the future that runs its tasks.
    pub fn new(
        gateway: &Gateway,
        approvals: ApprovalQueue,
        operator: Arc<dyn DashboardOperator>,
    ) -> (Dashboard, impl Future<Output = ()> + Send + use<>) {
        let (access, access_task) = Access::new();
        let (runs, runs_task) = Runs::new(gateway.clone());
        let (records, records_task) = Records::new(operator.audit_file());
        let (publish, history) = watch::channel(Arc::default());
        let sampling = take_samples(Arc::downgrade(&gateway.relay), publish);
        let task = async move {
            let mut tasks = JoinSet::new();
            tasks.spawn(access_task);
            tasks.spawn(runs_task);
            tasks.spawn(records_task);
            tasks.spawn(sampling);
            while tasks.join_next().await.is_some() {}
        };
        let parts = DashboardParts {
            gateway: gateway.clone(),
            approvals,
            operator,
            access,
            runs,
            records,
            history,
            open_pages: Arc::new(Semaphore::new(MAX_OPEN_PAGES)),
            origin: OnceLock::new(),
        };
        (Dashboard(Arc::new(parts)), task)
    }

    /// Sets the origin that login links begin with, for example `http://127.0.0.1:8808`. Only the first call has an effect.
    pub fn set_origin(&self, origin: &str) {
        let _already_set = self.0.origin.set(origin.trim_end_matches('/').to_owned());
    }

    /// A new login link. It can be used once, within ten minutes. None before the origin is set, and at shutdown.
    pub async fn create_login_link(&self) -> Option<String> {
        let origin = self.0.origin.get()?;
        let secret = self.0.access.create_link().await?;
        Some(format!("{origin}{LOGIN_PATH}?link={secret}"))
    }
}

impl DashboardParts {
    /// Whether browsers reach the dashboard over TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.origin.get().is_some_and(|it| it.starts_with("https://"))
    }

    /// The name of the session cookie. Cookies know no ports, so that the name holds it.
    pub(crate) fn cookie_name(&self) -> String {
        let port = self.origin.get().and_then(|it| it.rsplit_once(':')).map(|it| it.1);
        let port = port.filter(|it| it.bytes().all(|byte| byte.is_ascii_digit()));
        format!("swb_dashboard_{}", port.unwrap_or("default"))
    }

    /// The configuration, read on a thread that may block.
    pub(crate) async fn configuration(&self) -> Result<OperatorView, String> {
        let operator = self.operator.clone();
        let reading = tokio::task::spawn_blocking(move || operator.view());
        reading.await.unwrap_or_else(|_| Err("the configuration could not be read".to_owned()))
    }
}

/// What one page is made from.
#[derive(Clone, Copy)]
pub(crate) struct ScreenContext<'a> {
    pub(crate) parts: &'a DashboardParts,
    pub(crate) clients: &'a dyn ClientDirectory,
    /// The token for the page's forms.
    pub(crate) page_token: &'a str,
}
