//! Two spellings of a stream or a topic, and the one that the settings have.
//!
//! ```text
//! source   stream: {name: s, format: json}            ─▶  stream: s, format: json
//!          kafka: {brokers: b, topic: t}, format: …   ─▶  kafka: {brokers: b, topic: t, format: …}
//! sink     stream: s, format: json, key: [k]          ─▶  stream: {name: s, format: json, key: [k]}
//!          kafka: {brokers: b, topic: t}, format: …   ─▶  kafka: {brokers: b, topic: t, format: …}
//! ```
//!
//! Invariants: an item keeps its place in the text when it moves, so a problem is shown where its
//! value is written. A part that is written in both places is refused.

use super::tree::{Item, ItemValue, Name};
use crate::diagnostic::{Path, Problem, VALUE_SHOWN_MAX, excerpt};

/// The parts of a stream or a topic that is a source.
const SOURCE_PARTS: &[&str] =
    &["format", "schema", "sample", "start", "until", "isolation", "meta"];
/// The parts of a stream that is a sink.
const STREAM_SINK_PARTS: &[&str] = &["format", "key", "streamlets"];
/// The parts of a topic that is a sink.
const KAFKA_SINK_PARTS: &[&str] = &["format", "key", "create", "partitions", "transaction_timeout"];

type Entries = Vec<(Name, Item)>;

/// Gives every stream and topic of a job the spelling of the settings.
pub(super) fn normalize(tree: &mut Item) -> Result<(), Problem> {
    type Normalize = fn(&mut Entries) -> Result<(), Problem>;
    for (section, normalize) in [("sources", source as Normalize), ("sinks", sink as Normalize)] {
        let Some(ItemValue::Table(parts)) = value_mut(tree, section) else { continue };
        for (name, part) in parts {
            let ItemValue::Table(entries) = &mut part.value else { continue };
            normalize(entries).map_err(|mut problem: Problem| {
                problem.path.splice(0..0, [section.to_owned(), name.text.clone()]);
                problem
            })?;
        }
    }
    Ok(())
}

fn value_mut<'t>(tree: &'t mut Item, name: &str) -> Option<&'t mut ItemValue> {
    let ItemValue::Table(entries) = &mut tree.value else { return None };
    entries.iter_mut().find(|(it, _)| it.text == name).map(|(_, item)| &mut item.value)
}

fn position(entries: &Entries, name: &str) -> Option<usize> {
    entries.iter().position(|(it, _)| it.text == name)
}

/// The parts of a topic move into its table, those of a stream out of it.
fn source(entries: &mut Entries) -> Result<(), Problem> {
    match (position(entries, "stream"), position(entries, "kafka")) {
        (Some(at), _) => move_out(entries, at),
        (None, Some(at)) => move_in(entries, at, SOURCE_PARTS),
        (None, None) => Ok(()),
    }
}

fn sink(entries: &mut Entries) -> Result<(), Problem> {
    let (at, kind, parts) = match (position(entries, "stream"), position(entries, "kafka")) {
        (Some(at), _) => (Some(at), "stream", STREAM_SINK_PARTS),
        (None, Some(at)) => (Some(at), "kafka", KAFKA_SINK_PARTS),
        (None, None) => (None, "", &[][..]),
    };
    let known = |name: &str| STREAM_SINK_PARTS.contains(&name) || KAFKA_SINK_PARTS.contains(&name);
    let misplaced = entries.iter().find(|(it, _)| known(&it.text) && !parts.contains(&&*it.text));
    if let Some((Name { text: part, .. }, _)) = misplaced {
        let (message, expected) = match at {
            Some(_) => (
                format!("`{part}` is no part of a sink's `{kind}`"),
                format!("`{}`", parts.join("`, `")),
            ),
            None => (
                format!(
                    "`{part}` stands beside a `stream` or a `kafka`, and this sink has neither"
                ),
                format!(
                    "`{part}` in the table of the sink's kind, such as `file: {{{part}: ...}}`"
                ),
            ),
        };
        return Err(Problem::new([part.as_str()], message).at_name().expected(expected));
    }
    let Some(at) = at.filter(|_| entries.iter().any(|(it, _)| parts.contains(&&*it.text))) else {
        return Ok(());
    };
    let item = &mut entries[at].1;
    let is_scalar = !matches!(item.value, ItemValue::List(_) | ItemValue::Table(_));
    if kind == "stream" && is_scalar {
        let place = item.place;
        let name = Name { text: "name".to_owned(), place };
        let stream = item.clone();
        item.value = ItemValue::Table(vec![(name, stream)]);
    }
    move_in(entries, at, parts)
}

/// Moves the parts of a source or sink into the table of its kind.
fn move_in(entries: &mut Entries, at: usize, parts: &[&str]) -> Result<(), Problem> {
    let (mut moved, mut left) = (Vec::new(), Vec::new());
    let kind = entries[at].0.text.clone();
    if !matches!(entries[at].1.value, ItemValue::Table(_)) {
        // The reader refuses the kind itself.
        return Ok(());
    }
    for entry in std::mem::take(entries) {
        if parts.contains(&&*entry.0.text) { moved.push(entry) } else { left.push(entry) }
    }
    *entries = left;
    let table = entries.iter_mut().find(|(it, _)| it.text == kind).map(|(_, item)| item);
    let Some(Item { value: ItemValue::Table(table), .. }) = table else { return Ok(()) };
    for (name, item) in moved {
        if position(table, &name.text).is_some() {
            return Err(given_twice([kind.as_str(), &name.text], &name.text, &kind));
        }
        table.push((name, item));
    }
    Ok(())
}

/// Moves the parts of a source's stream out of its table, and leaves the name.
fn move_out(entries: &mut Entries, at: usize) -> Result<(), Problem> {
    let ItemValue::Table(table) = &mut entries[at].1.value else { return Ok(()) };
    let mut parts = std::mem::take(table);
    let Some(name) = position(&parts, "name") else {
        *table = parts;
        let problem = Problem::new(["stream"], "the field `name` is missing").at_name();
        return Err(problem.expected("`stream: NAME`, or `stream: {name: NAME, ...}`"));
    };
    let (_, stream) = parts.remove(name);
    if let Some((unknown, _)) = parts.iter().find(|(it, _)| !SOURCE_PARTS.contains(&&*it.text)) {
        let shown = excerpt(&unknown.text, VALUE_SHOWN_MAX);
        let problem = Problem::new(["stream", &unknown.text], format!("unknown field `{shown}`"));
        let names = ["name"].into_iter().chain(SOURCE_PARTS.iter().copied());
        let problem = problem.one_of(&unknown.text, names).at_name();
        entries[at].1.value = ItemValue::Table(parts);
        return Err(problem);
    }
    if let Some((both, _)) = parts.iter().find(|(it, _)| position(entries, &it.text).is_some()) {
        return Err(given_twice([both.text.as_str()], &both.text, "stream"));
    }
    entries[at].1 = stream;
    entries.extend(parts);
    Ok(())
}

fn given_twice<S: Into<String>>(
    path: impl IntoIterator<Item = S>,
    part: &str,
    kind: &str,
) -> Problem {
    let path: Path = path.into_iter().map(Into::into).collect();
    let message = format!("`{part}` is given twice: beside `{kind}` and in it");
    Problem::new(path, message).at_name().expected("one of them")
}
