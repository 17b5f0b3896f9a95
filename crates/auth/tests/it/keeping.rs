//! The keeper between a transport and a server that turns us away.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method};
use switchboard_auth::callback::CallbackError;
use switchboard_auth::challenge::{Binding, Complaint, Demand};
use switchboard_auth::confidential::Secret;
use switchboard_auth::dpop::ProofKey;
use switchboard_auth::flow::{Instructions, Plan, Way};
use switchboard_auth::keeper::{Keeper, Trouble, Wanting};
use switchboard_auth::refresh::Refresher;
use switchboard_auth::registration::{Configured, Credential, Setup};
use switchboard_auth::runner::{NobodyThere, Person, Returning, sign_in};
use switchboard_auth::scopes::Scopes;
use switchboard_auth::vault::{Hold, Keeping, Record, RecordKey, Swapped, Vault, put};
use switchboard_wire::network::{Authorize, Outbound, Reception, Target};
use switchboard_wire::peer::{CallError, Connection, Peer};
use switchboard_wire::streamable::HttpLink;
use url::Url;

use crate::authority::{Authority, Clicker, Mood, browser, network, online};
use crate::renewing::{now, signed_in, trust, vault};

struct Scene {
    authority: Authority,
    vault: Arc<dyn Vault>,
    keeper: Arc<Keeper>,
    connection: Connection,
    _folder: tempfile::TempDir,
}

async fn scene(prepare: impl FnOnce(&Authority, Keeper) -> Keeper) -> Scene {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::start().await;
    let vault = vault(folder.path()).await;
    let refresher = Refresher::new(vault.clone(), Arc::new(online()), trust(&authority));
    let keeper = Arc::new(prepare(&authority, Keeper::new(refresher, "")));
    let target = Target::new(authority.server()).authorize(keeper.clone());
    let connection = Peer::start(HttpLink::new(network("test"), target));
    Scene { authority, vault, keeper, connection, _folder: folder }
}

impl Scene {
    /// The status of a call, 200 where it was answered.
    async fn call(&self) -> u16 {
        match self.connection.peer.call("tools/list").await {
            Ok(_) => 200,
            Err(CallError::Lost(fault)) => fault.status().expect("a status"),
            Err(other) => panic!("{other:?}"),
        }
    }

    fn wants_login(&self) -> bool {
        matches!(self.keeper.wanting(), Some(Wanting::Login { .. }))
    }
}

#[tokio::test]
async fn without_a_login_the_refusal_stands_and_says_what_is_wanted() {
    let scene = scene(|_, keeper| keeper).await;
    assert_eq!(scene.call().await, 401);
    let Some(Wanting::Login { demand }) = scene.keeper.wanting() else { panic!("a login") };
    assert!(demand.resource_metadata.is_some());
    // A login by another process is seen at the next call.
    signed_in(&scene.authority, &*scene.vault).await;
    assert_eq!(scene.call().await, 200);
    assert_eq!(scene.keeper.wanting(), None);
}

/// Counts how often somebody looks for a login.
struct CountedVault(Arc<dyn Vault>, AtomicUsize);

impl Vault for CountedVault {
    fn find<'a>(&'a self, server: &'a str, client: &'a str) -> Keeping<'a, Option<Record>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.find(server, client)
    }

    fn read<'a>(&'a self, key: &'a RecordKey) -> Keeping<'a, Option<Record>> {
        self.0.read(key)
    }

    fn swap<'a>(&'a self, record: &'a Record) -> Keeping<'a, Swapped> {
        self.0.swap(record)
    }

    fn remove<'a>(&'a self, key: &'a RecordKey, version: u64) -> Keeping<'a, Swapped> {
        self.0.remove(key, version)
    }

    fn all<'a>(&'a self) -> Keeping<'a, Vec<Record>> {
        self.0.all()
    }

    fn hold<'a>(&'a self, key: &'a RecordKey) -> Keeping<'a, Hold> {
        self.0.hold(key)
    }
}

#[tokio::test]
async fn a_vault_that_holds_nothing_is_not_read_for_every_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::start().await;
    let vault = Arc::new(CountedVault(vault(folder.path()).await, AtomicUsize::new(0)));
    let refresher = Refresher::new(vault.clone(), Arc::new(online()), trust(&authority));
    let keeper = Keeper::new(refresher, "");
    let url = authority.server();
    let outbound = Outbound { method: &Method::POST, url: &url };
    tokio::time::pause();
    for _ in 0..10 {
        assert!(keeper.headers(outbound).await.is_empty());
    }
    assert_eq!(vault.1.load(Ordering::SeqCst), 1);
    // A login by another process is seen by and by, also where nobody is turned away.
    signed_in(&authority, &*vault).await;
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(keeper.headers(outbound).await.contains_key("authorization"));
}

#[tokio::test]
async fn what_is_wanted_stays_wanted_until_somebody_signs_in() {
    let scene = scene(|_, keeper| keeper).await;
    assert_eq!(scene.call().await, 401);
    // Another request of the same transport was answered meanwhile, as a stream that there is not.
    let headers = HeaderMap::new();
    for (status, shown) in [(404, None), (200, None), (200, Some("Bearer other"))] {
        let shown = shown.map(HeaderValue::from_static);
        let shown = shown.as_ref();
        scene.keeper.answered(Reception { status, headers: &headers, shown });
        assert!(scene.wants_login(), "{status} {shown:?}");
    }
    signed_in(&scene.authority, &*scene.vault).await;
    scene.authority.book().need_scope("write");
    assert_eq!(scene.call().await, 403);
    scene.authority.book().need_nothing();
    assert_eq!(scene.call().await, 200);
    assert!(matches!(scene.keeper.wanting(), Some(Wanting::MoreScopes { .. })));
}

#[tokio::test]
async fn a_token_that_is_refused_is_renewed_and_the_call_goes_through() {
    let scene = scene(|_, keeper| keeper).await;
    signed_in(&scene.authority, &*scene.vault).await;
    assert_eq!(scene.call().await, 200);
    scene.authority.book().forget_access();
    assert_eq!(scene.call().await, 200);
    assert_eq!(scene.authority.book().refreshes, 1);
}

#[tokio::test]
async fn a_login_that_has_ended_is_said_and_not_hammered() {
    let scene = scene(|_, keeper| keeper).await;
    signed_in(&scene.authority, &*scene.vault).await;
    assert_eq!(scene.call().await, 200);
    scene.authority.book().forget_access();
    scene.authority.book().forget_refresh();
    for _ in 0..3 {
        assert_eq!(scene.call().await, 401);
        assert!(scene.wants_login());
    }
    assert_eq!(scene.authority.book().refreshes, 1);
}

#[tokio::test]
async fn an_outage_is_trouble_and_no_reason_to_sign_in() {
    let scene = scene(|_, keeper| keeper).await;
    signed_in(&scene.authority, &*scene.vault).await;
    assert_eq!(scene.call().await, 200);
    scene.authority.book().forget_access();
    scene.authority.book().mood = Mood::Says(503, "down");
    assert_eq!(scene.call().await, 401);
    assert_eq!(scene.keeper.wanting(), None);
    let trouble = scene.keeper.trouble().expect("trouble");
    assert!(matches!(*trouble, Trouble::Renew(_)), "{trouble:?}");
    scene.authority.book().mood = Mood::Good;
    assert_eq!(scene.call().await, 200);
    assert!(scene.keeper.trouble().is_none());
}

#[tokio::test]
async fn a_server_that_refuses_new_tokens_too_wants_a_login_elsewhere() {
    let scene = scene(|_, keeper| keeper).await;
    signed_in(&scene.authority, &*scene.vault).await;
    scene.authority.book().is_deaf = true;
    scene.authority.book().forget_access();
    assert_eq!(scene.call().await, 401);
    assert!(scene.wants_login());
    assert_eq!(scene.authority.book().refreshes, 1);
}

#[tokio::test]
async fn a_server_that_wants_more_says_which_and_what_is_held_is_kept() {
    let scene = scene(|_, keeper| keeper).await;
    let mut record = signed_in(&scene.authority, &*scene.vault).await;
    record.scopes = Some(Scopes::parse("read"));
    scene.keeper.signed_in(record);
    scene.authority.book().need_scope("write");
    assert_eq!(scene.call().await, 403);
    let Some(Wanting::MoreScopes { demand, held }) = scene.keeper.wanting() else {
        panic!("more scopes")
    };
    assert_eq!(demand.scopes, Some(Scopes::parse("write")));
    assert_eq!(demand.complaint, Some(Complaint::InsufficientScope));
    assert_eq!(held, Some(Scopes::parse("read")));
    assert_eq!(scene.authority.book().refreshes, 0);
}

#[tokio::test]
async fn bound_tokens_are_shown_with_a_fresh_proof_each_and_the_number_is_heeded() {
    let scene = scene(|_, keeper| keeper).await;
    let demand = Demand { binding: Binding::Demanded, ..Demand::default() };
    let proof = Some(ProofKey::generate());
    let plan = Plan { demand, proof, ..scene.authority.plan(browser()) };
    let signed_in = sign_in(plan, &online(), &Clicker).await.expect("in");
    let record = Record::of(signed_in, scene.authority.server().as_str(), "", now());
    put(&*scene.vault, record).await.expect("kept");
    scene.authority.book().wants_proofs = true;
    assert_eq!(scene.call().await, 200);
    assert_eq!(scene.call().await, 200);
    // And a renewal is proven, too.
    scene.authority.book().forget_access();
    assert_eq!(scene.call().await, 200);
    let book = scene.authority.book();
    let shown = book.seen.iter().filter(|seen| seen.path == "/mcp");
    let proofs: Vec<_> = shown.filter_map(|seen| seen.headers.get("dpop").cloned()).collect();
    let mut different = proofs.clone();
    different.sort();
    different.dedup();
    assert!(proofs.len() >= 4 && different.len() == proofs.len(), "{}", proofs.len());
}

/// Counts how often a browser opens.
#[derive(Default)]
struct Counting(AtomicUsize);

impl Person for Counting {
    fn open<'a>(&'a self, url: &'a Url) -> Returning<'a> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Clicker.open(url)
    }

    fn not_taken<'a>(&'a self, error: CallbackError) -> Returning<'a> {
        Clicker.not_taken(error)
    }

    fn show(&self, instructions: &Instructions) -> Result<(), NobodyThere> {
        Clicker.show(instructions)
    }
}

#[tokio::test]
async fn of_two_who_want_to_sign_in_at_once_one_opens_a_browser() {
    let one = scene(|_, keeper| keeper).await;
    let refresher = Refresher::new(one.vault.clone(), Arc::new(online()), trust(&one.authority));
    let other = Keeper::new(refresher, "");
    let person = Counting::default();
    let plan = || one.authority.plan(browser());
    let (first, second) =
        tokio::join!(one.keeper.sign_in(plan(), &person), other.sign_in(plan(), &person));
    assert_eq!(first.expect("in"), second.expect("in"));
    assert_eq!(person.0.load(Ordering::SeqCst), 1);
    assert_eq!(one.call().await, 200);
    // Who is signed in and wants to sign in again gets a browser.
    one.keeper.sign_in(plan(), &person).await.expect("in");
    assert_eq!(person.0.load(Ordering::SeqCst), 2);
}

fn by_itself(authority: &Authority, keeper: Keeper) -> Keeper {
    let server = authority.server();
    let url = authority.address;
    keeper.unattended(move |demand, _| {
        let credential = Credential::Secret(Secret::new("shh"));
        let issuer = Some(format!("http://{url}"));
        let configured = Configured { id: "me".to_owned(), credential, issuer };
        let setup = Setup { configured: Some(configured), document: None };
        let plan = Plan::new(server.clone(), Way::ClientCredentials, "Switchboard");
        Box::pin(std::future::ready(Some(Plan { demand, setup, ..plan })))
    })
}

#[tokio::test]
async fn what_vouches_is_asked_for_anew_each_time_and_a_person_only_where_nothing_does() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let scene = scene(move |authority, keeper| {
        let (server, url) = (authority.server(), authority.address);
        keeper.unattended(move |demand, _| {
            // Nobody vouches the first time; then somebody does.
            let is_vouched = count.fetch_add(1, Ordering::SeqCst) > 0;
            let credential = Credential::Secret(Secret::new("shh"));
            let issuer = Some(format!("http://{url}"));
            let configured = Configured { id: "me".to_owned(), credential, issuer };
            let setup = Setup { configured: Some(configured), document: None };
            let plan = Plan::new(server.clone(), Way::ClientCredentials, "Switchboard");
            let plan = Plan { demand, setup, ..plan };
            Box::pin(std::future::ready(is_vouched.then_some(plan)))
        })
    })
    .await;
    assert_eq!(scene.call().await, 401);
    assert!(scene.keeper.wanting().is_some());
    assert_eq!(scene.call().await, 200);
    assert_eq!((scene.keeper.wanting(), asked.load(Ordering::SeqCst)), (None, 2));
}

#[tokio::test]
async fn a_program_signs_in_at_the_first_call_and_again_when_it_must() {
    let scene = scene(by_itself).await;
    assert_eq!(scene.call().await, 200);
    scene.authority.book().forget_access();
    scene.authority.book().forget_refresh();
    assert_eq!(scene.call().await, 200);
    assert_eq!(scene.keeper.wanting(), None);
    scene.authority.book().mood = Mood::Says(400, r#"{"error":"invalid_client"}"#);
    scene.authority.book().forget_access();
    assert_eq!(scene.call().await, 401);
    let trouble = scene.keeper.trouble().expect("trouble");
    assert!(matches!(*trouble, Trouble::SignIn(_)), "{trouble:?}");
}

#[tokio::test]
async fn nothing_that_the_server_gets_reaches_its_authority() {
    let scene = scene(|_, keeper| keeper).await;
    signed_in(&scene.authority, &*scene.vault).await;
    scene.authority.book().forget_access();
    assert_eq!(scene.call().await, 200);
    let book = scene.authority.book();
    for seen in book.seen.iter().filter(|seen| seen.path != "/mcp") {
        assert!(!seen.headers.contains_key("authorization"), "{}", seen.path);
        assert!(!seen.headers.contains_key("mcp-session-id"), "{}", seen.path);
    }
    assert!(!format!("{:?}", scene.keeper).contains("access-"));
}
