//! Word count: the twenty commonest words of a text.
//!
//! ```bash
//! examples/fetch-data.sh corpus      # 32 MiB of text from this machine, once
//! cargo run --release --example word_count              # or: … -- any-text.txt --top 5
//! ```
//!
//! Shows expressions, `flat_map`, a key, a window over the whole input, and results in memory.

use clap::Parser;
use tidemill::{Collected, File, Job, JobFailure, collected, from};

/// Counts the words of a text and shows the commonest.
#[derive(Parser)]
pub(crate) struct Options {
    /// The text; `examples/fetch-data.sh corpus` makes the default.
    #[arg(default_value = "data/corpus.txt")]
    pub(crate) path: String,
    /// How many words are shown.
    #[arg(long, default_value_t = 20)]
    pub(crate) top: usize,
}

/// Letters, digits and apostrophes make words; everything else parts them.
const WORDS: &str =
    r"string_to_array(regexp_replace(lower(text), '[^\p{L}\p{N}'']+', ' ', 'g'), ' ')";

/// The job, and where its rows are found: `word`, `n`.
pub(crate) fn job(options: &Options) -> (Job, Collected) {
    let (sink, rows) = collected();
    let job = Job::new("word_count")
        .source("lines", File::text(&options.path))
        .stage(
            "words",
            from("lines").flat_map(WORDS, "word").filter("word <> ''").select([("word", "word")]),
        )
        .stage("counts", from("words").key(["word"]).global().aggregate([("n", "count(*)")]))
        .stage("top", from("counts").top(options.top, "n").select([("word", "word"), ("n", "n")]))
        .sink("out", from("top").to(sink));
    (job, rows)
}

fn main() -> Result<(), JobFailure> {
    let (job, rows) = job(&Options::parse());
    let progress = job.run()?;
    println!("{rows}\n{} lines", progress.sources[0].records);
    Ok(())
}
