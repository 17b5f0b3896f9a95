//! One run from beginning to end: everything is set up, faults and calls go on side by side, and a history is left.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Map, Value as Json};
use testkit::authority::Charter;
use testkit::{Authority, Script};
use tokio::time::{Instant, sleep, timeout};

use crate::cast::{self, FORGETFUL, GUEST, Member, SIGNED, Stage};
use crate::dice::Dice;
use crate::exchange::{self, Manners};
use crate::failure::Failure;
use crate::far_side::FarSide;
use crate::fault::{OF_PROGRAMS, OF_SURROUNDINGS, Plan};
use crate::history::{Farewell, History, Manner, Outcome};
use crate::load::{Ledger, Load};
use crate::place::Place;
use crate::record_file::RecordFile;
use crate::stagehand::Stagehand;
use crate::subject::Subject;

/// How long a token lives. Some die by themselves while a run lasts.
const TOKEN_LIFE: u64 = 40;
/// Calls that are made before anything is measured.
const WARM_UP: Duration = Duration::from_secs(8);
/// How long every server may take to be there at the beginning.
const BEGINNING: Duration = Duration::from_secs(180);
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// What is wanted of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// How long faults and calls go on, in seconds.
    pub seconds: u64,
    /// What chance begins with.
    pub seed: u64,
}

/// Everything that a run needs beside the program.
struct Scenery {
    place: Place,
    far: FarSide,
    authority: Authority,
    members: Vec<Member>,
    entries: Map<String, Json>,
}

impl Scenery {
    fn build() -> Result<Scenery, Failure> {
        let place = Place::prepare()?;
        let mut far = FarSide::open()?;
        let script = Script::both().named(SIGNED).journal(place.journals().join(SIGNED));
        let charter = Charter { lifetime: TOKEN_LIFE, script, ..Charter::good() };
        let authority = Authority::start(charter);
        let members = cast::members(&place.journals());
        let mut entries = Map::new();
        for member in &members {
            let url = match member.stage {
                Stage::Remote(_) => far.serve(member)?,
                Stage::Login => authority.url(),
                Stage::Program | Stage::Real => String::new(),
            };
            entries.insert(member.name.to_owned(), cast::entry(member, &url, ""));
        }
        place.configure(&cast::settings(&entries))?;
        let login = place.swb().args(["login", SIGNED]).output();
        let login = login.map_err(|error| Failure::of("`swb login` could not be run", error))?;
        if !login.status.success() {
            let said = String::from_utf8_lossy(&login.stderr).into_owned();
            return Err(Failure::because(format!("`swb login` failed: {said}")));
        }
        Ok(Scenery { place, far, authority, members, entries })
    }
}

/// A run. What it finds is in the history; an error is what kept it from being one.
pub async fn run(wish: Wish) -> Result<History, Failure> {
    let mut scenery = Scenery::build()?;
    let mut manners: BTreeMap<String, Manner> =
        scenery.members.iter().map(|it| (it.name.to_owned(), it.manner)).collect();
    // It is called before it is there and after it is gone.
    manners.insert(GUEST.to_owned(), Manner::Bad);
    let mut history = History { manners, ..History::default() };
    let outcome = stormy(&mut scenery, wish, &mut history).await;
    if outcome.is_err() {
        let said = fs::read_to_string(scenery.place.words()).unwrap_or_default();
        eprintln!("what `swb` said:\n{said}");
    }
    outcome?;
    history.carried_out = carried_out(&scenery)?;
    history.farewells.push(killed(&scenery).await?);
    Ok(history)
}

/// The run with the faults, to an orderly end.
async fn stormy(scenery: &mut Scenery, wish: Wish, history: &mut History) -> Result<(), Failure> {
    let Scenery { place, far, authority, members, entries } = scenery;
    let subject = Subject::start(place)?;
    let ledger = Ledger::new(&subject.address);
    all_answer(&ledger, members).await?;
    let records = RecordFile::find(&place.disk())?;
    let load = Load::begin(&ledger, members, wish.seed);
    sleep(WARM_UP).await;
    load.end().await?;
    sleep(Duration::from_secs(1)).await;
    history.vitals[0] = subject.vitals(&far.processes()).await?;
    println!(
        "{:7.1} s  warm; {} seconds of faults begin",
        ledger.now().as_secs_f64(),
        wish.seconds
    );

    let load = Load::begin(&ledger, members, wish.seed.wrapping_add(1));
    let until = Instant::now() + Duration::from_secs(wish.seconds);
    let hand = |entries: Map<String, Json>| Stagehand {
        place,
        subject: &subject,
        authority,
        records: &records,
        ledger: &ledger,
        members,
        entries,
    };
    let (programs, mut surroundings) = (hand(Map::new()), hand(entries.clone()));
    let programs = programs.hit_programs(Plan::new(&OF_PROGRAMS, Dice::new(wish.seed, 1)), until);
    let plan = Plan::new(&OF_SURROUNDINGS, Dice::new(wish.seed, 2));
    let around = surroundings.hit_surroundings(far, plan, until);
    let (programs, around) = tokio::try_join!(programs, around)?;
    load.end().await?;
    history.hits = programs.into_iter().chain(around).collect();
    history.hits.sort_by_key(|it| it.began);

    println!("{:7.1} s  calm; settling", ledger.now().as_secs_f64());
    history.vitals[1] = subject.settled(&far.processes(), &history.vitals[0]).await?;
    history.rollcall = roll_call(&ledger, members).await;
    history.calls = ledger.calls();
    history.words = fs::read_to_string(place.words()).unwrap_or_default();
    history.farewells.push(subject.end(Signal::TERM, &far.processes()).await?);
    Ok(())
}

/// Waits until every server was tried, and every good one has answered once.
async fn all_answer(ledger: &Ledger, members: &[Member]) -> Result<(), Failure> {
    let ready = async {
        loop {
            let said = exchange::send(ledger.address(), "GET /readyz", "", "").await;
            if said.is_ok_and(|it| it.status == 200) {
                return;
            }
            sleep(ASK_AGAIN).await;
        }
    };
    let ready = timeout(BEGINNING, ready).await;
    ready.map_err(|_| Failure::because(format!("`swb` is not ready within {BEGINNING:?}")))?;
    let mut dice = Dice::new(0, 0);
    for member in members.iter().filter(|it| it.manner == Manner::Good) {
        let mut last = Outcome::Never;
        let answers = async {
            loop {
                last = ledger.call(member, &Manners::Modern, &mut dice).await;
                if last == Outcome::Echoed {
                    break;
                }
                sleep(ASK_AGAIN).await;
            }
        };
        if timeout(BEGINNING, answers).await.is_err() {
            let what =
                format!("`{}` does not answer before anything was done: {last:?}", member.name);
            return Err(Failure::because(what));
        }
    }
    Ok(())
}

/// The good servers that do not answer in the end, when nothing hits them any more.
async fn roll_call(ledger: &Ledger, members: &[Member]) -> Vec<String> {
    let mut dice = Dice::new(0, 1);
    let mut missing = Vec::new();
    for member in members.iter().filter(|it| it.manner == Manner::Good) {
        let outcome = ledger.call(member, &Manners::Modern, &mut dice).await;
        if outcome != Outcome::Echoed {
            missing.push(format!("`{}`: {outcome:?}", member.name));
        }
    }
    missing
}

/// How often servers heard each canary. Not those of other people, who keep no journal, nor one that forgets sessions: it
/// hears calls that it then turns away unread, and these may be repeated.
fn carried_out(scenery: &Scenery) -> Result<BTreeMap<String, usize>, Failure> {
    let mut counts = BTreeMap::new();
    let keeps_journal = |it: &&Member| it.stage != Stage::Real && it.name != FORGETFUL;
    for member in scenery.members.iter().filter(keeps_journal) {
        let path = scenery.place.journals().join(member.name);
        let text = fs::read_to_string(&path);
        let text =
            text.map_err(|error| Failure::of(format!("`{}` has no journal", member.name), error))?;
        for line in text.lines() {
            let message: Json = serde_json::from_str(line).unwrap_or_default();
            if let Some(canary) = message["params"]["arguments"]["text"].as_str() {
                *counts.entry(format!("{canary} of `{}`", member.name)).or_default() += 1;
            }
        }
    }
    Ok(counts)
}

/// A second, short run that ends without a warning.
async fn killed(scenery: &Scenery) -> Result<Farewell, Failure> {
    let subject = Subject::start(&scenery.place)?;
    let ledger = Ledger::new(&subject.address);
    all_answer(&ledger, &scenery.members).await?;
    subject.end(Signal::KILL, &scenery.far.processes()).await
}
