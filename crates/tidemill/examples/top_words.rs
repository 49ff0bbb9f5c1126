//! The words that are used most, in a window that slides over a stream of tweets (the top-k
//! frequent words of the ChronoStream paper, V-A).
//!
//! ```bash
//! examples/fetch-data.sh tweets                         # 20,761 tweets, once
//! cargo run --release --example top_words               # or: … -- --window 28d --every 7d
//! ```
//!
//! Shows `flat_map`, expressions that the program makes, sliding windows in event time, the best
//! rows of each window, and reading results row by row.

use clap::Parser;
use std::{collections::BTreeMap, error::Error, fmt::Write};
use tidemill::{Collected, File, Job, OperatorError, collected, from};

/// Shows the words that tweets used most, window by window.
#[derive(Parser)]
pub(crate) struct Options {
    /// One JSON object a line, with `ts` in milliseconds and `text`; `examples/fetch-data.sh
    /// tweets` makes the default.
    #[arg(default_value = "data/tweets.ndjson")]
    pub(crate) path: String,
    /// How many words of each window are shown.
    #[arg(long, default_value_t = 6)]
    pub(crate) top: usize,
    /// The length of a window.
    #[arg(long, default_value = "364d")]
    pub(crate) window: String,
    /// The time from the start of one window to that of the next.
    #[arg(long, default_value = "91d")]
    pub(crate) every: String,
}

/// Links are left out, then everything but letters, digits and apostrophes parts words.
const WORDS: &str = r"string_to_array(regexp_replace(regexp_replace(
    lower(text), 'https?://\S+', ' ', 'g'), '[^\p{L}\p{N}'']+', ' ', 'g'), ' ')";

/// Words that say nothing alone.
pub(crate) const STOP_WORDS: &str = "a about after all also am amp an and any are as at be because \
    been before being but by can com could did do does doing don't for from get go going had has \
    have he her here him his how i i'm if in into is it it's its just know like make many me more \
    most much my never new no not now of off on one only or other our out over people see she \
    should so some than that the their them then there these they this time to too up us very via \
    want was way we were what when where which who will with would you you're your rt t s u";

/// A condition that is true for words that say something.
fn telling() -> String {
    let quoted =
        STOP_WORDS.split_whitespace().map(|word| format!("'{}'", word.replace('\'', "''")));
    format!("length(word) > 1 and word not in ({})", quoted.collect::<Vec<_>>().join(", "))
}

/// The job, and where its rows are found: `day` (on which the window starts), `word`,
/// `n`.
pub(crate) fn job(options: &Options) -> (Job, Collected) {
    let (sink, rows) = collected();
    let job = Job::new("top_words")
        .source("tweets", File::ndjson(&options.path).event_time("ts", "1h"))
        .stage(
            "words",
            from("tweets").flat_map(WORDS, "word").filter(&telling()).select([("word", "word")]),
        )
        .stage(
            "counts",
            from("words")
                .key(["word"])
                .sliding(&options.window, &options.every)
                .aggregate([("n", "count(*)")]),
        )
        .stage("top", from("counts").top(options.top, "n").per(["window_start"]))
        .stage(
            "dated",
            from("top").select([
                ("day", "to_char(window_start, '%Y-%m-%d')"),
                ("word", "word"),
                ("n", "n"),
            ]),
        )
        .sink("out", from("dated").to(sink));
    (job, rows)
}

/// By the day on which a window starts: its words with their counts, the commonest first.
pub(crate) type Windows = BTreeMap<String, Vec<(String, i64)>>;

/// The rows of the job, by window.
pub(crate) fn windows(rows: &Collected) -> Result<Windows, OperatorError> {
    let mut windows = Windows::new();
    rows.read(|row| {
        let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
        let words = windows.entry(text(row.str("day")?)).or_default();
        words.push((text(row.str("word")?), row.i64("n")?.unwrap_or_default()));
        Ok(())
    })?;
    Ok(windows)
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let (job, rows) = job(&options);
    let progress = job.run()?;
    println!("{} from …", options.window);
    for (day, words) in windows(&rows)? {
        let mut line = day;
        for (word, n) in words {
            write!(line, "  {word} {n}")?;
        }
        println!("{line}");
    }
    println!("{} tweets", progress.sources[0].records);
    Ok(())
}
