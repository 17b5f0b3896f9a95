//! What could stand where the cursor is, in a list over the composer: commands, prompts, tools, servers, resources.
//! Found by letters in order, not only by beginnings.

use std::ops::Range;

use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use serde_json::Value as Json;
use switchboard::catalogue::List;
use switchboard::config::shown::printable;
use switchboard::connection::View;
use switchboard::engine::Snapshot;
use switchboard::pool::Pool;
use switchboard::pool::naming::{Origin, prefix, sanitised};

use crate::screen::slash::{self, COMMANDS};

/// The most that is listed.
const MOST: usize = 50;
/// How many rows are shown at once.
pub const ROWS: usize = 8;

/// Something that could stand there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// What to put there.
    pub value: String,
    /// What it is.
    pub about: String,
    /// What to do once it is there.
    pub then: Then,
}

/// What follows a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It is all there is to say: it can be sent.
    Send,
    /// More has to be typed behind it.
    GoOn,
}

/// The list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Menu {
    /// What could stand there, the best first.
    pub choices: Vec<Choice>,
    /// Which is chosen, where one is.
    pub chosen: Option<usize>,
    /// The part of the draft that would be replaced.
    pub range: Range<usize>,
}

impl Menu {
    /// The list for a draft, where there is anything to choose.
    pub fn of(draft: &str, cursor: usize, pool: &Pool, snapshot: &Snapshot) -> Option<Menu> {
        let (range, all) = Place::find(draft, cursor)?.choices(pool, snapshot);
        let typed = &draft[range.start..cursor];
        let choices = best(all, typed);
        let is_said = matches!(&choices[..], [only] if only.value == draft[range.clone()]);
        if choices.is_empty() || is_said {
            return None;
        }
        Some(Menu { choices, chosen: Some(0), range })
    }

    /// A list of what somebody else found. Nothing in it is chosen yet: what is typed counts, too.
    pub fn given(values: Vec<String>, range: Range<usize>) -> Option<Menu> {
        let choice = |value| Choice { value, about: String::new(), then: Then::Send };
        let choices: Vec<Choice> = values.into_iter().take(MOST).map(choice).collect();
        (!choices.is_empty()).then_some(Menu { choices, chosen: None, range })
    }

    /// The choice before; before the first comes the last.
    pub fn up(&mut self) {
        let before = self.chosen.and_then(|it| it.checked_sub(1));
        self.chosen = Some(before.unwrap_or(self.choices.len() - 1));
    }

    /// The choice after.
    pub fn down(&mut self) {
        self.chosen = Some(self.chosen.map_or(0, |it| (it + 1) % self.choices.len()));
    }

    /// What is chosen.
    pub fn choice(&self) -> Option<&Choice> {
        self.chosen.and_then(|at| self.choices.get(at))
    }
}

/// What is being typed.
enum Place<'d> {
    Command(Range<usize>),
    Tool(Range<usize>),
    Server(Range<usize>),
    Resource { server: &'d str, range: Range<usize> },
    Mention(Range<usize>),
}

impl<'d> Place<'d> {
    fn find(draft: &'d str, cursor: usize) -> Option<Place<'d>> {
        let front = &draft[..cursor];
        let start = front
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + front[at..].chars().next().map_or(1, char::len_utf8));
        let rest = &draft[cursor..];
        let end = cursor + rest.find(char::is_whitespace).unwrap_or(rest.len());
        let range = start..end;
        let before: Vec<&str> = front[..start].split_whitespace().collect();
        match (&before[..], &front[start..]) {
            ([], word) if word.starts_with('/') => Some(Place::Command(range)),
            (["/call"], _) => Some(Place::Tool(range)),
            (["/mcp" | "/tools" | "/resources" | "/logs" | "/doctor" | "/read"], _) => {
                Some(Place::Server(range))
            }
            (["/read", server], _) => Some(Place::Resource { server, range }),
            (_, word) if word.starts_with('@') => Some(Place::Mention(range)),
            (_, _) => None,
        }
    }

    fn choices(self, pool: &Pool, snapshot: &Snapshot) -> (Range<usize>, Vec<Choice>) {
        match self {
            Place::Command(range) => {
                let mut all: Vec<Choice> = COMMANDS
                    .iter()
                    .map(|it| {
                        // What may be left out need not be typed.
                        let is_enough = it.usage.is_empty() || it.usage.starts_with('[');
                        let then = if is_enough { Then::Send } else { Then::GoOn };
                        choice(&format!("/{}", it.name), it.about, then)
                    })
                    .collect();
                all.extend(snapshot.servers.values().flat_map(|view| prompts(view)));
                (range, all)
            }
            Place::Tool(range) => {
                let tools = pool.tools().iter();
                let about = |text: &str| text.lines().next().unwrap_or_default().to_owned();
                (
                    range,
                    tools
                        .map(|it| choice(&it.exposed, &about(&it.description), Then::GoOn))
                        .collect(),
                )
            }
            Place::Server(range) => {
                let servers = snapshot.servers.values();
                (range, servers.map(|it| choice(&it.name, it.status.id(), Then::Send)).collect())
            }
            Place::Resource { server, range } => {
                let of_server = snapshot.servers.get(server).into_iter();
                let all = of_server.flat_map(|view| {
                    uris(view).into_iter().map(|(uri, about)| choice(&uri, &about, Then::Send))
                });
                (range, all.collect())
            }
            Place::Mention(range) => {
                let all = snapshot.servers.values().flat_map(|view| {
                    uris(view).into_iter().map(move |(uri, about)| {
                        choice(&format!("@{}:{uri}", view.name), &about, Then::GoOn)
                    })
                });
                (range, all.collect())
            }
        }
    }
}

fn choice(value: &str, about: &str, then: Then) -> Choice {
    Choice { value: value.to_owned(), about: printable(about), then }
}

/// The prompts of a server, by the names that they are typed with.
fn prompts(view: &View) -> Vec<Choice> {
    let items = view.catalogue.items(List::Prompts).iter();
    items
        .map(|item| {
            let json: Json = item.raw.decode().unwrap_or_default();
            let about = json["description"].as_str().or(json["title"].as_str());
            let about = about.and_then(|it| it.lines().next()).unwrap_or_default();
            let has_arguments = json["arguments"].as_array().is_some_and(|it| !it.is_empty());
            let then = if has_arguments { Then::GoOn } else { Then::Send };
            choice(&format!("/{}", prompt_name(view, &item.name)), about, then)
        })
        .collect()
}

/// The name that a prompt is typed with.
pub fn prompt_name(view: &View, prompt: &str) -> String {
    let server = prefix(&view.name, Origin::of(view.scope));
    format!("{}{server}__{}", slash::PROMPT, sanitised(prompt))
}

/// What can be read from a server, templates included.
fn uris(view: &View) -> Vec<(String, String)> {
    let lists = [List::Resources, List::Templates];
    let items = lists.into_iter().flat_map(|list| view.catalogue.items(list));
    items
        .map(|item| {
            let json: Json = item.raw.decode().unwrap_or_default();
            let about = json["title"].as_str().or(json["name"].as_str()).unwrap_or_default();
            (item.name.clone(), about.to_owned())
        })
        .collect()
}

/// Those that have the letters that were typed, the best first. What would do something to a terminal is left out.
fn best(all: Vec<Choice>, typed: &str) -> Vec<Choice> {
    let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
    let pattern = Pattern::new(typed, CaseMatching::Ignore, Normalization::Smart, AtomKind::Fuzzy);
    let mut buffer = Vec::new();
    let mut found: Vec<(u32, usize, Choice)> = all
        .into_iter()
        .filter(|it| printable(&it.value) == it.value)
        .enumerate()
        .filter_map(|(at, it)| {
            let haystack = Utf32Str::new(&it.value, &mut buffer);
            let score = pattern.score(haystack, &mut matcher)?;
            Some((score, at, it))
        })
        .collect();
    // Of equals, the one that comes first by itself.
    found.sort_by_key(|(score, at, it)| {
        (std::cmp::Reverse(it.value.starts_with(typed)), std::cmp::Reverse(*score), *at)
    });
    found.into_iter().take(MOST).map(|(_, _, it)| it).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn menu(draft: &str) -> Vec<String> {
        let menu = Menu::of(draft, draft.len(), &Pool::default(), &Snapshot::default());
        menu.map(|it| it.choices.into_iter().map(|it| it.value).collect()).unwrap_or_default()
    }

    #[test]
    fn commands_are_found_by_their_letters() {
        assert_eq!(menu("/").len(), COMMANDS.len());
        assert_eq!(menu("/re")[..2], ["/resources", "/read"].map(str::to_owned)[..]);
        assert_eq!(menu("/prm"), ["/permissions"]);
        assert_eq!(menu("/zz"), Vec::<String>::new());
    }

    #[test]
    fn what_is_said_already_is_not_offered() {
        assert_eq!(menu("/help"), Vec::<String>::new());
        assert_eq!(menu("hello /he"), Vec::<String>::new());
    }
}
