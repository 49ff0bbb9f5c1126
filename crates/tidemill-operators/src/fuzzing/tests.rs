//! Queries and expressions that were changed, word by word.

use super::*;
use proptest::prelude::*;

#[test]
fn queries_of_the_seeds_are_known_and_do_not_depend_on_batches() {
    let seeds = sql_seeds();
    let known = seeds.iter().filter(|seed| {
        let text = std::str::from_utf8(seed).expect("text");
        sql(text);
        let tables = [("state".to_owned(), BATCH.schema())];
        Query::compile(text, &tables).is_ok() || Expr::compile(text, &BATCH.schema()).is_ok()
    });
    assert!(known.count() * 3 > seeds.len() * 2, "most of them are");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_text_made_of_words_of_queries_panics(
        words in proptest::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 1..12),
        changed: prop::sample::Index,
        by in proptest::option::of("[ -~]{0,3}"),
    ) {
        // Some words of one query, then some of another.
        let seeds = sql_seeds();
        let mut text = String::new();
        for (seed, from) in words {
            let seed = std::str::from_utf8(&seeds[seed.index(seeds.len())]).expect("text").to_owned();
            let all: Vec<&str> = seed.split(' ').collect();
            let from = from.index(all.len());
            text.push_str(&all[from..all.len().min(from + 4)].join(" "));
            text.push(' ');
        }
        if let Some(by) = by {
            let at = changed.index(text.len());
            text.replace_range(at..=at, &by);
        }
        sql(&text);
    }
}
