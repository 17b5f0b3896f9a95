//! Tests of the dialog.

use crossterm::event::KeyCode::{BackTab, Backspace, Char, Down, Enter, Esc, Left, Right, Tab, Up};
use serde_json::{Value as Json, json};

use super::*;
use crate::screen::dialog::stage::{HOSTILE, drawn, play, squeeze, write};

fn form(schema: Json) -> Form {
    Form::read(&json!({"message": "Tell me about the release", "requestedSchema": schema}))
        .expect("a form")
}

fn every_kind() -> Json {
    json!({
        "type": "object",
        "required": ["name", "size", "sure"],
        "properties": {
            "name": {"type": "string", "title": "Name", "minLength": 2, "description": "What people call it"},
            "mail": {"type": "string", "format": "email"},
            "size": {"type": "integer", "minimum": 1, "maximum": 9},
            "ratio": {"type": "number", "default": 0.5},
            "sure": {"type": "boolean", "title": "Are you sure?"},
            "colour": {"type": "string", "enum": ["r", "g", "b"], "enumNames": ["Red", "Green", "Blue"], "default": "g"},
            "tags": {"type": "array", "maxItems": 2, "items": {"enum": ["new", "old", "odd"], "type": "string"}},
        },
    })
}

fn dialog(schema: Json) -> (FormDialog, oneshot::Receiver<Reply>) {
    let (reply, answer) = oneshot::channel();
    (FormDialog::new("release-bot", form(schema), reply), answer)
}

#[test]
fn it_looks_like_this() {
    let (mut dialog, _answer) = dialog(every_kind());
    insta::assert_snapshot!("form_80", drawn(&mut dialog, (80, 24)));
    insta::assert_snapshot!("form_120", drawn(&mut dialog, (120, 40)));
    write(&mut dialog, "x");
    play(&mut dialog, &[Tab, Char('m'), Tab, Char('0')]);
    insta::assert_snapshot!("form_wrong", drawn(&mut dialog, (80, 40)));
    insta::assert_snapshot!("form_20", drawn(&mut dialog, (20, 5)));
}

#[test]
fn every_kind_of_field_is_filled_in_with_keys_alone() {
    let (mut dialog, mut answer) = dialog(every_kind());
    write(&mut dialog, "Aspen");
    play(&mut dialog, &[Tab]);
    write(&mut dialog, "a@b.c");
    play(&mut dialog, &[Enter, Char('7'), Down, Backspace, Char('7'), Down]);
    // Sure: no. Colour: the next one. Tags: the first and the one that begins with o, twice on.
    play(
        &mut dialog,
        &[Char('y'), Right, Tab, Right, Tab, Char(' '), Char('o'), Char('o'), Char(' ')],
    );
    assert!(matches!(play(&mut dialog, &[Tab, Enter]), Reaction::Close));
    let Ok(Reply::Accept(given)) = answer.try_recv() else { panic!("not accepted") };
    assert_eq!(
        Json::Object(given),
        json!({
            "name": "Aspen", "mail": "a@b.c", "size": 7, "ratio": 0.7, "sure": false,
            "colour": "b", "tags": ["new", "odd"],
        })
    );
}

#[test]
fn what_is_wrong_is_said_while_one_types() {
    let (mut dialog, _answer) = dialog(every_kind());
    assert!(!drawn(&mut dialog, (80, 40)).contains("required"));
    write(&mut dialog, "x");
    assert!(drawn(&mut dialog, (80, 40)).contains("at least 2 characters are wanted"));
    write(&mut dialog, "y");
    assert!(!drawn(&mut dialog, (80, 40)).contains("characters are wanted"));
}

#[test]
fn accepting_goes_to_the_first_field_that_is_wrong() {
    let (mut dialog, mut answer) = dialog(every_kind());
    write(&mut dialog, "Aspen");
    let tabs = [Tab; 7];
    assert!(matches!(play(&mut dialog, &tabs), Reaction::Stay));
    assert!(matches!(play(&mut dialog, &[Enter]), Reaction::Stay));
    let text = drawn(&mut dialog, (80, 40));
    assert!(text.contains("▸ size") && text.contains("an answer is required"), "{text}");
    assert!(answer.try_recv().is_err());
}

#[track_caller]
fn check(keys: &[KeyCode], expected: &Reply) {
    let schema = json!({"properties": {"a": {"type": "string"}}});
    let (mut dialog, mut answer) = dialog(schema);
    assert!(matches!(play(&mut dialog, keys), Reaction::Close), "{keys:?}");
    assert_eq!(answer.try_recv().as_ref(), Ok(expected), "{keys:?}");
}

#[test]
fn a_form_is_accepted_declined_or_cancelled() {
    check(&[Enter, Enter], &Reply::Accept(Map::new()));
    check(&[Tab, Right, Enter], &Reply::Decline("the person said no".to_owned()));
    check(&[Tab, Char('3'), Enter], &Reply::Cancel("the person did not decide".to_owned()));
    check(&[Esc], &Reply::Cancel("the person did not decide".to_owned()));
}

#[test]
fn fields_are_reached_from_both_sides() {
    let (mut dialog, _answer) = dialog(every_kind());
    for (keys, at) in [(&[BackTab][..], 0), (&[Down, Down], 2), (&[Up], 1), (&[Tab; 9], 2)] {
        play(&mut dialog, keys);
        assert_eq!(dialog.at, at, "{keys:?}");
    }
}

#[test]
fn a_default_that_was_taken_out_does_not_come_back() {
    let schema = json!({"properties": {
        "a": {"type": "string", "default": "x"},
        "b": {"type": "integer", "default": 3},
        "c": {"type": "boolean"},
    }});
    let (mut dialog, mut answer) = dialog(schema);
    play(&mut dialog, &[Backspace, Tab, Tab, Left, Backspace, Tab, Enter]);
    assert_eq!(
        answer.try_recv(),
        Ok(Reply::Accept(json!({"a": "", "b": 3}).as_object().expect("an object").clone()))
    );
}

#[test]
fn a_form_without_fields_is_a_plain_question() {
    let (mut dialog, mut answer) = dialog(json!({"properties": {}}));
    drawn(&mut dialog, (80, 24));
    play(&mut dialog, &[Enter]);
    assert_eq!(answer.try_recv(), Ok(Reply::Accept(Map::new())));
}

#[test]
fn what_is_pasted_goes_into_the_field() {
    let (mut dialog, mut answer) = dialog(json!({"properties": {"a": {"type": "string"}}}));
    dialog.paste("one\ntwo\n");
    play(&mut dialog, &[Tab]);
    dialog.paste("not here");
    play(&mut dialog, &[Enter]);
    let expected = json!({"a": "one two"}).as_object().expect("an object").clone();
    assert_eq!(answer.try_recv(), Ok(Reply::Accept(expected)));
}

#[test]
fn a_tall_form_follows_the_field_that_the_keys_go_to() {
    let fields: Map<String, Json> =
        (0..60).map(|it| (format!("field {it}"), json!({"type": "string"}))).collect();
    let (mut dialog, _answer) = dialog(json!({"properties": fields}));
    play(&mut dialog, &[Tab; 50]);
    let text = drawn(&mut dialog, (80, 24));
    assert!(text.contains("▸ field 50") && text.contains("Accept"), "{text}");
    play(&mut dialog, &[KeyCode::PageUp, KeyCode::PageUp]);
    assert!(!drawn(&mut dialog, (80, 24)).contains("▸ field 50"));
    write(&mut dialog, "x");
    assert!(drawn(&mut dialog, (80, 24)).contains("▸ field 50"));
}

#[test]
fn many_choices_show_where_one_is() {
    let many: Vec<String> = (0..1000).map(|it| format!("choice {it}")).collect();
    let (mut dialog, _answer) =
        dialog(json!({"properties": {"a": {"type": "string", "enum": many}}}));
    play(&mut dialog, &[Right; 37]);
    let text = drawn(&mut dialog, (80, 24));
    assert!(text.contains("● choice 36") && text.contains("37 of 1000"), "{text}");
}

#[test]
fn hostile_texts_and_small_screens_do_no_harm() {
    for text in HOSTILE {
        let schema = json!({"required": [text], "properties": {
            text: {"type": "string", "title": text, "description": text},
            "b": {"type": "string", "enum": [text, "x"], "enumNames": [text]},
            "c": {"type": "array", "items": {"enum": [text], "type": "string"}},
        }});
        let (reply, _answer) = oneshot::channel();
        let mut dialog =
            FormDialog::new(text, Form { message: text.to_owned(), ..form(schema) }, reply);
        dialog.paste(text);
        squeeze(&mut dialog);
        play(&mut dialog, &[Tab, Tab, Tab, Enter]);
        squeeze(&mut dialog);
    }
}
