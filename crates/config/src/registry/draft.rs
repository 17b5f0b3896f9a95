//! The entry of a server before the user has answered: its questions, and what the answers are put into.

use serde_json::{Map, Value as Json};

use super::answers::{AnswerError, Answers, SecretWriter, escaped};
use super::attention;
use super::input::InputFormat;
use super::package::{InstallOption, Package, Remote, Unusable};
use super::package_argv::{self, Word};
use super::package_type::{PackageType, RemoteType};
use super::question::{Question, QuestionPlace};
use super::slot::{ArgumentOf, QuestionList, Slot, SlotPart, SlotValue};
use crate::secret::Secret;
use crate::template::SecretReference;

/// An entry whose questions are open.
#[derive(Debug, Clone)]
pub struct EntryDraft {
    target: Target,
    questions: Vec<Question>,
    warnings: Vec<String>,
}

#[derive(Debug, Clone)]
enum Target {
    Command {
        package: Box<Package>,
        command: String,
        words: Vec<Word>,
        environment: Vec<(String, Slot)>,
    },
    Remote {
        remote_type: RemoteType,
        url: Slot,
        headers: Vec<(String, Slot)>,
    },
}

/// An entry, and the secrets that it refers to. It has no `Debug`, because values may be private.
#[derive(Clone)]
pub struct NewEntry {
    /// The entry, as `mcpServers.<name>` has it.
    pub entry: Map<String, Json>,
    /// The secrets to store before the entry is written.
    pub secrets: Vec<(SecretReference, Secret)>,
    /// What the user should look at before the entry is written.
    pub warnings: Vec<String>,
}

impl EntryDraft {
    /// The draft of an option that can be used. A bundle has none: its entry is made from its manifest.
    pub fn new(option: InstallOption<'_>) -> Result<EntryDraft, Unusable> {
        option.check()?;
        Ok(match option {
            InstallOption::Package(package) => EntryDraft::of_package(package),
            InstallOption::Remote(remote) => EntryDraft::of_remote(remote),
        })
    }

    fn of_package(package: &Package) -> EntryDraft {
        let mut list = QuestionList::default();
        let mut slots = |arguments: &[super::input::Argument], of: ArgumentOf| -> Vec<Slot> {
            arguments.iter().map(|it| list.argument(it, of)).collect()
        };
        let runtime = slots(&package.runtime_arguments, ArgumentOf::Runtime);
        let arguments = slots(&package.package_arguments, ArgumentOf::Package);
        let environment = package
            .environment
            .iter()
            .map(|it| (it.name.clone(), list.named(it, QuestionPlace::Environment)));
        let environment = environment.collect();
        let mut warnings = attention::package_warnings(package);
        let argv = package_argv::arrange(package, runtime, arguments);
        warnings.extend(argv.warnings);
        let package = Box::new(package.clone());
        let (command, words) = (argv.command, argv.words);
        let target = Target::Command { package, command, words, environment };
        EntryDraft { target, questions: list.questions, warnings }
    }

    fn of_remote(remote: &Remote) -> EntryDraft {
        let mut list = QuestionList::default();
        let url = list.value("url", QuestionPlace::Variable, &remote.url);
        let headers = remote
            .headers
            .iter()
            .map(|it| (it.name.clone(), list.named(it, QuestionPlace::Header)));
        let headers = headers.collect();
        let target = Target::Remote {
            remote_type: remote.remote_type,
            url: Slot { flag: None, value: url },
            headers,
        };
        // The name of a variable is no host.
        let text = remote.url_text();
        let warnings = if text.contains('{') { Vec::new() } else { attention::url_warnings(text) };
        EntryDraft { target, questions: list.questions, warnings }
    }

    /// What the user has to choose, in the order of the command line.
    pub fn questions(&self) -> &[Question] {
        &self.questions
    }

    /// What the user should look at before the server is added, if every question gets its default.
    pub fn warnings(&self) -> Vec<String> {
        let usual = |it: &Question| {
            let answers = it.default.iter().chain(&it.choices).map(|it| escaped(it));
            // A flag that can be switched on counts.
            answers.chain((it.format == InputFormat::Boolean).then(|| "true".to_owned())).collect()
        };
        let texts: Vec<Vec<String>> = self.questions.iter().map(usual).collect();
        self.warnings_with(&FilledSlots { texts })
    }

    fn warnings_with(&self, filled: &FilledSlots) -> Vec<String> {
        let mut warnings = match &self.target {
            Target::Command { package, words, .. } => {
                attention::runtime_warnings(package, &filled.runtime_words(words))
            }
            // The answers may be the host. A URL whose parts are not all there has none yet.
            Target::Remote { url, .. } => filled
                .values(url)
                .iter()
                .flat_map(|url| attention::url_warnings(&url.replace("$$", "$")))
                .collect(),
        };
        let others: Vec<String> =
            self.warnings.iter().filter(|it| !warnings.contains(it)).cloned().collect();
        warnings.extend(others);
        warnings
    }

    /// Checks the answers and makes the entry. `reference` names the place of a secret by the key of its question.
    pub fn build(
        &self,
        answers: &Answers,
        reference: &dyn Fn(&str) -> SecretReference,
    ) -> Result<NewEntry, Vec<AnswerError>> {
        let mut errors = answers.unknown(&self.questions);
        let mut writer = SecretWriter { reference, secrets: Vec::new() };
        let mut texts = Vec::new();
        for question in &self.questions {
            texts.push(answers.texts(question, &mut writer).unwrap_or_else(|error| {
                errors.push(error);
                Vec::new()
            }));
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let filled = FilledSlots { texts };
        let entry = match &self.target {
            Target::Command { command, words, environment, .. } => {
                filled.command_entry(command, words, environment)
            }
            Target::Remote { remote_type, url, headers } => {
                filled.remote_entry(*remote_type, url, headers)
            }
        };
        let mut warnings = self.warnings_with(&filled);
        if let Some(url) = entry.get("url").and_then(Json::as_str) {
            let found = attention::url_warnings(&url.replace("$$", "$"));
            let new: Vec<String> = found.into_iter().filter(|it| !warnings.contains(it)).collect();
            warnings.extend(new);
        }
        Ok(NewEntry { entry, secrets: writer.secrets, warnings })
    }
}

/// The answers as texts for the entry, by the position of their question.
struct FilledSlots {
    texts: Vec<Vec<String>>,
}

impl FilledSlots {
    fn command_entry(
        &self,
        command: &str,
        words: &[Word],
        environment: &[(String, Slot)],
    ) -> Map<String, Json> {
        let environment = self.pairs(environment);
        let mut arguments: Vec<Json> = Vec::new();
        for word in words {
            match word {
                Word::Published(slot) | Word::Runtime(slot) => {
                    arguments.extend(self.words(slot).map(Json::from));
                }
                Word::VariableNames { except } => {
                    for name in environment.keys().filter(|it| !except.contains(*it)) {
                        arguments.extend(["-e".into(), name.as_str().into()]);
                    }
                }
            }
        }
        let mut entry = Map::new();
        entry.insert("type".to_owned(), "stdio".into());
        entry.insert("command".to_owned(), command.into());
        if !arguments.is_empty() {
            entry.insert("args".to_owned(), arguments.into());
        }
        if !environment.is_empty() {
            entry.insert("env".to_owned(), environment.into());
        }
        entry
    }

    /// The words between the program and the package, as the program gets them.
    fn runtime_words(&self, words: &[Word]) -> Vec<String> {
        let slots = words.iter().filter_map(|word| match word {
            Word::Runtime(slot) => Some(slot),
            Word::Published(_) | Word::VariableNames { .. } => None,
        });
        slots.flat_map(|slot| self.words(slot)).map(|it| it.replace("$$", "$")).collect()
    }

    fn remote_entry(
        &self,
        remote_type: RemoteType,
        url: &Slot,
        headers: &[(String, Slot)],
    ) -> Map<String, Json> {
        let mut entry = Map::new();
        entry.insert("type".to_owned(), remote_type.id().into());
        entry.insert("url".to_owned(), self.url(url).into());
        let headers = self.pairs(headers);
        if !headers.is_empty() {
            entry.insert("headers".to_owned(), headers.into());
        }
        entry
    }

    fn pairs(&self, slots: &[(String, Slot)]) -> Map<String, Json> {
        let pair = |(name, slot): &(String, Slot)| {
            Some((name.clone(), Json::from(self.values(slot).into_iter().next()?)))
        };
        slots.iter().filter_map(pair).collect()
    }

    /// The words of an argument: none where it is left out.
    fn words(&self, slot: &Slot) -> impl Iterator<Item = String> {
        let flag = slot.flag.as_deref().map(escaped);
        let words: Vec<String> = match (&slot.value, flag) {
            (SlotValue::Nothing, flag) => flag.into_iter().collect(),
            (SlotValue::FlagIf(question), flag) => {
                let is_set = self.texts[*question].first().is_some_and(|it| it == "true");
                flag.filter(|_| is_set).into_iter().collect()
            }
            (SlotValue::Parts(_) | SlotValue::Answers(_), None) => self.values(slot),
            (SlotValue::Parts(_) | SlotValue::Answers(_), Some(flag)) => {
                let values = self.values(slot).into_iter();
                values.flat_map(|value| with_flag(&flag, value)).collect()
            }
        };
        words.into_iter()
    }

    /// The values of a slot. One whose parts are not all there is left out.
    fn values(&self, slot: &Slot) -> Vec<String> {
        match &slot.value {
            SlotValue::Nothing | SlotValue::FlagIf(_) => Vec::new(),
            SlotValue::Answers(question) => self.texts[*question].clone(),
            SlotValue::Parts(parts) => {
                let text: Option<String> = parts.iter().map(|part| self.part(part)).collect();
                text.into_iter().collect()
            }
        }
    }

    fn part(&self, part: &SlotPart) -> Option<String> {
        match part {
            SlotPart::Text(text) => Some(escaped(text)),
            SlotPart::Answer(question) => self.texts[*question].first().cloned(),
        }
    }

    /// The URL. Variables without an answer are empty.
    fn url(&self, slot: &Slot) -> String {
        match &slot.value {
            SlotValue::Parts(parts) => {
                parts.iter().map(|part| self.part(part).unwrap_or_default()).collect()
            }
            SlotValue::Nothing | SlotValue::Answers(_) | SlotValue::FlagIf(_) => String::new(),
        }
    }
}

/// A flag that ends in `=` holds its value itself.
fn with_flag(flag: &str, value: String) -> Vec<String> {
    match flag.ends_with('=') {
        true => vec![format!("{flag}{value}")],
        false => vec![flag.to_owned(), value],
    }
}

impl EntryDraft {
    /// What has to be installed before a crate's program can be started.
    pub fn installation_command(package: &Package) -> Option<String> {
        let version = package.version.as_deref().unwrap_or_default();
        (package.package_type == PackageType::Cargo)
            .then(|| format!("cargo install --locked {} --version ={version}", package.identifier))
    }
}

#[cfg(test)]
mod tests;
