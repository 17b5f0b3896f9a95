//! Sessions that are resumed, continued and forked.

use serde_json::json;
use testkit::model_service::Reply;

use crate::sdk_support::{Sdk, one_prompt, run, sandbox, service};

pub fn a_session_is_resumed_by_its_id(sdk: Sdk) {
    let service = service([Reply::text("nice to meet you"), Reply::text("your name is Ada")]);
    let sandbox = sandbox(&service);
    let mut first = one_prompt(json!({}));
    first["prompts"] = json!(["I am Ada"]);
    let first = run(sdk, &sandbox, &first);
    let id = first.expect_success().result()["session_id"].clone();
    let second = run(sdk, &sandbox, &one_prompt(json!({"resume": id})));
    second.expect_success();
    assert_eq!(second.result()["session_id"], id, "{}", second.report());
    let sent = service.request_body(1)["messages"].to_string();
    assert!(sent.contains("I am Ada") && sent.contains("nice to meet you"), "{sent}");
}

pub fn the_last_session_is_continued(sdk: Sdk) {
    let service = service([Reply::text("nice to meet you"), Reply::text("your name is Ada")]);
    let sandbox = sandbox(&service);
    let mut first = one_prompt(json!({}));
    first["prompts"] = json!(["I am Ada"]);
    let first = run(sdk, &sandbox, &first);
    let id = first.expect_success().result()["session_id"].clone();
    let second = run(sdk, &sandbox, &one_prompt(json!({"continue_conversation": true})));
    second.expect_success();
    assert_eq!(second.result()["session_id"], id, "{}", second.report());
    assert!(service.request_body(1)["messages"].to_string().contains("I am Ada"));
}

pub fn a_forked_session_has_an_id_of_its_own(sdk: Sdk) {
    let service =
        service([Reply::text("nice to meet you"), Reply::text("a fork"), Reply::text("back")]);
    let sandbox = sandbox(&service);
    let mut first = one_prompt(json!({}));
    first["prompts"] = json!(["I am Ada"]);
    let first = run(sdk, &sandbox, &first);
    let id = first.expect_success().result()["session_id"].clone();
    let fork = run(sdk, &sandbox, &one_prompt(json!({"resume": id, "fork_session": true})));
    fork.expect_success();
    assert_ne!(fork.result()["session_id"], id, "{}", fork.report());
    assert!(service.request_body(1)["messages"].to_string().contains("I am Ada"));
    let again = run(sdk, &sandbox, &one_prompt(json!({"resume": id})));
    again.expect_success();
    let sent = service.request_body(2)["messages"].to_string();
    assert!(sent.contains("I am Ada") && !sent.contains("a fork"), "{sent}");
}
