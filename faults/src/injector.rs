//! Executes the plan: begins a fault, ends it, and waits until the affected servers respond again.
//! `fault` plans the faults, `checker` judges the result.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Map, Value as Json};
use testkit::AuthorizationServer;
use testkit::authorization_server::{Endpoint, ResponseFault};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::environment::audit_log::AuditLog;
use crate::environment::remote_network::{LinkEnd, RemoteNetwork};
use crate::environment::sandbox::Sandbox;
use crate::environment::system;
use crate::failure::Failure;
use crate::fault::{FaultKind, FaultPlan, PlannedFault};
use crate::gateway_client::ClientEra;
use crate::load::CallLog;
use crate::random::SeededRandom;
use crate::servers;
use crate::servers::{CHANGING, Placement, SIGNED_IN, TRANSIENT, TestServer};
use crate::swb_process::SwbProcess;
use crate::verdict::failure_cause;
use crate::verdict::failure_cause::FailureCause;
use crate::verdict::history::{Expectation, InjectedFault, Outcome};

/// The timeout for the recovery of a server.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(90);
/// The timeout for other expected changes.
const TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The offset of a clock jump, in seconds.
const CLOCK_JUMPS: [i64; 4] = [40, 400, 4_000, 90_000];
/// How long the program may take to see a new time: the faketime library reads it once a second.
const CLOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The targets of faults.
#[derive(Debug)]
pub struct FaultInjector<'a> {
    /// The folders.
    pub sandbox: &'a Sandbox,
    /// The program.
    pub swb: &'a SwbProcess,
    /// The authorization server.
    pub authorization_server: &'a AuthorizationServer,
    /// The audit log.
    pub audit_log: &'a AuditLog,
    /// The log of calls.
    pub call_log: &'a CallLog,
    /// The servers.
    pub servers: &'a [TestServer],
    /// Their configuration entries.
    pub entries: Map<String, Json>,
}

impl FaultInjector<'_> {
    /// Injects faults into programs until the time is over.
    pub async fn inject_program_faults(
        &self,
        mut plan: FaultPlan,
        until: Instant,
    ) -> Result<Vec<InjectedFault>, Failure> {
        let targets = self
            .reliable_servers(|it| matches!(it, Placement::LocalProgram | Placement::RealProgram));
        let mut faults = Vec::new();
        loop {
            let planned = plan.next();
            sleep(planned.pause).await;
            if Instant::now() + planned.duration > until {
                return Ok(faults);
            }
            let target = targets[planned.target as usize % targets.len()];
            let Some(process) = self.server_pid(target) else {
                // The program is being restarted; the next fault will find it.
                continue;
            };
            let mut hit = self.start_fault(planned.kind, &[target]);
            if planned.kind == FaultKind::StopProgram {
                system::send_signal(process, Signal::STOP)?;
                sleep(planned.duration).await;
                // Its entry may have changed meanwhile, which ends the program.
                system::send_signal(process, Signal::CONT)?;
            } else {
                system::send_signal(process, Signal::KILL)?;
            }
            self.finish_fault(&mut hit, &[target]).await;
            faults.push(hit);
        }
    }

    /// Injects all other faults until the time is over.
    pub async fn inject_environment_faults(
        &mut self,
        network: &mut RemoteNetwork,
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
            faults.push(self.inject(network, &planned).await?);
        }
    }

    async fn inject(
        &mut self,
        network: &mut RemoteNetwork,
        planned: &PlannedFault,
    ) -> Result<InjectedFault, Failure> {
        let remote_servers = self.reliable_servers(|it| matches!(it, Placement::Remote(_)));
        let one_server = [remote_servers[planned.target as usize % remote_servers.len()]];
        let kind = planned.kind;
        match kind {
            FaultKind::KillRemote => {
                let mut hit = self.start_fault(kind, &one_server);
                network.kill(one_server[0].name)?;
                sleep(planned.duration).await;
                network.restart(one_server[0].name)?;
                self.finish_fault(&mut hit, &one_server).await;
                Ok(hit)
            }
            FaultKind::StopRemote => {
                let mut hit = self.start_fault(kind, &one_server);
                network.signal(one_server[0].name, Signal::STOP)?;
                sleep(planned.duration).await;
                network.signal(one_server[0].name, Signal::CONT)?;
                self.finish_fault(&mut hit, &one_server).await;
                Ok(hit)
            }
            FaultKind::SilentLink | FaultKind::NoLink => {
                let end = if kind == FaultKind::NoLink { LinkEnd::Local } else { LinkEnd::Remote };
                let mut hit = self.start_fault(kind, &remote_servers);
                network.link_down(end)?;
                sleep(planned.duration).await;
                network.link_up(end)?;
                self.finish_fault(&mut hit, &remote_servers).await;
                Ok(hit)
            }
            FaultKind::SlowLink => {
                let mut hit = self.start_fault(kind, &remote_servers);
                network.set_speed("slow")?;
                sleep(planned.duration).await;
                network.set_speed("fast")?;
                self.finish_fault(&mut hit, &remote_servers).await;
                Ok(hit)
            }
            FaultKind::FullDisk => self.fill_disk(planned).await,
            FaultKind::ClockAhead => self.shift_clock(planned, 1).await,
            FaultKind::ClockBack => self.shift_clock(planned, -1).await,
            FaultKind::NewServer => self.add_server().await,
            FaultKind::ChangedServer => self.change_server(planned).await,
            FaultKind::BrokenFile => self.corrupt_settings(planned).await,
            FaultKind::DeadTokens | FaultKind::NoTokens => self.revoke_tokens(planned).await,
            FaultKind::KillProgram
            | FaultKind::StopProgram
            | FaultKind::KillHost
            | FaultKind::StopHost
            | FaultKind::FullHostDisk
            | FaultKind::StaleSocket => {
                Err(Failure::new("programs and the shared host are hit in other lanes"))
            }
        }
    }

    async fn fill_disk(&self, planned: &PlannedFault) -> Result<InjectedFault, Failure> {
        let all_servers = self.reliable_servers(|_| true);
        let mut hit = self.start_fault(planned.kind, &all_servers);
        self.sandbox.fill_disk()?;
        sleep(planned.duration).await;
        let before = self.audit_log.fingerprint();
        self.sandbox.free_disk()?;
        self.finish_fault(&mut hit, &all_servers).await;
        // Records may be lost while the disk is full, but not afterwards.
        let grows = async {
            while self.audit_log.fingerprint() == before {
                sleep(POLL_INTERVAL).await;
            }
        };
        if timeout(TIMEOUT, grows).await.is_err() {
            hit.problems.push("no call is recorded though there is room again".to_owned());
        }
        Ok(hit)
    }

    async fn shift_clock(
        &self,
        planned: &PlannedFault,
        sign: i64,
    ) -> Result<InjectedFault, Failure> {
        let all_servers = self.reliable_servers(|_| true);
        let offset = sign * CLOCK_JUMPS[planned.target as usize % CLOCK_JUMPS.len()];
        let mut hit = self.start_fault(planned.kind, &all_servers);
        self.sandbox.set_clock(offset)?;
        if !self.records_offset(offset).await {
            hit.problems.push(format!("the program does not see a clock that is {offset:+} s off"));
        }
        sleep(planned.duration).await;
        self.sandbox.set_clock(0)?;
        self.finish_fault(&mut hit, &all_servers).await;
        if !self.records_offset(0).await {
            hit.problems.push("the program does not see that the clock is right again".to_owned());
        }
        Ok(hit)
    }

    /// Whether calls are recorded with this offset from the actual time.
    async fn records_offset(&self, offset: i64) -> bool {
        const NEAR: i64 = 15;
        let seen = async {
            while self.audit_log.clock_offset().is_none_or(|it| (it - offset).abs() >= NEAR) {
                sleep(POLL_INTERVAL).await;
            }
        };
        timeout(CLOCK_TIMEOUT, seen).await.is_ok()
    }

    async fn add_server(&mut self) -> Result<InjectedFault, Failure> {
        let transient = servers::transient_server();
        let mut entries = self.entries.clone();
        entries.insert(TRANSIENT.to_owned(), servers::config_entry(&transient, "", ""));
        let mut hit = self.start_fault(FaultKind::NewServer, &[&transient]);
        self.sandbox.write_settings(&servers::settings(&entries))?;
        self.finish_fault(&mut hit, &[&transient]).await;
        self.sandbox.write_settings(&servers::settings(&self.entries))?;
        let mut dice = SeededRandom::new(0, 0);
        let gone = async {
            loop {
                let outcome = self.call_log.call(&transient, &ClientEra::Modern, &mut dice).await;
                if matches!(outcome, Outcome::Failed(said) if failure_cause::classify(&said) == FailureCause::NoSuchTool)
                {
                    return;
                }
                sleep(POLL_INTERVAL).await;
            }
        };
        if timeout(TIMEOUT, gone).await.is_err() {
            hit.problems.push("a server that was taken out is still served".to_owned());
        }
        Ok(hit)
    }

    async fn change_server(&mut self, planned: &PlannedFault) -> Result<InjectedFault, Failure> {
        let member = self.reliable_servers(|_| true).into_iter().find(|it| it.name == CHANGING);
        let member = member
            .ok_or_else(|| Failure::new("the server whose entry changes is not configured"))?
            .clone();
        let entry = servers::config_entry(&member, "", &planned.target.to_string());
        self.entries.insert(CHANGING.to_owned(), entry);
        let before = self.server_pid(&member);
        let mut hit = self.start_fault(planned.kind, &[&member]);
        self.sandbox.write_settings(&servers::settings(&self.entries))?;
        let changed = async {
            while self.server_pid(&member).is_none_or(|it| Some(it) == before) {
                sleep(POLL_INTERVAL).await;
            }
        };
        if timeout(TIMEOUT, changed).await.is_err() {
            hit.problems.push("the server of a changed entry is not started anew".to_owned());
        }
        let lifted = hit.began;
        self.finish_fault(&mut hit, &[&member]).await;
        // Recovery is measured from the edit on.
        hit.ended = lifted;
        Ok(hit)
    }

    async fn corrupt_settings(&self, planned: &PlannedFault) -> Result<InjectedFault, Failure> {
        let all_servers = self.reliable_servers(|_| true);
        let mut hit = self.start_fault(planned.kind, &all_servers);
        self.sandbox.write_settings("{\"mcpServers\": {\"alpha\": ")?;
        sleep(planned.duration).await;
        self.sandbox.write_settings(&servers::settings(&self.entries))?;
        self.finish_fault(&mut hit, &all_servers).await;
        Ok(hit)
    }

    async fn revoke_tokens(&self, planned: &PlannedFault) -> Result<InjectedFault, Failure> {
        let signed: Vec<&TestServer> =
            self.servers.iter().filter(|it| it.name == SIGNED_IN).collect();
        let mut hit = self.start_fault(planned.kind, &signed);
        if planned.kind == FaultKind::NoTokens {
            self.authorization_server.reconfigure(|it| {
                *it = it.clone().fault(Endpoint::Refresh, ResponseFault::Unavailable)
            });
        }
        self.authorization_server.revoke_access_tokens();
        sleep(planned.duration).await;
        self.authorization_server.reconfigure(|it| it.faults.clear());
        self.finish_fault(&mut hit, &signed).await;
        Ok(hit)
    }

    /// The servers of which every call is expected to succeed, at certain stages.
    fn reliable_servers(&self, fits: impl Fn(Placement) -> bool) -> Vec<&TestServer> {
        let good = self
            .servers
            .iter()
            .filter(|it| it.expectation == Expectation::Reliable && fits(it.placement));
        good.collect()
    }

    fn server_pid(&self, member: &TestServer) -> Option<u32> {
        match member.placement {
            Placement::LocalProgram => self.swb.child_pid(&format!("\"name\":\"{}\"", member.name)),
            Placement::RealProgram => self.swb.child_pid("server-everything"),
            Placement::Remote(_) | Placement::BehindLogin => None,
        }
    }

    fn start_fault(&self, kind: FaultKind, hit_servers: &[&TestServer]) -> InjectedFault {
        let now = self.call_log.now();
        let servers: Vec<String> = hit_servers.iter().map(|it| it.name.to_owned()).collect();
        let who = if servers.len() > 5 {
            format!("{} servers", servers.len())
        } else {
            servers.join(", ")
        };
        println!("{:7.1} s  {kind}: {who}", now.as_secs_f64());
        InjectedFault {
            kind,
            servers,
            began: now,
            ended: now,
            recovered: None,
            load_percent: 0,
            problems: Vec::new(),
        }
    }

    /// Ends the fault and waits until all affected servers respond again.
    async fn finish_fault(&self, hit: &mut InjectedFault, hit_servers: &[&TestServer]) {
        hit.ended = self.call_log.now();
        let mut probes = JoinSet::new();
        for (number, member) in hit_servers.iter().enumerate() {
            let (ledger, member) = (self.call_log.clone(), (*member).clone());
            let mut dice = SeededRandom::new(hit.ended.as_micros() as u64, number as u64);
            probes.spawn(async move {
                while ledger.call(&member, &ClientEra::Modern, &mut dice).await != Outcome::Answered
                {
                    sleep(POLL_INTERVAL).await;
                }
            });
        }
        if timeout(RECOVERY_TIMEOUT, probes.join_all()).await.is_ok() {
            hit.recovered = Some(self.call_log.now());
        }
        hit.load_percent = system::load_percent();
    }
}
