//! The pairs of tweets that share the most words, within a window that slides over the stream (the
//! tweet similarity of the ChronoStream paper, V-A).
//!
//! ```bash
//! examples/fetch-data.sh tweets                         # 20,761 tweets, once
//! cargo run --release --example similar_tweets          # or: … -- --window 30d --top 10
//! ```
//!
//! Every tweet is compared with all that came before it in the window from the same place; the one
//! with which it shares the most words is its partner. The paper parts tweets by the place they
//! were sent from. Those of the data set do not tell it, so the program they were sent with stands
//! for it.
//!
//! Shows an operator of the program with a state for each slice: plain Rust, called record by
//! record, and yet the same result for any number of threads.

use clap::Parser;
use serde::{Deserialize, Serialize};
use std::{collections::VecDeque, error::Error, sync::Arc};
use tidemill::arrow::schema::{DataType, Field, Schema};
use tidemill::custom::{self, CycleInfo, Emit, Record, state::Map};
use tidemill::{Collected, File, Job, OperatorError, Span, collected, from};

/// Shows the pairs of tweets that share the most words.
#[derive(Parser)]
pub(crate) struct Options {
    /// One JSON object a line, with `ts` in milliseconds, `id`, `source`, `text` and
    /// `is_retweet`; `examples/fetch-data.sh tweets` makes the default.
    #[arg(default_value = "data/tweets.ndjson")]
    pub(crate) path: String,
    /// How far apart in time the tweets of a pair may be.
    #[arg(long, default_value = "7d")]
    pub(crate) window: Span,
    /// How many pairs are shown.
    #[arg(long, default_value_t = 5)]
    pub(crate) top: usize,
}

/// A tweet that later ones are compared with.
#[derive(Serialize, Deserialize)]
struct Tweet {
    time_us: i64,
    id: String,
    text: String,
    words: Vec<String>,
}

/// The tweets of the window, oldest first, by the place they were sent from.
type Recent = Map<String, VecDeque<Tweet>>;

/// The words of a text, each once, in order. Links, short words and signs do not count.
pub(crate) fn words(text: &str) -> Vec<String> {
    let parts = text.split_whitespace().filter(|part| !part.contains("://"));
    let words = parts.flat_map(|part| part.split(|c: char| !c.is_alphanumeric()));
    let long = words.filter(|word| word.chars().count() > 3).map(str::to_lowercase);
    let mut words: Vec<String> = long.collect();
    words.sort_unstable();
    words.dedup();
    words
}

/// How many words two sorted lists share.
fn shared(a: &[String], b: &[String]) -> i64 {
    let (mut i, mut j, mut count) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => (i, j, count) = (i + 1, j + 1, count + 1),
        }
    }
    count
}

/// Compares one tweet with those before it, writes the best pair, and remembers the tweet.
fn compare(
    window: Span,
    recent: &mut Recent,
    record: &Record<'_>,
    emit: &mut Emit,
) -> Result<(), OperatorError> {
    let text = |name| Ok(record.str(name)?.unwrap_or_default().to_owned());
    let (source, id, text): (String, String, String) =
        (text("source")?, text("id")?, text("text")?);
    let time_us = record.time().map_or(0, |time| time.0);
    let words = words(&text);
    let earlier = recent.get_or_default(source);
    while earlier.front().is_some_and(|first| first.time_us < time_us - window.0) {
        earlier.pop_front();
    }
    // Of equal ones the latest is the partner.
    let scored = earlier.iter().map(|other| (shared(&other.words, &words), other));
    if let Some((count, other)) = scored.max_by_key(|(count, _)| *count).filter(|it| it.0 > 0) {
        emit.row(|row| {
            row.put(count).put(&id).put(&text).put(&other.id).put(&other.text);
        })?;
    }
    earlier.push_back(Tweet { time_us, id, text, words });
    Ok(())
}

/// The job, and where its rows are found: `words`, `id`, `text`, `other_id`, `other_text`.
pub(crate) fn job(options: &Options) -> (Job, Collected) {
    let (sink, rows) = collected();
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    let pair = Arc::new(Schema::new(vec![
        Field::new("words", DataType::Int64, false),
        text("id"),
        text("text"),
        text("other_id"),
        text("other_text"),
    ]));
    let window = options.window;
    let job = Job::new("similar_tweets")
        .operator("compare", move |_| {
            Ok(Arc::new(custom::keyed_record(
                Arc::clone(&pair),
                Recent::default,
                move |recent: &mut Recent, record: &Record<'_>, emit: &mut Emit, _: &CycleInfo| {
                    compare(window, recent, record, emit)
                },
            )))
        })
        .source("tweets", File::ndjson(&options.path).event_time("ts", "0s").column("id", "text"))
        .stage("own", from("tweets").filter("not is_retweet"))
        .stage("pairs", from("own").key(["source"]).operator("compare"))
        .stage("most_similar", from("pairs").top(options.top, "words"))
        .sink("out", from("most_similar").to(sink));
    (job, rows)
}

fn main() -> Result<(), Box<dyn Error>> {
    let (job, rows) = job(&Options::parse());
    let progress = job.run()?;
    let text = |value: Option<&str>| value.unwrap_or_default().replace('\n', " ");
    rows.read(|row| {
        println!("{} words in both:", row.i64("words")?.unwrap_or_default());
        println!("  {}\n  {}", text(row.str("text")?), text(row.str("other_text")?));
        Ok(())
    })?;
    let (tweets, pairs) = (progress.sources[0].records, progress.stages[1].rows_out);
    println!("{tweets} tweets, {pairs} of them with a partner");
    Ok(())
}
