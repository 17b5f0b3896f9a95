//! Options that a package (a plugin or a bundle) asks its user for: their definitions, the values that count, and the
//! references to them in a server's entry. Where values are kept is left to the caller.
//!
//! ```
//! use serde_json::json;
//! use switchboard_config::template::Template;
//! use switchboard_config::user_config::{OptionInputs, UserConfig, ValueSyntax};
//!
//! let manifest = json!({"port": {"type": "number", "title": "Port", "description": "Where it listens", "default": 80}});
//! let (options, problems) = UserConfig::parse(&manifest);
//! assert!(problems.is_empty());
//! let given = serde_json::Map::new();
//! let values = options.effective(&OptionInputs { given: &given, syntax: ValueSyntax::Literal, variables: &[] });
//! let filled = values.fill(&Template::from_literal("--port=${user_config.port}"), &mut Vec::new());
//! assert_eq!((filled.as_literal(), values.needs_config()), (Some("--port=80"), false));
//! ```

mod definition;
mod effective;
mod option;
mod value;

pub use definition::UserConfig;
pub use effective::{EffectiveOptions, OptionInputs, OptionValue, ValueSyntax};
pub use option::{OptionKind, UserOption};
pub use value::is_missing;

use thiserror::Error;

/// Something that is wrong with an option, its value or a reference to it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("option `{key}`: {kind}")]
pub struct OptionProblem {
    /// The option; empty if the problem belongs to none. Untrusted text.
    pub key: String,
    /// The kind of problem.
    pub kind: OptionProblemKind,
}

/// What is wrong with an option.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OptionProblemKind {
    /// The definitions, or one of them, are not an object.
    #[error("its definition is not an object")]
    NotAnObject,
    /// There are more options than any package needs.
    #[error("there are too many options; this one and those after it are left out")]
    TooMany,
    /// The key cannot be referred to.
    #[error("its name is empty, too long, or contains `}}`, `=` or a control character")]
    InvalidKey,
    /// The `type` is missing or unknown, so the option is a string.
    #[error("its type is not string, number, boolean, directory or file")]
    UnknownType,
    /// A text that users need is missing.
    #[error("`{0}` is missing")]
    MissingText(&'static str),
    /// A member of the definition has the wrong type.
    #[error("`{0}` has the wrong type")]
    InvalidMember(&'static str),
    /// The default is not a value of the option.
    #[error("its default is not a value of the option")]
    InvalidDefault,
    /// The package has no such option.
    #[error("the package has no such option")]
    UnknownOption,
    /// A value has the wrong type.
    #[error("the value must be {expected}")]
    WrongType {
        /// The expected type.
        expected: &'static str,
    },
    /// A number is out of range.
    #[error("the value must be {0}")]
    OutOfRange(String),
    /// Several values were given to an option that has one.
    #[error("the option has only one value")]
    OneValue,
    /// A sensitive value is written in plain text.
    #[error("the value is secret, but is not kept in the secret store")]
    PlainSecret,
    /// A text refers to an option without a value, and stays as it is.
    #[error("it has no value, so the reference to it stays as written")]
    Unset,
    /// A text refers to a list next to other text, and stays as it is.
    #[error(
        "it is a list, which can only be an argument of its own; the reference stays as written"
    )]
    ListInText,
}

impl OptionProblem {
    pub(crate) fn new(key: &str, kind: OptionProblemKind) -> OptionProblem {
        OptionProblem { key: key.to_owned(), kind }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value as Json, json};

    use super::*;
    use crate::template::Template;

    fn options() -> Json {
        json!({
            "dir": {"type": "directory", "title": "Folders", "description": "d", "required": true, "multiple": true},
            "key": {"type": "string", "title": "Key", "description": "d", "sensitive": true},
            "port": {"type": "number", "title": "Port", "description": "d", "required": true, "min": 0, "max": 99, "default": 8},
            "fast": {"type": "boolean", "title": "Fast", "description": "d", "required": true},
            "home": {"type": "string", "title": "Home", "description": "d", "default": "${HOME}/x $& ${user_config.key}"},
        })
    }

    fn given(json: Json) -> Map<String, Json> {
        json.as_object().expect("an object").clone()
    }

    fn effective(values: Json, syntax: ValueSyntax) -> EffectiveOptions {
        let (options, problems) = UserConfig::parse(&options());
        assert_eq!(problems, []);
        let variables = [("HOME".to_owned(), "/users/u".to_owned())];
        let given = given(values);
        options.effective(&OptionInputs { given: &given, syntax, variables: &variables })
    }

    /// Fills `items` and returns them as shown, with the problems.
    #[track_caller]
    fn check(values: Json, items: &[&str], expected: &[&str], problems: &[&str]) {
        let values = effective(values, ValueSyntax::Literal);
        let mut found = Vec::new();
        let items: Vec<Template> = items.iter().map(|it| Template::from_literal(it)).collect();
        let filled = values.fill_items(&items, &mut found);
        let shown: Vec<String> = filled.iter().map(|it| it.masked_with(str::to_owned)).collect();
        assert_eq!(shown, expected);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, problems);
    }

    #[test]
    fn an_item_that_is_exactly_a_list_becomes_several_and_an_empty_list_none() {
        let exact = ["a", "${user_config.dir}", "b"];
        check(json!({"dir": ["/x", "/y z"]}), &exact, &["a", "/x", "/y z", "b"], &[]);
        check(json!({"dir": []}), &exact, &["a", "b"], &[]);
        check(json!({"dir": "/x"}), &exact, &["a", "/x", "b"], &[]);
    }

    #[test]
    fn a_list_inside_a_longer_text_stays_as_written() {
        let problem = "option `dir`: it is a list, which can only be an argument of its own; the reference stays as written";
        check(
            json!({"dir": ["/x"]}),
            &["--dir=${user_config.dir}"],
            &["--dir=${user_config.dir}"],
            &[problem],
        );
    }

    #[test]
    fn numbers_and_booleans_become_text_and_values_are_literal() {
        check(
            json!({"port": 8.0, "fast": false, "home": "$& $1 ${HOME} \\1"}),
            &["${user_config.port}/${user_config.fast}", "${user_config.home}", "${HOME}"],
            &["8/false", "$& $1 ${HOME} \\1", "/users/u"],
            &[],
        );
        for (number, text) in [
            (json!(0), "0"),
            (json!(1.5), "1.5"),
            (json!(-0.25), "-0.25"),
            (json!(1e21), "1000000000000000000000"),
        ] {
            assert_eq!(value::number_text(number.as_number().expect("a number")), text);
        }
    }

    #[test]
    fn a_default_may_name_folders_but_is_not_searched_for_options() {
        check(json!({}), &["${user_config.home}"], &["/users/u/x $& ${user_config.key}"], &[]);
    }

    #[test]
    fn an_option_without_value_stays_as_written_and_is_reported() {
        let problem = "option `key`: it has no value, so the reference to it stays as written";
        check(json!({}), &["${user_config.key}"], &["${user_config.key}"], &[problem]);
        let problem = "option `nope`: the package has no such option";
        check(json!({}), &["${user_config.nope}"], &["${user_config.nope}"], &[problem]);
    }

    #[test]
    fn a_sensitive_value_is_masked_and_a_reference_to_the_store_stays_one() {
        check(json!({"key": "hunter2"}), &["k=${user_config.key}"], &["k=${user_config.key}"], &[]);
        let plain = effective(json!({"key": "hunter2"}), ValueSyntax::Template);
        assert!(plain.problems.iter().any(|it| it.kind == OptionProblemKind::PlainSecret));
        let stored = effective(json!({"key": "${keychain:a/b}"}), ValueSyntax::Template);
        let text = stored.fill(&Template::from_literal("k=${user_config.key}"), &mut Vec::new());
        assert_eq!(text.secrets().len(), 1);
        assert!(!stored.problems.iter().any(|it| it.kind == OptionProblemKind::PlainSecret));
    }

    #[test]
    fn missing_is_undefined_null_empty_but_not_zero_or_false() {
        let missing = |json| effective(json, ValueSyntax::Literal).missing;
        assert_eq!(missing(json!({})), ["dir", "fast"]);
        assert_eq!(missing(json!({"dir": [], "fast": false})), ["dir"]);
        assert_eq!(missing(json!({"dir": "", "fast": null, "port": 0})), ["dir", "fast"]);
        assert_eq!(missing(json!({"dir": ["/a"], "fast": false, "port": 0})), [""; 0]);
        assert_eq!(missing(json!({"dir": ["/a"], "fast": false, "port": null})), ["port"]);
    }

    #[test]
    fn a_value_that_does_not_fit_needs_config_even_where_there_is_a_default() {
        let values =
            effective(json!({"dir": ["/a"], "fast": false, "port": 100}), ValueSyntax::Literal);
        assert_eq!(values.missing, ["port"]);
        let messages: Vec<String> = values.problems.iter().map(ToString::to_string).collect();
        assert_eq!(messages, ["option `port`: the value must be a number from 0 to 99"]);
        let values = effective(
            json!({"dir": [1], "fast": "yes", "port": "x", "y": 1}),
            ValueSyntax::Literal,
        );
        assert_eq!(values.missing, ["dir", "port", "fast"]);
        assert_eq!(values.problems.len(), 4, "{:?}", values.problems);
        let several = effective(json!({"dir": ["/a"], "fast": [true]}), ValueSyntax::Literal);
        assert_eq!(several.problems[0].kind, OptionProblemKind::OneValue);
    }

    #[test]
    fn definitions_are_read_leniently() {
        let (options, problems) = UserConfig::parse(&json!({
            "a": {"type": "text"}, "b": 1, "c}": {}, "d": {"type": "number", "title": "D", "description": "d",
            "default": "x", "required": "yes", "sensitive": "yes", "min": "0"},
        }));
        let messages: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [
                "option `a`: its type is not string, number, boolean, directory or file",
                "option `a`: `title` is missing",
                "option `a`: `description` is missing",
                "option `b`: its definition is not an object",
                "option `c}`: its name is empty, too long, or contains `}`, `=` or a control character",
                "option `d`: `required` has the wrong type",
                "option `d`: `sensitive` has the wrong type",
                "option `d`: `min` has the wrong type",
                "option `d`: its default is not a value of the option",
            ]
        );
        let keys: Vec<&str> = options.options.iter().map(|it| it.key.as_str()).collect();
        assert_eq!(keys, ["a", "d"]);
        let d = options.find("d").expect("it is defined");
        assert!(d.sensitive && !d.required && d.default.is_none(), "in doubt, a value is secret");
        assert_eq!(UserConfig::parse(&json!([])).1.len(), 1);
        assert_eq!(UserConfig::parse(&Json::Null), (UserConfig::default(), Vec::new()));
        let many: Map<String, Json> = (0..300)
            .map(|n| (format!("k{n}"), json!({"type": "string", "title": "t", "description": "d"})))
            .collect();
        let (options, problems) = UserConfig::parse(&Json::Object(many));
        assert_eq!((options.options.len(), problems.len()), (256, 1));
    }

    #[test]
    fn typed_text_becomes_a_value_of_the_option() {
        let (options, _) = UserConfig::parse(&options());
        let typed = |key: &str, texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|it| (*it).to_owned()).collect();
            options.find(key).expect("defined").value_from_text(&texts).map_err(|it| it.to_string())
        };
        assert_eq!(typed("dir", &["/a", "/b"]), Ok(json!(["/a", "/b"])));
        assert_eq!(typed("port", &["12"]), Ok(json!(12)));
        assert_eq!(typed("port", &["1.5"]), Ok(json!(1.5)));
        assert_eq!(typed("fast", &["true"]), Ok(json!(true)));
        assert_eq!(typed("key", &["12"]), Ok(json!("12")));
        assert_eq!(
            typed("port", &["x"]),
            Err("option `port`: the value must be a number".to_owned())
        );
        assert_eq!(
            typed("port", &["1", "2"]),
            Err("option `port`: the option has only one value".to_owned())
        );
        assert_eq!(
            typed("fast", &["on"]),
            Err("option `fast`: the value must be true or false".to_owned())
        );
    }
}
