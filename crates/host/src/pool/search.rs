//! Searches tools by words in names, servers, titles, descriptions and argument names. Ranks with BM25 and a weight
//! per field. Matches word prefixes and splits joined names.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::tool::Tool;

/// The weight of a word by field.
const NAME_WEIGHT: f32 = 5.0;
const TITLE_WEIGHT: f32 = 3.0;
const SERVER_WEIGHT: f32 = 2.5;
const ARGUMENT_WEIGHT: f32 = 1.5;
const DESCRIPTION_WEIGHT: f32 = 1.0;
/// BM25 parameters: saturation of repeated words, and penalty for length.
const SATURATION: f32 = 1.2;
const LENGTH_PENALTY: f32 = 0.4;
/// The weight of a prefix match relative to a whole word.
const PREFIX_WEIGHT: f32 = 0.6;
/// The maximum number of words that a prefix expands to.
const MAX_EXPANSIONS: usize = 64;
/// The maximum number of query words, and the maximum length of a word.
const MAX_QUERY_WORDS: usize = 16;
const MAX_WORD_BYTES: usize = 64;
/// The maximum number of indexed words per tool.
const MAX_WORDS_PER_TOOL: usize = 512;

/// A search result.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolMatch {
    /// The tool.
    pub tool: Arc<Tool>,
    /// The relevance, comparable only within one search.
    pub score: f32,
}

/// An index over the tools of one pool, by position.
#[derive(Debug)]
pub(super) struct SearchIndex {
    /// All words, sorted, each with the start of its entries.
    words: Vec<(Box<str>, u32)>,
    /// The tool's position and the word's score there.
    entries: Vec<(u32, f32)>,
    /// Positions by lower-case exposed name, own name and title.
    names: HashMap<Box<str>, Vec<u32>>,
}

impl SearchIndex {
    pub(super) fn of(tools: &[Arc<Tool>]) -> SearchIndex {
        let mut entries_by_word: HashMap<Box<str>, Vec<(u32, f32)>> = HashMap::new();
        let mut names: HashMap<Box<str>, Vec<u32>> = HashMap::new();
        let mut lengths = Vec::with_capacity(tools.len());
        for (position, tool) in (0u32..).zip(tools) {
            lengths.push(index_tool(tool, position, &mut entries_by_word));
            let title = tool.title.as_deref().unwrap_or_default();
            for name in [&tool.exposed_name, &tool.name, title] {
                let positions = names.entry(name.to_lowercase().into()).or_default();
                if !name.is_empty() && positions.last() != Some(&position) {
                    positions.push(position);
                }
            }
        }
        let count = tools.len().max(1) as f32;
        let average = (lengths.iter().sum::<f32>() / count).max(1.0);
        let mut sorted: Vec<_> = entries_by_word.into_iter().collect();
        sorted.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut index =
            SearchIndex { words: Vec::with_capacity(sorted.len()), entries: Vec::new(), names };
        for (word, found) in sorted {
            index.words.push((word, as_u32(index.entries.len())));
            let tool_count = found.len() as f32;
            let rarity = (1.0 + (count - tool_count + 0.5) / (tool_count + 0.5)).ln();
            for (position, weight) in found {
                let length =
                    1.0 - LENGTH_PENALTY + LENGTH_PENALTY * lengths[position as usize] / average;
                let saturated = weight * (SATURATION + 1.0) / (weight + SATURATION * length);
                index.entries.push((position, rarity * saturated));
            }
        }
        index
    }

    /// The best positions for a query, best first.
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
                for (position, value) in self.entries_of(at) {
                    let best = &mut best[*position as usize];
                    if *best == 0.0 {
                        seen.push(*position);
                    }
                    // Several expansions of one word count once, with the best score.
                    *best = best.max(value * factor);
                }
            }
            for position in seen {
                let at = position as usize;
                if hits[at] == 0 {
                    touched.push(position);
                }
                hits[at] += 1;
                scores[at] += std::mem::take(&mut best[at]);
            }
        }
        // A tool that matches all words ranks above one that matches one word often.
        let word_count = words.len().max(1) as f32;
        let mut found: Vec<(bool, u32, f32)> = touched
            .into_iter()
            .map(|position| {
                let at = position as usize;
                let is_exact = exact.is_some_and(|exact| exact.contains(&position));
                (is_exact, position, scores[at] * f32::from(hits[at]) / word_count)
            })
            .collect();
        for position in exact.into_iter().flatten() {
            if hits[*position as usize] == 0 {
                found.push((true, *position, 0.0));
            }
        }
        // Positions are in the order of exposed names, which breaks ties.
        let order = |a: &(bool, u32, f32), b: &(bool, u32, f32)| {
            b.0.cmp(&a.0).then(b.2.total_cmp(&a.2)).then(a.1.cmp(&b.1))
        };
        if found.len() > max && max > 0 {
            found.select_nth_unstable_by(max - 1, order);
        }
        found.truncate(max);
        found.sort_unstable_by(order);
        found.into_iter().map(|(_, position, score)| (position, score)).collect()
    }

    /// The expansions of a query word: the word itself, its singular, and words that start with it.
    fn expansions(&self, word: &str) -> Vec<(usize, f32)> {
        let mut found = Vec::new();
        let first = self.words.partition_point(|(it, _)| it.as_ref() < word);
        let with_prefix = self.words[first..].iter().take_while(|(it, _)| it.starts_with(word));
        for (at, (it, _)) in (first..).zip(with_prefix).take(MAX_EXPANSIONS) {
            match it.len() == word.len() {
                true => found.push((at, 1.0)),
                // A single letter is too short for a prefix match.
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

fn as_u32(at: usize) -> u32 {
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

/// Adds a tool's words and returns their number.
fn index_tool(tool: &Tool, position: u32, into: &mut HashMap<Box<str>, Vec<(u32, f32)>>) -> f32 {
    let mut length = 0usize;
    let mut add = |word: &str, weight: f32| {
        length += 1;
        if length > MAX_WORDS_PER_TOOL {
            return;
        }
        // Known words need no copy.
        let Some(entries) = into.get_mut(word) else {
            into.insert(word.into(), vec![(position, weight)]);
            return;
        };
        match entries.last_mut() {
            Some((last, sum)) if *last == position => *sum += weight,
            Some(_) | None => entries.push((position, weight)),
        }
    };
    split_words(&tool.name, &mut |word| add(word, NAME_WEIGHT));
    // Lets `readfile` find `read_file`.
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

/// Calls `act` with each word in lower case. Splits joined words: `getHTTPUrl2` is `get`, `http`, `url2`.
fn split_words(text: &str, act: &mut dyn FnMut(&str)) {
    let mut word = String::new();
    let mut previous = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let next_is_lower = rest.peek().is_some_and(|it| it.is_lowercase());
        let starts_word =
            c.is_uppercase() && (previous.is_lowercase() || previous.is_numeric() || next_is_lower);
        if (starts_word || !c.is_alphanumeric()) && !word.is_empty() {
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
    fn joined_words_are_split() {
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
