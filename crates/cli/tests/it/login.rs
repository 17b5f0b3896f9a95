//! `swb login`.

use testkit::authority::{Charter, Endpoint};
use testkit::{Script, Scripted, Served};

use crate::signing_kit::{log_in, opened, page, scene_with_browser, stage, state, times_opened};
use crate::support::{USER, scene};

#[test]
fn one_command_signs_in_and_the_next_ones_stay_signed_in() {
    let (authority, scene) = stage(Charter::good());
    assert_eq!(state(&scene), "needs-auth");
    let ran = scene.swb(&["login", "web"]);
    let text = ran.ok();
    assert!(text.starts_with("Signed in to `web`.\n"), "{}", ran.shown());
    assert!(text.contains(&authority.issuer()) && text.contains("renewed by itself"), "{text}");
    assert!(text.contains("tool"), "{text}");
    assert_eq!(opened(&scene).lines().next(), Some("1"), "the address is one argument");
    assert!(
        ran.stderr.contains(opened(&scene).lines().last().expect("an address")),
        "{}",
        ran.shown()
    );
    assert!(page(&scene).contains("web"));
    let before = authority.tally();
    assert_eq!(state(&scene), "connected");
    let after = authority.tally();
    for endpoint in [Endpoint::ResourceMetadata, Endpoint::IssuerMetadata, Endpoint::Token] {
        assert_eq!(before.requests.get(&endpoint), after.requests.get(&endpoint), "{endpoint:?}");
    }
    assert_eq!((after.logins, times_opened(&scene)), (1, 1));
}

#[test]
fn whoever_is_signed_in_is_told_so_and_may_sign_in_again() {
    let (authority, scene) = stage(Charter::good());
    log_in(&scene);
    let ran = scene.swb(&["login", "web"]);
    assert!(ran.ok().starts_with("Already signed in to `web`"), "{}", ran.shown());
    assert_eq!(authority.tally().logins, 1);
    assert!(scene.swb(&["login", "web", "--again"]).ok().starts_with("Signed in to `web`"));
    assert_eq!(authority.tally().logins, 2);
}

#[test]
fn servers_that_one_cannot_sign_in_to_say_so() {
    let scene = scene();
    let open = Served::http(Script::modern());
    let program = Scripted::entry(&Script::modern());
    scene.servers(
        USER,
        &format!(
            r#""open": {{"type": "http", "url": "{0}"}}, "program": {program},
               "fixed": {{"type": "http", "url": "{0}", "headers": {{"Authorization": "Bearer x"}}}}"#,
            open.url()
        ),
    );
    insta::assert_snapshot!("wants_none", scene.swb(&["login", "open"]).fails(2));
    insta::assert_snapshot!("is_a_program", scene.swb(&["login", "program"]).fails(2));
    insta::assert_snapshot!("has_a_header", scene.swb(&["login", "fixed"]).fails(2));
    insta::assert_snapshot!("is_not_there", scene.swb(&["login", "opne"]).fails(5));
}

#[test]
fn where_nobody_could_come_back_it_fails_at_once() {
    let (_authority, scene) = stage(Charter::good());
    insta::assert_snapshot!(scene.swb(&["login", "web", "--no-browser"]).fails(8));
    assert_eq!(times_opened(&scene), 0);
    let _unused = scene_with_browser;
}
