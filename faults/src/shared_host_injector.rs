//! Injects the faults of the shared host while sessions call its servers, and waits until every session gets responses
//! again.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::environment::shared_home::SharedHome;
use crate::environment::system;
use crate::failure::Failure;
use crate::fault::{FaultKind, FaultPlan, PlannedFault};
use crate::load::CallLog;
use crate::random::SeededRandom;
use crate::servers::TestServer;
use crate::stdio_session::StdioSession;
use crate::verdict::history::{InjectedFault, Outcome};

/// The timeout for the recovery of all servers.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(90);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The targets of the faults.
#[derive(Debug)]
pub struct SharedHostInjector<'a> {
    /// The home of the host.
    pub home: &'a SharedHome<'a>,
    /// The log of calls.
    pub call_log: &'a CallLog,
    /// The sessions that use the host.
    pub sessions: &'a [Arc<StdioSession>],
    /// Their servers.
    pub servers: &'a [TestServer],
}

impl SharedHostInjector<'_> {
    /// Injects faults until the time is over.
    pub async fn inject_faults(
        &self,
        mut plan: FaultPlan,
        until: Instant,
    ) -> Result<Vec<InjectedFault>, Failure> {
        let mut faults = Vec::new();
        loop {
            let planned = plan.next();
            sleep(planned.pause).await;
            if Instant::now() + planned.duration > until {
                return Ok(faults);
            }
            faults.extend(self.inject(&planned).await?);
        }
    }

    async fn inject(&self, planned: &PlannedFault) -> Result<Vec<InjectedFault>, Failure> {
        let Some(host) = self.home.hosts().first().map(|it| it.pid) else {
            let mut hit = self.start_fault(planned.kind);
            hit.problems.push("no shared host runs".to_owned());
            hit.recovered = Some(hit.ended);
            return Ok(vec![hit]);
        };
        if planned.kind == FaultKind::StopHost {
            let mut hit = self.start_fault(planned.kind);
            system::send_signal(host, Signal::STOP)?;
            sleep(planned.duration).await;
            system::send_signal(host, Signal::CONT)?;
            self.finish_fault(&mut hit).await;
            return Ok(vec![hit]);
        }
        if planned.kind != FaultKind::FullHostDisk {
            return Ok(vec![self.end_host(planned.kind, host).await?]);
        }
        // A host that runs goes on without space, and a new one starts without it.
        let mut hit = self.start_fault(planned.kind);
        self.home.fill_disk()?;
        sleep(planned.duration).await;
        self.finish_fault(&mut hit).await;
        let killed = self.end_host(FaultKind::KillHost, host).await;
        self.home.free_disk()?;
        Ok(vec![hit, killed?])
    }

    /// Ends the host, and checks that its servers end with it and that one new host takes its place.
    async fn end_host(&self, kind: FaultKind, host: u32) -> Result<InjectedFault, Failure> {
        let mut ending = self.home.servers_of(host);
        ending.push(host);
        let mut hit = self.start_fault(kind);
        if kind == FaultKind::StaleSocket {
            // Before the end of the host: afterwards it could replace the socket of a new one.
            self.home.place_stale_socket()?;
        }
        system::send_signal(host, Signal::KILL)?;
        self.finish_fault(&mut hit).await;
        for left in self.home.survivors(&ending).await {
            let what = format!("process {} outlives its host: {}", left.pid, left.command_line);
            hit.problems.push(what);
        }
        match self.home.hosts().len() {
            1 => {}
            hosts => hit.problems.push(format!("{hosts} shared hosts run afterwards")),
        }
        Ok(hit)
    }

    fn start_fault(&self, kind: FaultKind) -> InjectedFault {
        let now = self.call_log.now();
        println!("{:7.1} s  {kind}", now.as_secs_f64());
        InjectedFault {
            kind,
            servers: self.servers.iter().map(|it| it.name.to_owned()).collect(),
            began: now,
            ended: now,
            recovered: None,
            load_percent: 0,
            problems: Vec::new(),
        }
    }

    /// Ends the fault and waits until every session gets a response of every server.
    async fn finish_fault(&self, hit: &mut InjectedFault) {
        hit.ended = self.call_log.now();
        if timeout(RECOVERY_TIMEOUT, self.wait_for_answers()).await.is_ok() {
            hit.recovered = Some(self.call_log.now());
        }
        hit.load_percent = system::load_percent();
    }

    /// Waits until every session gets a response of every server.
    pub async fn wait_for_answers(&self) {
        let mut probes = JoinSet::new();
        for (number, session) in self.sessions.iter().enumerate() {
            for member in self.servers {
                let (call_log, session) = (self.call_log.clone(), session.clone());
                let (member, seed) = (member.clone(), call_log.now().as_micros() as u64);
                let mut dice = SeededRandom::new(seed, number as u64);
                probes.spawn(async move {
                    while call_log.call_in_session(&session, &member, &mut dice).await
                        != Outcome::Answered
                    {
                        sleep(POLL_INTERVAL).await;
                    }
                });
            }
        }
        probes.join_all().await;
    }
}
