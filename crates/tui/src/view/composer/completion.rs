//! The completion menu over the composer: commands, prompts, tools, servers and resources for the word at the cursor,
//! matched fuzzily.

use std::ops::Range;

use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use serde_json::Value as Json;
use switchboard::Snapshot;
use switchboard::catalogue::ListKind;
use switchboard::config::display::printable;
use switchboard::connection::ServerView;
use switchboard::pool::Pool;

use crate::slash_command::{COMMANDS, prompt_command_name};

/// The maximum number of candidates.
const MAX_CANDIDATES: usize = 50;
/// How many rows are visible at once.
pub const VISIBLE_ROWS: usize = 8;

/// A candidate for the word at the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The text to insert.
    pub value: String,
    /// Its description.
    pub description: String,
    /// What follows when it is accepted.
    pub on_accept: OnAccept,
}

/// What follows an accepted candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnAccept {
    /// The input is complete and can be sent.
    Submit,
    /// The user continues to type.
    Continue,
}

/// The menu.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletionMenu {
    /// The candidates, the best match first.
    pub candidates: Vec<Candidate>,
    /// The selected candidate.
    pub selected: Option<usize>,
    /// The part of the draft that a candidate replaces.
    pub range: Range<usize>,
}

impl CompletionMenu {
    /// The menu for a draft; `None` where there are no candidates.
    pub fn for_draft(
        draft: &str,
        cursor: usize,
        pool: &Pool,
        snapshot: &Snapshot,
    ) -> Option<CompletionMenu> {
        let (range, all) = CompletionTarget::find(draft, cursor)?.candidates(pool, snapshot);
        let typed = &draft[range.start..cursor];
        let choices = best_matches(all, typed);
        let is_complete = matches!(&choices[..], [only] if only.value == draft[range.clone()]);
        if choices.is_empty() || is_complete {
            return None;
        }
        Some(CompletionMenu { candidates: choices, selected: Some(0), range })
    }

    /// A menu of completions from a server. None is selected at first, so that Enter takes the typed text.
    pub fn from_values(values: Vec<String>, range: Range<usize>) -> Option<CompletionMenu> {
        let choice =
            |value| Candidate { value, description: String::new(), on_accept: OnAccept::Submit };
        let choices: Vec<Candidate> = values.into_iter().take(MAX_CANDIDATES).map(choice).collect();
        (!choices.is_empty()).then_some(CompletionMenu {
            candidates: choices,
            selected: None,
            range,
        })
    }

    /// Selects the previous candidate, wrapping around.
    pub fn select_previous(&mut self) {
        let before = self.selected.and_then(|it| it.checked_sub(1));
        self.selected = Some(before.unwrap_or(self.candidates.len() - 1));
    }

    /// Selects the next candidate, wrapping around.
    pub fn select_next(&mut self) {
        self.selected = Some(self.selected.map_or(0, |it| (it + 1) % self.candidates.len()));
    }

    /// The selected candidate.
    pub fn candidate(&self) -> Option<&Candidate> {
        self.selected.and_then(|at| self.candidates.get(at))
    }
}

/// What the word at the cursor is.
enum CompletionTarget<'d> {
    Command(Range<usize>),
    Tool(Range<usize>),
    Server(Range<usize>),
    Resource { server: &'d str, range: Range<usize> },
    Mention(Range<usize>),
}

impl<'d> CompletionTarget<'d> {
    fn find(draft: &'d str, cursor: usize) -> Option<CompletionTarget<'d>> {
        let front = &draft[..cursor];
        let start = front
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + front[at..].chars().next().map_or(1, char::len_utf8));
        let rest = &draft[cursor..];
        let end = cursor + rest.find(char::is_whitespace).unwrap_or(rest.len());
        let range = start..end;
        let before: Vec<&str> = front[..start].split_whitespace().collect();
        match (&before[..], &front[start..]) {
            ([], word) if word.starts_with('/') => Some(CompletionTarget::Command(range)),
            (["/call"], _) => Some(CompletionTarget::Tool(range)),
            (["/mcp" | "/tools" | "/resources" | "/logs" | "/doctor" | "/read"], _) => {
                Some(CompletionTarget::Server(range))
            }
            (["/read", server], _) => Some(CompletionTarget::Resource { server, range }),
            (_, word) if word.starts_with('@') => Some(CompletionTarget::Mention(range)),
            (_, _) => None,
        }
    }

    fn candidates(self, pool: &Pool, snapshot: &Snapshot) -> (Range<usize>, Vec<Candidate>) {
        match self {
            CompletionTarget::Command(range) => {
                let mut all: Vec<Candidate> = COMMANDS
                    .iter()
                    .map(|it| {
                        // A command with optional arguments only can be sent at once.
                        let is_enough = it.usage.is_empty() || it.usage.starts_with('[');
                        let on_accept =
                            if is_enough { OnAccept::Submit } else { OnAccept::Continue };
                        choice(&format!("/{}", it.name), it.about, on_accept)
                    })
                    .collect();
                all.extend(snapshot.servers.values().flat_map(|view| prompt_candidates(view)));
                (range, all)
            }
            CompletionTarget::Tool(range) => {
                let tools = pool.tools().iter();
                let about = |text: &str| text.lines().next().unwrap_or_default().to_owned();
                (
                    range,
                    tools
                        .map(|it| {
                            choice(&it.exposed_name, &about(&it.description), OnAccept::Continue)
                        })
                        .collect(),
                )
            }
            CompletionTarget::Server(range) => {
                let servers = snapshot.servers.values();
                (
                    range,
                    servers
                        .map(|it| choice(&it.name, &it.status.label(), OnAccept::Submit))
                        .collect(),
                )
            }
            CompletionTarget::Resource { server, range } => {
                let of_server = snapshot.servers.get(server).into_iter();
                let all = of_server.flat_map(|view| {
                    resource_uris(view)
                        .into_iter()
                        .map(|(uri, about)| choice(&uri, &about, OnAccept::Submit))
                });
                (range, all.collect())
            }
            CompletionTarget::Mention(range) => {
                let all = snapshot.servers.values().flat_map(|view| {
                    resource_uris(view).into_iter().map(move |(uri, about)| {
                        choice(&format!("@{}:{uri}", view.name), &about, OnAccept::Continue)
                    })
                });
                (range, all.collect())
            }
        }
    }
}

fn choice(value: &str, about: &str, on_accept: OnAccept) -> Candidate {
    Candidate { value: value.to_owned(), description: printable(about), on_accept }
}

/// The prompts of a server, by their command names.
fn prompt_candidates(view: &ServerView) -> Vec<Candidate> {
    let items = view.catalogue.items(ListKind::Prompts).iter();
    items
        .map(|item| {
            let json: Json = item.raw.decode().unwrap_or_default();
            let about = json["description"].as_str().or(json["title"].as_str());
            let about = about.and_then(|it| it.lines().next()).unwrap_or_default();
            let has_arguments = json["arguments"].as_array().is_some_and(|it| !it.is_empty());
            let on_accept = if has_arguments { OnAccept::Continue } else { OnAccept::Submit };
            choice(&format!("/{}", prompt_command_name(view, &item.name)), about, on_accept)
        })
        .collect()
}

/// The resources and resource templates of a server.
fn resource_uris(view: &ServerView) -> Vec<(String, String)> {
    let lists = [ListKind::Resources, ListKind::ResourceTemplates];
    let items = lists.into_iter().flat_map(|list| view.catalogue.items(list));
    items
        .map(|item| {
            let json: Json = item.raw.decode().unwrap_or_default();
            let about = json["title"].as_str().or(json["name"].as_str()).unwrap_or_default();
            (item.name.clone(), about.to_owned())
        })
        .collect()
}

/// The candidates that match the typed text, the best first. Values with control characters are left out.
fn best_matches(all: Vec<Candidate>, typed: &str) -> Vec<Candidate> {
    let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
    let pattern = Pattern::new(typed, CaseMatching::Ignore, Normalization::Smart, AtomKind::Fuzzy);
    let mut buffer = Vec::new();
    let mut found: Vec<(u32, usize, Candidate)> = all
        .into_iter()
        .filter(|it| printable(&it.value) == it.value)
        .enumerate()
        .filter_map(|(at, it)| {
            let haystack = Utf32Str::new(&it.value, &mut buffer);
            let score = pattern.score(haystack, &mut matcher)?;
            Some((score, at, it))
        })
        .collect();
    // Equal scores keep their order.
    found.sort_by_key(|(score, at, it)| {
        (std::cmp::Reverse(it.value.starts_with(typed)), std::cmp::Reverse(*score), *at)
    });
    found.into_iter().take(MAX_CANDIDATES).map(|(_, _, it)| it).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn menu(draft: &str) -> Vec<String> {
        let menu =
            CompletionMenu::for_draft(draft, draft.len(), &Pool::default(), &Snapshot::default());
        menu.map(|it| it.candidates.into_iter().map(|it| it.value).collect()).unwrap_or_default()
    }

    #[test]
    fn commands_are_found_by_their_letters() {
        assert_eq!(menu("/").len(), COMMANDS.len());
        assert_eq!(menu("/re")[..2], ["/resources", "/read"].map(str::to_owned)[..]);
        assert_eq!(menu("/prm"), ["/permissions"]);
        assert_eq!(menu("/zz"), Vec::<String>::new());
    }

    #[test]
    fn a_complete_word_is_not_offered() {
        assert_eq!(menu("/help"), Vec::<String>::new());
        assert_eq!(menu("hello /he"), Vec::<String>::new());
    }
}
