//! Does what the plan says: begins a fault, ends it, and waits until whoever was hit answers again.
//! `fault` says what comes next, `judge` what to think of it.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Map, Value as Json};
use testkit::Authority;
use testkit::authority::{Endpoint, How};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::cast::{self, CHANGING, GUEST, Member, SIGNED, Stage};
use crate::cause::{self, Cause};
use crate::dice::Dice;
use crate::exchange::Manners;
use crate::failure::Failure;
use crate::far_side::{End, FarSide};
use crate::fault::{Kind, Plan, Planned};
use crate::history::{Hit, Manner, Outcome};
use crate::load::Ledger;
use crate::place::Place;
use crate::record_file::RecordFile;
use crate::subject::Subject;
use crate::system;

/// After so long a server is not waited for any more.
const GIVE_UP: Duration = Duration::from_secs(90);
/// How long something else may take that has to come.
const PATIENCE: Duration = Duration::from_secs(30);
const ASK_AGAIN: Duration = Duration::from_millis(50);
/// How far the clock jumps, in seconds.
const JUMPS: [i64; 4] = [40, 400, 4_000, 90_000];
/// How long the program may take to see another time: the clock library looks once a second.
const SEES_CLOCK: Duration = Duration::from_secs(10);

/// What faults are done to.
#[derive(Debug)]
pub struct Stagehand<'a> {
    /// The folders.
    pub place: &'a Place,
    /// The program.
    pub subject: &'a Subject,
    /// The authorization server.
    pub authority: &'a Authority,
    /// The audit log.
    pub records: &'a RecordFile,
    /// Where calls go.
    pub ledger: &'a Ledger,
    /// The servers.
    pub members: &'a [Member],
    /// Their entries.
    pub entries: Map<String, Json>,
}

impl Stagehand<'_> {
    /// Hits programs until the time is over.
    pub async fn hit_programs(&self, mut plan: Plan, until: Instant) -> Result<Vec<Hit>, Failure> {
        let targets = self.good(|it| matches!(it, Stage::Program | Stage::Real));
        let mut hits = Vec::new();
        loop {
            let planned = plan.next();
            sleep(planned.pause).await;
            if Instant::now() + planned.lasts > until {
                return Ok(hits);
            }
            let target = targets[planned.target as usize % targets.len()];
            let Some(process) = self.process(target) else {
                // It is being started; the next fault finds it.
                continue;
            };
            let mut hit = self.begin(planned.kind, &[target]);
            if planned.kind == Kind::StopProgram {
                system::signal(process, Signal::STOP)?;
                sleep(planned.lasts).await;
                // Its entry may have been changed meanwhile, which ends it.
                system::signal(process, Signal::CONT)?;
            } else {
                system::signal(process, Signal::KILL)?;
            }
            self.end(&mut hit, &[target]).await;
            hits.push(hit);
        }
    }

    /// Hits everything else until the time is over.
    pub async fn hit_surroundings(
        &mut self,
        far: &mut FarSide,
        mut plan: Plan,
        until: Instant,
    ) -> Result<Vec<Hit>, Failure> {
        let mut hits = Vec::new();
        loop {
            let planned = plan.next();
            sleep(planned.pause).await;
            if Instant::now() + planned.lasts > until {
                return Ok(hits);
            }
            hits.push(self.hit(far, &planned).await?);
        }
    }

    async fn hit(&mut self, far: &mut FarSide, planned: &Planned) -> Result<Hit, Failure> {
        let remote = self.good(|it| matches!(it, Stage::Remote(_)));
        let one = [remote[planned.target as usize % remote.len()]];
        let kind = planned.kind;
        match kind {
            Kind::KillRemote => {
                let mut hit = self.begin(kind, &one);
                far.kill(one[0].name)?;
                sleep(planned.lasts).await;
                far.revive(one[0].name)?;
                self.end(&mut hit, &one).await;
                Ok(hit)
            }
            Kind::StopRemote => {
                let mut hit = self.begin(kind, &one);
                far.signal(one[0].name, Signal::STOP)?;
                sleep(planned.lasts).await;
                far.signal(one[0].name, Signal::CONT)?;
                self.end(&mut hit, &one).await;
                Ok(hit)
            }
            Kind::SilentLink | Kind::NoLink => {
                let end = if kind == Kind::NoLink { End::Ours } else { End::Theirs };
                let mut hit = self.begin(kind, &remote);
                far.cut(end)?;
                sleep(planned.lasts).await;
                far.join(end)?;
                self.end(&mut hit, &remote).await;
                Ok(hit)
            }
            Kind::SlowLink => {
                let mut hit = self.begin(kind, &remote);
                far.pace("slow")?;
                sleep(planned.lasts).await;
                far.pace("fast")?;
                self.end(&mut hit, &remote).await;
                Ok(hit)
            }
            Kind::FullDisk => self.fill_disk(planned).await,
            Kind::ClockAhead => self.turn_clock(planned, 1).await,
            Kind::ClockBack => self.turn_clock(planned, -1).await,
            Kind::NewServer => self.add_server().await,
            Kind::ChangedServer => self.change_server(planned).await,
            Kind::BrokenFile => self.break_file(planned).await,
            Kind::DeadTokens | Kind::NoTokens => self.end_tokens(planned).await,
            Kind::KillProgram | Kind::StopProgram => {
                Err(Failure::because("programs are hit in another lane"))
            }
        }
    }

    async fn fill_disk(&self, planned: &Planned) -> Result<Hit, Failure> {
        let all = self.good(|_| true);
        let mut hit = self.begin(planned.kind, &all);
        self.place.fill()?;
        sleep(planned.lasts).await;
        let before = self.records.state();
        self.place.empty()?;
        self.end(&mut hit, &all).await;
        // Whatever could not be written meanwhile, what comes from now on is.
        let grows = async {
            while self.records.state() == before {
                sleep(ASK_AGAIN).await;
            }
        };
        if timeout(PATIENCE, grows).await.is_err() {
            hit.objections.push("no call is recorded though there is room again".to_owned());
        }
        Ok(hit)
    }

    async fn turn_clock(&self, planned: &Planned, sign: i64) -> Result<Hit, Failure> {
        let all = self.good(|_| true);
        let ahead = sign * JUMPS[planned.target as usize % JUMPS.len()];
        let mut hit = self.begin(planned.kind, &all);
        self.place.set_clock(ahead)?;
        if !self.sees(ahead).await {
            hit.objections
                .push(format!("the program does not see a clock that is {ahead:+} s off"));
        }
        sleep(planned.lasts).await;
        self.place.set_clock(0)?;
        self.end(&mut hit, &all).await;
        if !self.sees(0).await {
            hit.objections
                .push("the program does not see that the clock is right again".to_owned());
        }
        Ok(hit)
    }

    /// Are calls recorded with a time that is so far from ours?
    async fn sees(&self, ahead: i64) -> bool {
        const NEAR: i64 = 15;
        let seen = async {
            while self.records.ahead().is_none_or(|it| (it - ahead).abs() >= NEAR) {
                sleep(ASK_AGAIN).await;
            }
        };
        timeout(SEES_CLOCK, seen).await.is_ok()
    }

    async fn add_server(&mut self) -> Result<Hit, Failure> {
        let guest = cast::guest();
        let mut entries = self.entries.clone();
        entries.insert(GUEST.to_owned(), cast::entry(&guest, "", ""));
        let mut hit = self.begin(Kind::NewServer, &[&guest]);
        self.place.configure(&cast::settings(&entries))?;
        self.end(&mut hit, &[&guest]).await;
        self.place.configure(&cast::settings(&self.entries))?;
        let mut dice = Dice::new(0, 0);
        let gone = async {
            loop {
                let outcome = self.ledger.call(&guest, &Manners::Modern, &mut dice).await;
                if matches!(outcome, Outcome::Failed(said) if cause::of(&said) == Cause::NoSuchTool)
                {
                    return;
                }
                sleep(ASK_AGAIN).await;
            }
        };
        if timeout(PATIENCE, gone).await.is_err() {
            hit.objections.push("a server that was taken out is still served".to_owned());
        }
        Ok(hit)
    }

    async fn change_server(&mut self, planned: &Planned) -> Result<Hit, Failure> {
        let member = self.good(|_| true).into_iter().find(|it| it.name == CHANGING);
        let member = member.ok_or_else(|| Failure::because("nobody changes"))?.clone();
        let entry = cast::entry(&member, "", &planned.target.to_string());
        self.entries.insert(CHANGING.to_owned(), entry);
        let before = self.process(&member);
        let mut hit = self.begin(planned.kind, &[&member]);
        self.place.configure(&cast::settings(&self.entries))?;
        let changed = async {
            while self.process(&member).is_none_or(|it| Some(it) == before) {
                sleep(ASK_AGAIN).await;
            }
        };
        if timeout(PATIENCE, changed).await.is_err() {
            hit.objections.push("the server of a changed entry is not started anew".to_owned());
        }
        let lifted = hit.began;
        self.end(&mut hit, &[&member]).await;
        // What counts is from the edit on.
        hit.lifted = lifted;
        Ok(hit)
    }

    async fn break_file(&self, planned: &Planned) -> Result<Hit, Failure> {
        let all = self.good(|_| true);
        let mut hit = self.begin(planned.kind, &all);
        self.place.configure("{\"mcpServers\": {\"alpha\": ")?;
        sleep(planned.lasts).await;
        self.place.configure(&cast::settings(&self.entries))?;
        self.end(&mut hit, &all).await;
        Ok(hit)
    }

    async fn end_tokens(&self, planned: &Planned) -> Result<Hit, Failure> {
        let signed: Vec<&Member> = self.members.iter().filter(|it| it.name == SIGNED).collect();
        let mut hit = self.begin(planned.kind, &signed);
        if planned.kind == Kind::NoTokens {
            self.authority.change(|it| *it = it.clone().lapse(Endpoint::Refresh, How::Down));
        }
        self.authority.forget_access();
        sleep(planned.lasts).await;
        self.authority.change(|it| it.lapses.clear());
        self.end(&mut hit, &signed).await;
        Ok(hit)
    }

    /// The servers of which every call is expected to be answered, at some stages.
    fn good(&self, fits: impl Fn(Stage) -> bool) -> Vec<&Member> {
        let good = self.members.iter().filter(|it| it.manner == Manner::Good && fits(it.stage));
        good.collect()
    }

    fn process(&self, member: &Member) -> Option<u32> {
        match member.stage {
            Stage::Program => self.subject.program(&format!("\"name\":\"{}\"", member.name)),
            Stage::Real => self.subject.program("server-everything"),
            Stage::Remote(_) | Stage::Login => None,
        }
    }

    fn begin(&self, kind: Kind, members: &[&Member]) -> Hit {
        let now = self.ledger.now();
        let servers: Vec<String> = members.iter().map(|it| it.name.to_owned()).collect();
        let who = if servers.len() > 5 {
            format!("{} servers", servers.len())
        } else {
            servers.join(", ")
        };
        println!("{:7.1} s  {kind}: {who}", now.as_secs_f64());
        Hit {
            kind,
            servers,
            began: now,
            lifted: now,
            recovered: None,
            crowd: 0,
            objections: Vec::new(),
        }
    }

    /// The fault is over; waits until everybody that was hit answers again.
    async fn end(&self, hit: &mut Hit, members: &[&Member]) {
        hit.lifted = self.ledger.now();
        let mut probes = JoinSet::new();
        for (number, member) in members.iter().enumerate() {
            let (ledger, member) = (self.ledger.clone(), (*member).clone());
            let mut dice = Dice::new(hit.lifted.as_micros() as u64, number as u64);
            probes.spawn(async move {
                while ledger.call(&member, &Manners::Modern, &mut dice).await != Outcome::Echoed {
                    sleep(ASK_AGAIN).await;
                }
            });
        }
        if timeout(GIVE_UP, probes.join_all()).await.is_ok() {
            hit.recovered = Some(self.ledger.now());
        }
        hit.crowd = system::crowd();
    }
}
