//! Finds the places of a text that are most similar to a piece that was not found.

/// How many lines of the text are compared.
const MAX_COMPARED_LINES: usize = 10_000;
/// How many places are suggested, and how many lines of each.
const MAX_SUGGESTIONS: usize = 3;
const MAX_SUGGESTION_LINES: usize = 10;
/// The maximum length of a compared or shown line, in characters.
const MAX_LINE_LENGTH: usize = 200;
/// The minimum similarity of a suggestion.
const MIN_SIMILARITY: f64 = 0.5;

/// A place that is similar to the searched text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SimilarPlace {
    /// Its first line, from 1.
    pub(crate) line: usize,
    /// Its text.
    pub(crate) text: String,
    /// How it differs.
    pub(crate) difference: Difference,
}

/// How a similar place differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Difference {
    /// In whitespace only.
    Whitespace,
    /// In its text.
    Text,
}

pub(super) fn similar_places(text: &str, searched: &str) -> Vec<SimilarPlace> {
    let searched: Vec<&str> = searched.trim_matches('\n').lines().collect();
    let Some(lead) = searched.iter().position(|line| !line.trim().is_empty()) else {
        return Vec::new();
    };
    let lines: Vec<&str> = text.lines().collect();
    let first = truncate_line(searched[lead].trim());
    let mut scored: Vec<(f64, usize)> = lines
        .iter()
        .enumerate()
        .take(MAX_COMPARED_LINES)
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(at, line)| (strsim::sorensen_dice(&truncate_line(line.trim()), &first), at))
        .filter(|(score, _)| *score >= MIN_SIMILARITY)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    scored.truncate(4 * MAX_SUGGESTIONS);
    let mut places: Vec<(f64, SimilarPlace)> = scored
        .into_iter()
        .map(|(_, at)| {
            let start = at.saturating_sub(lead);
            let window = &lines[start..lines.len().min(start + searched.len())];
            (similarity(window, &searched), similar_place(start, window, &searched))
        })
        .collect();
    places.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.line.cmp(&b.1.line)));
    places.dedup_by_key(|(_, near)| near.line);
    places.into_iter().take(MAX_SUGGESTIONS).map(|(_, near)| near).collect()
}

fn similar_place(start: usize, window: &[&str], searched: &[&str]) -> SimilarPlace {
    let bare = |lines: &[&str]| lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    let difference = match bare(window) == bare(searched) {
        true => Difference::Whitespace,
        false => Difference::Text,
    };
    let lines: Vec<String> =
        window.iter().take(MAX_SUGGESTION_LINES).map(|line| truncate_line(line)).collect();
    SimilarPlace { line: start + 1, text: lines.join("\n"), difference }
}

fn similarity(window: &[&str], searched: &[&str]) -> f64 {
    let count = searched.len().min(MAX_SUGGESTION_LINES);
    let score = |at: usize| {
        let line = window.get(at).copied().unwrap_or_default();
        strsim::sorensen_dice(&truncate_line(line.trim()), &truncate_line(searched[at].trim()))
    };
    #[expect(clippy::cast_precision_loss, reason = "a handful of lines")]
    let mean = (0..count).map(score).sum::<f64>() / count as f64;
    mean
}

fn truncate_line(line: &str) -> String {
    line.chars().take(MAX_LINE_LENGTH).collect()
}
