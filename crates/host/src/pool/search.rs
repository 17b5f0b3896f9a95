//! Finds tools by words: an index over names, servers, titles, descriptions and names of arguments.
//! Ranked as BM25 does it with a weight for each field; words may be cut short, names are split where they are joined.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::tool::Tool;

/// How much a word counts by where it stands.
const NAME_WEIGHT: f32 = 5.0;
const TITLE_WEIGHT: f32 = 3.0;
const SERVER_WEIGHT: f32 = 2.5;
const ARGUMENT_WEIGHT: f32 = 1.5;
const DESCRIPTION_WEIGHT: f32 = 1.0;
/// BM25: how soon repetition stops to count, and how much length counts against.
const SATURATION: f32 = 1.2;
const LENGTH_PENALTY: f32 = 0.4;
/// How much the beginning of a word counts against all of it.
const PREFIX_WEIGHT: f32 = 0.6;
/// The most words that a beginning stands for.
const MAX_EXPANSIONS: usize = 64;
/// The most words of a query, and the longest word, that are read.
const MAX_QUERY_WORDS: usize = 16;
const MAX_WORD_BYTES: usize = 64;
/// How many words of one tool are indexed.
const MAX_WORDS_PER_TOOL: usize = 512;

/// A tool that was found.
#[derive(Debug, Clone)]
pub struct ToolMatch {
    /// The tool.
    pub tool: Arc<Tool>,
    /// How well it fits; only good for comparing within one answer.
    pub score: f32,
}

/// An index over the tools of one pool, by their place in it.
#[derive(Debug)]
pub(super) struct SearchIndex {
    /// All words, sorted, and where the entries of each begin.
    words: Vec<(Box<str>, u32)>,
    /// Which tool, and how much the word counts there.
    entries: Vec<(u32, f32)>,
    /// Places by lower-case name: exposed, own and title.
    names: HashMap<Box<str>, Vec<u32>>,
}

impl SearchIndex {
    pub(super) fn of(tools: &[Arc<Tool>]) -> SearchIndex {
        let mut gathered: HashMap<Box<str>, Vec<(u32, f32)>> = HashMap::new();
        let mut names: HashMap<Box<str>, Vec<u32>> = HashMap::new();
        let mut lengths = Vec::with_capacity(tools.len());
        for (position_of_tool, tool) in (0u32..).zip(tools) {
            lengths.push(index_tool(tool, position_of_tool, &mut gathered));
            let title = tool.title.as_deref().unwrap_or_default();
            for name in [&tool.exposed_name, &tool.name, title] {
                let positions = names.entry(name.to_lowercase().into()).or_default();
                if !name.is_empty() && positions.last() != Some(&position_of_tool) {
                    positions.push(position_of_tool);
                }
            }
        }
        let count = tools.len().max(1) as f32;
        let average = (lengths.iter().sum::<f32>() / count).max(1.0);
        let mut sorted: Vec<_> = gathered.into_iter().collect();
        sorted.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut index =
            SearchIndex { words: Vec::with_capacity(sorted.len()), entries: Vec::new(), names };
        for (word, found) in sorted {
            index.words.push((word, position(index.entries.len())));
            let having = found.len() as f32;
            let rarity = (1.0 + (count - having + 0.5) / (having + 0.5)).ln();
            for (position_of_tool, weight) in found {
                let length = 1.0 - LENGTH_PENALTY
                    + LENGTH_PENALTY * lengths[position_of_tool as usize] / average;
                let saturated = weight * (SATURATION + 1.0) / (weight + SATURATION * length);
                index.entries.push((position_of_tool, rarity * saturated));
            }
        }
        index
    }

    /// The best places for a query, best first.
    pub(super) fn find(&self, query: &str, tools: usize, max: usize) -> Vec<(u32, f32)> {
        let exact = self.names.get(query.trim().to_lowercase().as_str());
        let words = query_words(query);
        let mut scores = vec![0f32; tools];
        let mut hits = vec![0u8; tools];
        let mut best = vec![0f32; tools];
        let mut touched: Vec<u32> = Vec::new();
        for word in &words {
            let mut seen: Vec<u32> = Vec::new();
            for (at, factor) in self.expansions(word) {
                for (position_of_tool, value) in self.entries_of(at) {
                    let best = &mut best[*position_of_tool as usize];
                    if *best == 0.0 {
                        seen.push(*position_of_tool);
                    }
                    // Several words for one beginning count once, with the best of them.
                    *best = best.max(value * factor);
                }
            }
            for position_of_tool in seen {
                let at = position_of_tool as usize;
                if hits[at] == 0 {
                    touched.push(position_of_tool);
                }
                hits[at] += 1;
                scores[at] += std::mem::take(&mut best[at]);
            }
        }
        // A tool that fits all words is better than one that fits one of them often.
        let all = words.len().max(1) as f32;
        let mut found: Vec<(bool, u32, f32)> = touched
            .into_iter()
            .map(|position_of_tool| {
                let at = position_of_tool as usize;
                let is_exact = exact.is_some_and(|exact| exact.contains(&position_of_tool));
                (is_exact, position_of_tool, scores[at] * f32::from(hits[at]) / all)
            })
            .collect();
        for position_of_tool in exact.into_iter().flatten() {
            if hits[*position_of_tool as usize] == 0 {
                found.push((true, *position_of_tool, 0.0));
            }
        }
        // Places are in the order of exposed names, which settles the rest.
        let order = |a: &(bool, u32, f32), b: &(bool, u32, f32)| {
            b.0.cmp(&a.0).then(b.2.total_cmp(&a.2)).then(a.1.cmp(&b.1))
        };
        if found.len() > max && max > 0 {
            found.select_nth_unstable_by(max - 1, order);
        }
        found.truncate(max);
        found.sort_unstable_by(order);
        found.into_iter().map(|(_, position_of_tool, score)| (position_of_tool, score)).collect()
    }

    /// The words that a word of a query stands for: itself, its singular, and those that begin with it.
    fn expansions(&self, word: &str) -> Vec<(usize, f32)> {
        let mut found = Vec::new();
        let first = self.words.partition_point(|(it, _)| it.as_ref() < word);
        let starting = self.words[first..].iter().take_while(|(it, _)| it.starts_with(word));
        for (at, (it, _)) in (first..).zip(starting).take(MAX_EXPANSIONS) {
            match it.len() == word.len() {
                true => found.push((at, 1.0)),
                // One letter begins too much to mean anything.
                false if word.len() < 2 => {}
                false => found.push((at, PREFIX_WEIGHT * word.len() as f32 / it.len() as f32)),
            }
        }
        let singular = word.strip_suffix('s').filter(|it| it.len() > 2);
        if let Some(singular) = singular
            && let Ok(at) = self.words.binary_search_by(|(it, _)| it.as_ref().cmp(singular))
        {
            found.push((at, 0.9));
        }
        found
    }

    fn entries_of(&self, at: usize) -> &[(u32, f32)] {
        let start = self.words[at].1 as usize;
        let end = self.words.get(at + 1).map_or(self.entries.len(), |next| next.1 as usize);
        &self.entries[start..end]
    }
}

fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn query_words(query: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    split_words(query, &mut |word| {
        if words.len() < MAX_QUERY_WORDS && !words.iter().any(|it| it == word) {
            words.push(word.to_owned());
        }
    });
    words
}

/// Adds a tool's words and gives their number.
fn index_tool(
    tool: &Tool,
    position_of_tool: u32,
    into: &mut HashMap<Box<str>, Vec<(u32, f32)>>,
) -> f32 {
    let mut length = 0usize;
    let mut add = |word: &str, weight: f32| {
        length += 1;
        if length > MAX_WORDS_PER_TOOL {
            return;
        }
        // A word that is known already needs no copy.
        let Some(entries) = into.get_mut(word) else {
            into.insert(word.into(), vec![(position_of_tool, weight)]);
            return;
        };
        match entries.last_mut() {
            Some((last, sum)) if *last == position_of_tool => *sum += weight,
            Some(_) | None => entries.push((position_of_tool, weight)),
        }
    };
    split_words(&tool.name, &mut |word| add(word, NAME_WEIGHT));
    // `readfile` finds `read_file`, too.
    let joined: String = tool.name.chars().filter(|it| it.is_alphanumeric()).collect();
    if joined.len() <= MAX_WORD_BYTES {
        add(&joined.to_lowercase(), NAME_WEIGHT / 2.0);
    }
    split_words(tool.title.as_deref().unwrap_or_default(), &mut |word| add(word, TITLE_WEIGHT));
    split_words(&tool.server, &mut |word| add(word, SERVER_WEIGHT));
    for argument in arguments(tool) {
        split_words(&argument, &mut |word| add(word, ARGUMENT_WEIGHT));
    }
    split_words(&tool.description, &mut |word| add(word, DESCRIPTION_WEIGHT));
    length as f32
}

/// The names of a tool's arguments.
fn arguments(tool: &Tool) -> Vec<String> {
    #[derive(Deserialize)]
    struct Schema {
        #[serde(default)]
        properties: HashMap<String, IgnoredAny>,
    }
    let schema = tool.input_schema.decode::<Schema>();
    let mut names: Vec<String> =
        schema.map(|it| it.properties.into_keys().collect()).unwrap_or_default();
    names.sort_unstable();
    names
}

/// The words of a text, in lower case. Joined words come apart: `getHTTPUrl2` is `get`, `http`, `url2`.
fn split_words(text: &str, act: &mut dyn FnMut(&str)) {
    let mut word = String::new();
    let mut previous = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let next_is_lower = rest.peek().is_some_and(|it| it.is_lowercase());
        let begins =
            c.is_uppercase() && (previous.is_lowercase() || previous.is_numeric() || next_is_lower);
        if (begins || !c.is_alphanumeric()) && !word.is_empty() {
            act(&word);
            word.clear();
        }
        if c.is_alphanumeric() && word.len() < MAX_WORD_BYTES {
            match c.is_ascii() {
                true => word.push(c.to_ascii_lowercase()),
                false => word.extend(c.to_lowercase()),
            }
        }
        previous = c;
    }
    if !word.is_empty() {
        act(&word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_words_come_apart() {
        let words = |text: &str| {
            let mut words = Vec::new();
            split_words(text, &mut |word| words.push(word.to_owned()));
            words.join(" ")
        };
        assert_eq!(words("read_file"), "read file");
        assert_eq!(words("getHTTPUrl2"), "get http url2");
        assert_eq!(words("list-PRs.now"), "list p rs now");
        assert_eq!(words("Über die Straße"), "über die straße");
        assert_eq!(words("  "), "");
    }
}
