//! A model that follows a script: no network, no key, the same every time. For demonstrations and tests. Where it is
//! in the script follows from the conversation alone, so a person may interrupt it and go on.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value as Json;
use thiserror::Error;
use tokio::sync::mpsc;

use crate::language_model::{Answered, Answering, Delta, LanguageModel, ModelRequest, Stop, Usage};
use crate::utterance::{CallResult, CallWanted, Part, Speaker, Utterance};

/// The script of the demonstration.
const DEMONSTRATION: &str = include_str!("rehearsed/demonstration.json");
/// What is said behind the end of the script.
const OVER: &str = "That was all I have rehearsed. Set up a model, and we can really talk.";
/// The longest result that is quoted, in characters.
const LONGEST_QUOTE: usize = 2000;

/// A script that is none.
#[derive(Debug, Error)]
#[error("the script makes no sense")]
pub struct ScriptError(#[from] serde_json::Error);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    name: String,
    turns: Vec<Turn>,
}

/// What a person says, and what is answered to it: the next of the answers after each round of calls.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    person: String,
    answers: Vec<Answer>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    #[serde(default)]
    think: String,
    /// `{result:1}` stands for the text of the first call before it, `{rows:1}` for its lines as rows of a table.
    #[serde(default)]
    say: String,
    /// Said instead where a call before it failed.
    #[serde(default)]
    otherwise: Option<String>,
    #[serde(default)]
    calls: Vec<Wanted>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    tool: String,
    #[serde(default = "nothing")]
    arguments: Json,
}

fn nothing() -> Json {
    Json::Object(serde_json::Map::new())
}

/// A model that follows a script.
#[derive(Debug)]
pub struct Rehearsed {
    script: Script,
    pace: Duration,
}

impl Rehearsed {
    /// Follows this script, with such a pause before every word.
    pub fn new(script: &str, pace: Duration) -> Result<Rehearsed, ScriptError> {
        Ok(Rehearsed { script: serde_json::from_str(script)?, pace })
    }

    /// Follows the demonstration's script, which uses the demonstration's server under the name `demo`.
    pub fn demonstration(pace: Duration) -> Rehearsed {
        Rehearsed::new(DEMONSTRATION, pace).expect("a test reads it")
    }

    /// What the person says in the script, turn by turn.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.script.turns.iter().map(|it| it.person.as_str())
    }

    async fn follow(&self, said: &[Utterance], heard: &mpsc::Sender<Delta>) -> Answered {
        let Some((turn, at)) = place(said).filter(|(turn, _)| *turn < self.script.turns.len())
        else {
            self.speak(OVER, heard, Delta::Text).await;
            return whole(vec![text(OVER)], said);
        };
        let Some(answer) = self.script.turns[turn].answers.get(at) else {
            return whole(Vec::new(), said);
        };
        let results = results(said);
        let failed = results.iter().any(|it| it.is_error);
        let words = answer.otherwise.as_ref().filter(|_| failed).unwrap_or(&answer.say);
        let words = quoted(words, &results);
        let mut parts = Vec::new();
        if !answer.think.is_empty() {
            self.speak(&answer.think, heard, Delta::Thought).await;
            parts.push(Part::Thought { text: answer.think.clone(), proof: None });
        }
        if !words.is_empty() {
            self.speak(&words, heard, Delta::Text).await;
            parts.push(text(&words));
        }
        let call = |(number, it): (usize, &Wanted)| {
            let id = format!("rehearsed_{turn}_{at}_{number}");
            Part::Call(CallWanted { id, tool: it.tool.clone(), arguments: it.arguments.clone() })
        };
        parts.extend(answer.calls.iter().enumerate().map(call));
        whole(parts, said)
    }

    /// Word by word, as models speak.
    async fn speak(&self, words: &str, heard: &mpsc::Sender<Delta>, delta: fn(String) -> Delta) {
        for word in words.split_inclusive([' ', '\n']) {
            if !self.pace.is_zero() {
                tokio::time::sleep(self.pace).await;
            }
            let _nobody_listens = heard.send(delta(word.to_owned())).await;
        }
    }
}

impl LanguageModel for Rehearsed {
    fn name(&self) -> &str {
        &self.script.name
    }

    fn window(&self) -> Option<u64> {
        Some(200_000)
    }

    fn answer<'a>(&'a self, request: ModelRequest, said: mpsc::Sender<Delta>) -> Answering<'a> {
        Box::pin(async move { Ok(self.follow(&request.said, &said).await) })
    }
}

fn text(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

fn whole(parts: Vec<Part>, said: &[Utterance]) -> Answered {
    let calls = parts.iter().any(|it| matches!(it, Part::Call(_)));
    let stop = if calls { Stop::Calls } else { Stop::End };
    // Four characters make about one token.
    let size = |parts: &[Part]| -> usize { parts.iter().map(size).sum() };
    let input = said.iter().map(|it| size(&it.parts)).sum::<usize>() / 4 + 1000;
    let output = size(&parts) / 4 + 1;
    let number = |it: usize| u64::try_from(it).unwrap_or(u64::MAX);
    let usage = Usage { input: number(input), cached: 1000, output: number(output) };
    Answered { parts, stop, usage }
}

fn size(part: &Part) -> usize {
    match part {
        Part::Text { text } | Part::Thought { text, .. } => text.len(),
        Part::Picture { base64, .. } => base64.len() / 100,
        Part::Call(call) => call.tool.len() + call.arguments.to_string().len(),
        Part::Result(result) => result.parts.iter().map(size).sum(),
    }
}

/// Which turn it is, and how many answers of it were given. A turn begins with words of the person alone.
fn place(said: &[Utterance]) -> Option<(usize, usize)> {
    let begins = |it: &&Utterance| {
        it.speaker == Speaker::User
            && it.parts.iter().any(|part| matches!(part, Part::Text { .. } | Part::Picture { .. }))
            && !it.parts.iter().any(|part| matches!(part, Part::Result(_)))
            && !is_mark(it)
    };
    let turn = said.iter().filter(begins).count().checked_sub(1)?;
    let last = said.iter().rposition(|it| begins(&it))?;
    let answers = said[last..].iter().filter(|it| it.speaker == Speaker::Assistant).count();
    Some((turn, answers))
}

/// Is it what the loop itself adds where an answer was stopped?
fn is_mark(utterance: &Utterance) -> bool {
    matches!(&utterance.parts[..], [Part::Text { text }] if text == crate::dialogue::STOPPED_HERE)
}

/// The results that came last.
fn results(said: &[Utterance]) -> Vec<&CallResult> {
    let result: fn(&Part) -> Option<&CallResult> = |part| match part {
        Part::Result(result) => Some(result),
        Part::Text { .. } | Part::Picture { .. } | Part::Thought { .. } | Part::Call(_) => None,
    };
    said.last().map(|it| it.parts.iter().filter_map(result).collect()).unwrap_or_default()
}

fn quoted(words: &str, results: &[&CallResult]) -> String {
    let mut words = words.to_owned();
    for (number, result) in (1..).zip(results) {
        let whole = result.parts.iter().filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            Part::Picture { .. } | Part::Thought { .. } | Part::Call(_) | Part::Result(_) => None,
        });
        let whole: String =
            whole.collect::<Vec<_>>().join("\n").chars().take(LONGEST_QUOTE).collect();
        let row = |line: &str| {
            let (first, rest) = line.split_once(": ").unwrap_or((line, ""));
            format!("| {first} | {} |", rest.replace('|', "\\|"))
        };
        let rows: Vec<String> = whole.lines().map(row).collect();
        let first = whole.lines().next().unwrap_or_default();
        words = words.replace(&format!("{{rows:{number}}}"), &rows.join("\n"));
        words = words.replace(&format!("{{line:{number}}}"), first);
        words = words.replace(&format!("{{result:{number}}}"), whole.trim_end());
    }
    words
}
