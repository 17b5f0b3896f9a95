//! Tests of the dialog.

use crossterm::event::KeyCode::{BackTab, Backspace, Char, Down, Enter, Esc, Left, Right, Tab, Up};
use serde_json::{Value as Json, json};

use super::*;
use crate::view::test_support::{
    HOSTILE_TEXTS, press, render_at_small_sizes, render_overlay, type_text,
};

fn form(schema: Json) -> Form {
    Form::parse(&json!({"message": "Tell me about the release", "requestedSchema": schema}))
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

fn dialog(schema: Json) -> (FormDialog, oneshot::Receiver<ElicitResult>) {
    let (reply, answer) = oneshot::channel();
    (FormDialog::new("release-bot", form(schema), reply), answer)
}

#[test]
fn it_looks_like_this() {
    let (mut dialog, _answer) = dialog(every_kind());
    insta::assert_snapshot!("form_80", render_overlay(&mut dialog, (80, 24)));
    insta::assert_snapshot!("form_120", render_overlay(&mut dialog, (120, 40)));
    type_text(&mut dialog, "x");
    press(&mut dialog, &[Tab, Char('m'), Tab, Char('0')]);
    insta::assert_snapshot!("form_wrong", render_overlay(&mut dialog, (80, 40)));
    insta::assert_snapshot!("form_20", render_overlay(&mut dialog, (20, 5)));
}

#[test]
fn every_kind_of_field_is_filled_in_with_keys_alone() {
    let (mut dialog, mut answer) = dialog(every_kind());
    type_text(&mut dialog, "Aspen");
    press(&mut dialog, &[Tab]);
    type_text(&mut dialog, "a@b.c");
    press(&mut dialog, &[Enter, Char('7'), Down, Backspace, Char('7'), Down]);
    // Sure: no. Colour: the next one. Tags: the first and the one that begins with o, twice on.
    press(
        &mut dialog,
        &[Char('y'), Right, Tab, Right, Tab, Char(' '), Char('o'), Char('o'), Char(' ')],
    );
    assert!(matches!(press(&mut dialog, &[Tab, Enter]), OverlayOutcome::Close));
    let Ok(ElicitResult::Accept(given)) = answer.try_recv() else { panic!("not accepted") };
    assert_eq!(
        Json::Object(given),
        json!({
            "name": "Aspen", "mail": "a@b.c", "size": 7, "ratio": 0.7, "sure": false,
            "colour": "b", "tags": ["new", "odd"],
        })
    );
}

#[test]
fn errors_are_shown_while_the_user_types() {
    let (mut dialog, _answer) = dialog(every_kind());
    assert!(!render_overlay(&mut dialog, (80, 40)).contains("required"));
    type_text(&mut dialog, "x");
    assert!(render_overlay(&mut dialog, (80, 40)).contains("expected at least 2 characters"));
    type_text(&mut dialog, "y");
    assert!(!render_overlay(&mut dialog, (80, 40)).contains("characters are wanted"));
}

#[test]
fn accepting_goes_to_the_first_field_that_is_wrong() {
    let (mut dialog, mut answer) = dialog(every_kind());
    type_text(&mut dialog, "Aspen");
    let tabs = [Tab; 7];
    assert!(matches!(press(&mut dialog, &tabs), OverlayOutcome::Stay));
    assert!(matches!(press(&mut dialog, &[Enter]), OverlayOutcome::Stay));
    let text = render_overlay(&mut dialog, (80, 40));
    assert!(text.contains("▸ size") && text.contains("an answer is required"), "{text}");
    assert!(answer.try_recv().is_err());
}

#[track_caller]
fn check(keys: &[KeyCode], expected: &ElicitResult) {
    let schema = json!({"properties": {"a": {"type": "string"}}});
    let (mut dialog, mut answer) = dialog(schema);
    assert!(matches!(press(&mut dialog, keys), OverlayOutcome::Close), "{keys:?}");
    assert_eq!(answer.try_recv().as_ref(), Ok(expected), "{keys:?}");
}

#[test]
fn a_form_is_accepted_declined_or_cancelled() {
    check(&[Enter, Enter], &ElicitResult::Accept(Map::new()));
    check(&[Tab, Right, Enter], &ElicitResult::Decline("the user said no".to_owned()));
    check(&[Tab, Char('3'), Enter], &ElicitResult::Cancel("the user did not decide".to_owned()));
    check(&[Esc], &ElicitResult::Cancel("the user did not decide".to_owned()));
}

#[test]
fn fields_are_reached_from_both_sides() {
    let (mut dialog, _answer) = dialog(every_kind());
    for (keys, at) in [(&[BackTab][..], 0), (&[Down, Down], 2), (&[Up], 1), (&[Tab; 9], 2)] {
        press(&mut dialog, keys);
        assert_eq!(dialog.focused, at, "{keys:?}");
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
    press(&mut dialog, &[Backspace, Tab, Tab, Left, Backspace, Tab, Enter]);
    assert_eq!(
        answer.try_recv(),
        Ok(ElicitResult::Accept(json!({"a": "", "b": 3}).as_object().expect("an object").clone()))
    );
}

#[test]
fn a_form_without_fields_is_a_plain_question() {
    let (mut dialog, mut answer) = dialog(json!({"properties": {}}));
    render_overlay(&mut dialog, (80, 24));
    press(&mut dialog, &[Enter]);
    assert_eq!(answer.try_recv(), Ok(ElicitResult::Accept(Map::new())));
}

#[test]
fn pasted_text_goes_into_the_field() {
    let (mut dialog, mut answer) = dialog(json!({"properties": {"a": {"type": "string"}}}));
    dialog.on_paste("one\ntwo\n");
    press(&mut dialog, &[Tab]);
    dialog.on_paste("not here");
    press(&mut dialog, &[Enter]);
    let expected = json!({"a": "one two"}).as_object().expect("an object").clone();
    assert_eq!(answer.try_recv(), Ok(ElicitResult::Accept(expected)));
}

#[test]
fn a_tall_form_follows_the_field_that_the_keys_go_to() {
    let fields: Map<String, Json> =
        (0..60).map(|it| (format!("field {it}"), json!({"type": "string"}))).collect();
    let (mut dialog, _answer) = dialog(json!({"properties": fields}));
    press(&mut dialog, &[Tab; 50]);
    let text = render_overlay(&mut dialog, (80, 24));
    assert!(text.contains("▸ field 50") && text.contains("Accept"), "{text}");
    press(&mut dialog, &[KeyCode::PageUp, KeyCode::PageUp]);
    assert!(!render_overlay(&mut dialog, (80, 24)).contains("▸ field 50"));
    type_text(&mut dialog, "x");
    assert!(render_overlay(&mut dialog, (80, 24)).contains("▸ field 50"));
}

#[test]
fn many_choices_show_where_one_is() {
    let many: Vec<String> = (0..1000).map(|it| format!("choice {it}")).collect();
    let (mut dialog, _answer) =
        dialog(json!({"properties": {"a": {"type": "string", "enum": many}}}));
    press(&mut dialog, &[Right; 37]);
    let text = render_overlay(&mut dialog, (80, 24));
    assert!(text.contains("● choice 36") && text.contains("37 of 1000"), "{text}");
}

#[test]
fn hostile_texts_and_small_screens_do_no_harm() {
    for text in HOSTILE_TEXTS {
        let schema = json!({"required": [text], "properties": {
            text: {"type": "string", "title": text, "description": text},
            "b": {"type": "string", "enum": [text, "x"], "enumNames": [text]},
            "c": {"type": "array", "items": {"enum": [text], "type": "string"}},
        }});
        let (reply, _answer) = oneshot::channel();
        let mut dialog =
            FormDialog::new(text, Form { message: text.to_owned(), ..form(schema) }, reply);
        dialog.on_paste(text);
        render_at_small_sizes(&mut dialog);
        press(&mut dialog, &[Tab, Tab, Tab, Enter]);
        render_at_small_sizes(&mut dialog);
    }
}
