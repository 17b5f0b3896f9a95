//! Clients of one gateway that are told apart: who shares a server's process with whom, who has which place in the
//! workspace, and who may see and do what.

use std::time::Duration;

use serde_json::json;
use testkit::processes::wait_until_gone;
use testkit::{Scene, Script, Scripted};

use crate::door::{Door, Session, Visitor, with_tokens};
use crate::support::{USER, scene};

const SOON: Duration = Duration::from_secs(20);
const ADA: &str = "ada-0123456789abcdef0123456789abcdef";
const BOB: &str = "bob-0123456789abcdef0123456789abcdef";

fn tokens(scene: &Scene) -> String {
    with_tokens(scene, &[("ada", ADA), ("bob", BOB)])
}

fn modern<'a>(door: &'a Door, token: &'a str) -> Visitor<'a> {
    Visitor::Modern { door, token: Some(token) }
}

/// The process that a server is for a client. There is one of each era.
#[track_caller]
fn processes(visitor: Visitor<'_>) -> [u64; 2] {
    ["old", "new"].map(|server| {
        let who = visitor.call(&format!("mcp__{server}__whoami"), json!({}));
        who["structuredContent"]["pid"].as_u64().unwrap_or_else(|| panic!("no number: {who}"))
    })
}

/// A gateway before two programs that keep what they know to themselves.
fn before_programs(scene: &Scene, sharing: &[&str]) -> Door {
    let (old, new) = (Script::legacy().named("old"), Script::modern().named("new"));
    let entries = format!("\"old\": {}, \"new\": {}", Scripted::entry(&old), Scripted::entry(&new));
    scene.servers(USER, &entries);
    let tokens = tokens(scene);
    Door::open(scene, &[&["--token-file", &tokens], sharing].concat())
}

#[test]
fn everybody_shares_a_servers_process_where_that_is_wanted() {
    let scene = scene();
    let door = before_programs(&scene, &["--sharing", "everybody"]);
    let ada = processes(modern(&door, ADA));
    assert_eq!(processes(modern(&door, BOB)), ada);
    let session = Session::begin(&door, Some(BOB));
    assert_eq!(processes(Visitor::Legacy(&session)), ada);
    door.end();
}

#[test]
fn principals_have_processes_of_their_own_and_their_sessions_share_them() {
    // Who shows a token can be told apart, so that this is also what happens where nothing is said.
    for sharing in [&["--sharing", "principal"][..], &[]] {
        let scene = scene();
        let door = before_programs(&scene, sharing);
        let [ada, bob] = [ADA, BOB].map(|it| processes(modern(&door, it)));
        assert!(ada.iter().zip(&bob).all(|(one, other)| one != other), "{ada:?} {bob:?}");
        assert_eq!(processes(modern(&door, ADA)), ada);
        let sessions = [(); 2].map(|()| Session::begin(&door, Some(ADA)));
        for session in &sessions {
            assert_eq!(processes(Visitor::Legacy(session)), ada);
        }
        door.end();
    }
}

#[test]
fn sessions_have_processes_of_their_own_which_end_with_them() {
    let scene = scene();
    let door = before_programs(&scene, &["--sharing", "session"]);
    let [one, other, third] = [ADA, ADA, BOB].map(|it| Session::begin(&door, Some(it)));
    let of = |session: &Session<'_>| processes(Visitor::Legacy(session));
    let mut all = [of(&one), of(&other), of(&third), processes(modern(&door, ADA))].concat();
    let first = of(&one);
    assert_eq!(first[..], all[..2], "a session keeps what it has");
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 8, "each has its own: {all:?}");
    one.end();
    for process in first {
        wait_until_gone(u32::try_from(process).expect("a number"), SOON);
    }
    assert!(all.contains(&of(&other)[0]), "what is another's stays");
    door.end();
}

#[test]
fn in_the_workspace_every_session_has_its_own_place() {
    let scene = scene();
    scene.write("a.txt", "one\n").write("below/b.txt", "two\n");
    let door = Door::serve(&scene, &["--no-auth"]);
    let sessions = [(); 2].map(|()| Session::begin(&door, None));
    let [one, other] = sessions.each_ref().map(Visitor::Legacy);
    let stands = |it: Visitor<'_>| {
        let ran = it.call("Bash", json!({"command": "pwd"}));
        ran["structuredContent"]["output"].as_str().map(|it| it.trim().to_owned())
    };
    let (here, below) = (scene.project(), scene.path("below"));
    one.call("Bash", json!({"command": "cd below"}));
    assert_eq!(stands(one), Some(below.display().to_string()));
    assert_eq!(stands(other), Some(here.display().to_string()));
    // What one has read, the other has not.
    let read = one.call("Read", json!({"file_path": scene.path("a.txt")}));
    assert_eq!(read["structuredContent"]["content"], "one", "{read}");
    let edit = json!({
        "file_path": scene.path("a.txt"), "old_string": "one", "new_string": "three",
    });
    let refused = other.call("Edit", edit.clone());
    assert_eq!(refused["isError"], true, "{refused}");
    assert_eq!(scene.read("a.txt"), "one\n");
    let edited = one.call("Edit", edit);
    assert_ne!(edited["isError"], true, "{edited}");
    assert_eq!(scene.read("a.txt"), "three\n");
    door.end();
}
