//! The values of a bundle's options: given as `key=value` or typed at a terminal, and written so that they mean what was
//! typed. Secrets go to the secret store, and the entry refers to them.

use serde_json::{Map, Value as Json};
use switchboard::config::display::printable;
use switchboard::config::entry::sha256;
use switchboard::config::file::entry_decoder::nearest;
use switchboard::config::secret::Secret;
use switchboard::config::template::{SecretReference, Template};
use switchboard::config::user_config::{UserConfig, UserOption, is_missing};
use switchboard::sources::secrets;

use crate::commands::import::ask_text;
use crate::commands::import::secrets::{SecretStorage, reference_for};
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::Failure;
use crate::prompt::secret_input::read_secret;

/// Values as typed: the key, and one text for each time that it was given.
pub(crate) type TypedValues = Vec<(String, Vec<String>)>;

/// The entry whose values are set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OptionTarget<'a> {
    /// The scope of the entry.
    pub(crate) scope: WritableScope,
    /// The name of the server.
    pub(crate) server: &'a str,
    /// Where secrets go.
    pub(crate) storage: SecretStorage,
}

/// New values for an entry. It has no `Debug`, because it holds secrets.
pub(crate) struct NewValues {
    /// The object `userConfig`.
    pub(crate) values: Map<String, Json>,
    /// The secrets to store before the entry is written.
    pub(crate) secrets: Vec<(SecretReference, Secret)>,
}

/// Reads `key=value` texts. Errors give the number of a text, because it may be a secret.
pub(crate) fn parse_pairs(pairs: &[String]) -> Result<TypedValues, Failure> {
    let mut typed: TypedValues = Vec::new();
    for (index, pair) in pairs.iter().enumerate() {
        let Some((key, value)) = pair.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            let message = format!("option number {} is not KEY=VALUE", index + 1);
            return Err(Failure::new(Exit::Usage, &message));
        };
        match typed.iter_mut().find(|(known, _)| known == key) {
            Some((_, texts)) => texts.push(value.to_owned()),
            None => typed.push((key.to_owned(), vec![value.to_owned()])),
        }
    }
    Ok(typed)
}

/// Asks at the terminal for the options that have no value yet; for every option, if `all` says so.
pub(crate) fn ask(
    options: &UserConfig,
    values: &Map<String, Json>,
    typed: &mut TypedValues,
    which: AskedOptions,
) -> Result<(), Failure> {
    for option in &options.options {
        let is_typed = typed.iter().any(|(key, _)| *key == option.key);
        let has_value = values.get(&option.key).is_some_and(|it| !is_missing(it));
        if is_typed || (has_value && which == AskedOptions::WithoutValue) {
            continue;
        }
        let text = ask_one(option, has_value)?;
        if text.is_empty() {
            continue;
        }
        let texts = match option.multiple {
            true => text.split(',').map(|it| it.trim().to_owned()).collect(),
            false => vec![text],
        };
        typed.push((option.key.clone(), texts));
    }
    Ok(())
}

/// Which options are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskedOptions {
    /// Those without a value.
    WithoutValue,
    /// All.
    All,
}

fn ask_one(option: &UserOption, has_value: bool) -> Result<String, Failure> {
    let mut question = printable(&option.title);
    if !option.description.is_empty() {
        question.push_str(&format!(" - {}", printable(&option.description)));
    }
    if option.multiple {
        question.push_str(", several separated by commas");
    }
    question.push_str(match (&option.default, has_value, option.required) {
        (_, true, _) => " (Enter keeps the value)",
        (Some(_), false, _) if !option.sensitive => " (Enter for the default)",
        (_, false, true) => " (required)",
        (_, false, false) => " (optional)",
    });
    question.push_str(": ");
    if !option.sensitive {
        return ask_text(&question);
    }
    read_secret(&question).map_err(|error| {
        Failure::new(Exit::Failure, "the value could not be read").caused_by(error)
    })
}

/// Puts typed values over the values of an entry.
pub(crate) fn merge(
    options: &UserConfig,
    before: &Map<String, Json>,
    typed: &TypedValues,
    target: OptionTarget<'_>,
    invocation: &Invocation,
) -> Result<NewValues, Failure> {
    let mut new = NewValues { values: before.clone(), secrets: Vec::new() };
    for (key, texts) in typed {
        let option = options.find(key).ok_or_else(|| unknown_option(options, key))?;
        let value = match texts.iter().all(|text| is_reference(text)) {
            true => texts_value(option, texts),
            false => new.typed_value(option, texts, target, invocation)?,
        };
        new.values.insert(key.clone(), value);
    }
    Ok(new)
}

/// Is the whole text one reference to a variable or a secret? It is then written as it is.
fn is_reference(text: &str) -> bool {
    text.starts_with("${") && text.ends_with('}') && !Template::parse(text).is_literal()
}

fn texts_value(option: &UserOption, texts: &[String]) -> Json {
    match texts {
        [only] if !option.multiple => only.as_str().into(),
        _ => texts.to_vec().into(),
    }
}

impl NewValues {
    fn typed_value(
        &mut self,
        option: &UserOption,
        texts: &[String],
        target: OptionTarget<'_>,
        invocation: &Invocation,
    ) -> Result<Json, Failure> {
        let texts: Vec<String> = match option.kind.is_path() {
            true => texts.iter().map(|text| absolute_path(text, invocation)).collect(),
            false => texts.to_vec(),
        };
        let value = option.value_from_text(&texts).map_err(|problem| {
            Failure::new(Exit::Usage, "a value does not fit its option").caused_by(problem)
        })?;
        if !option.sensitive || is_missing(&value) || target.storage == SecretStorage::Keep {
            return Ok(escaped(value));
        }
        if target.scope == WritableScope::Project {
            let key = printable(&option.key);
            let message = format!("`{key}` is secret, and a project's file may not refer to one");
            let hint = format!("write {key}='${{VARIABLE}}', or choose --scope local");
            return Err(Failure::new(Exit::Usage, &message).hint(&hint));
        }
        let mut references = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            let index = if option.multiple { Some(index) } else { None };
            let Some(reference) = option_reference(option, index, target, invocation) else {
                return Ok(escaped(value));
            };
            references.push(reference.to_string());
            self.secrets.push((reference, Secret::new(text.clone())));
        }
        Ok(texts_value(option, &references))
    }

    /// Stores the secrets.
    pub(crate) fn store_secrets(&self, invocation: &Invocation) -> Result<(), Failure> {
        for (reference, secret) in &self.secrets {
            secrets::store_secret(reference, secret, &invocation.env.home).map_err(|error| {
                Failure::new(Exit::Failure, "nothing was written: a secret could not be stored")
                    .caused_by(error)
                    .hint("keep secrets in files that only you can read: add --secrets file")
            })?;
        }
        Ok(())
    }
}

/// The reference to the stored value of an option.
pub(crate) fn option_reference(
    option: &UserOption,
    index: Option<usize>,
    target: OptionTarget<'_>,
    invocation: &Invocation,
) -> Option<SecretReference> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let key = match option.key.chars().all(is_plain) {
        true => option.key.clone(),
        // Two keys must not become one name.
        false => sha256(option.key.as_bytes())[..16].to_owned(),
    };
    let key = match index {
        Some(index) => format!("userConfig.{key}.{index}"),
        None => format!("userConfig.{key}"),
    };
    reference_for(invocation, target.storage, (target.scope, target.server), &key)
}

/// A typed path as an absolute one, because the server runs in another folder.
fn absolute_path(text: &str, invocation: &Invocation) -> String {
    if text.is_empty() {
        return String::new();
    }
    let path = match text.strip_prefix("~/") {
        Some(inside) => invocation.env.home.join(inside),
        None if text == "~" => invocation.env.home.clone(),
        None => invocation.env.working_folder.join(text),
    };
    path.to_string_lossy().into_owned()
}

/// The value written so that no dollar sign in it begins a variable.
fn escaped(value: Json) -> Json {
    match value {
        Json::String(text) => text.replace('$', "$$").into(),
        Json::Array(items) => items.into_iter().map(escaped).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => value,
    }
}

pub(crate) fn unknown_option(options: &UserConfig, key: &str) -> Failure {
    let keys: Vec<&str> = options.options.iter().map(|it| it.key.as_str()).collect();
    let failure = Failure::new(Exit::Usage, &format!("there is no option `{key}`"));
    match (nearest(key, keys.iter().copied()), keys.is_empty()) {
        (Some(near), _) => failure.hint(&format!("did you mean `{near}`?")),
        (None, true) => failure.hint("it has no options"),
        (None, false) => failure.hint(&format!("its options are {}", keys.join(", "))),
    }
}
