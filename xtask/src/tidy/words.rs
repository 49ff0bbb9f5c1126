//! The words of the code: names of files, names of types, and the prose of doc comments.
//!
//! The decisions behind these checks are `docs/rfcs/2026-11-29-vocabulary.md`. Everything here is a
//! plain function of texts.

use std::collections::BTreeMap;

/// Names a file may not have: an adverb, a participle or a question word names no thing.
const NO_NOUNS: &[&str] = &[
    "adapted",
    "after",
    "again",
    "alone",
    "appended",
    "aside",
    "asked",
    "away",
    "beside",
    "bounded",
    "checked",
    "closing",
    "connecting",
    "counted",
    "decided",
    "declared",
    "ended",
    "ending",
    "far",
    "fated",
    "finer",
    "first_times",
    "followed",
    "found",
    "gathered",
    "generated",
    "growing",
    "guarded",
    "held",
    "how",
    "in_order",
    "inflate",
    "kept",
    "later",
    "latest",
    "left_out",
    "mapped",
    "merged",
    "named_times",
    "needed",
    "new_folder",
    "next",
    "noted",
    "noting",
    "on_node",
    "paged",
    "passed_over",
    "past_cache",
    "patient",
    "placed",
    "reading",
    "recast",
    "refused",
    "repeating",
    "said",
    "saved",
    "sealed",
    "second",
    "seeking",
    "served",
    "settled",
    "shared",
    "shown",
    "small",
    "stable",
    "stamped",
    "still",
    "taken",
    "tending",
    "together",
    "told",
    "twins",
    "unseen",
    "unwired",
    "waiting",
    "wanted",
    "what",
    "when",
    "where",
    "whether",
    "who",
    "writing",
    "written",
];

/// Names that any room may have a type of: the language's habits, not ideas of ours.
const SHARED_NAMES: &[&str] = &["Error", "Result", "Options", "Builder", "Inner"];

/// Types that may have one name.
const TYPES_OF_A_NAME_MAX: usize = 2;

/// Whether a path is that of a test, whose names and prose are its own.
pub(super) fn is_test(name: &str) -> bool {
    ["/tests/", "/benches/", "/examples/"].iter().any(|it| name.contains(it))
        || name.ends_with("tests.rs")
}

/// The complaint about the name of a file, if there is one.
pub(super) fn file_offence(name: &str) -> Option<String> {
    if is_test(name) {
        return None;
    }
    let file = name.rsplit('/').next().unwrap_or(name).strip_suffix(".rs")?;
    NO_NOUNS
        .contains(&file)
        .then(|| format!("{name}: `{file}` names no thing: take a noun of docs/glossary.md"))
}

/// The names of the types that a source declares.
fn types(text: &str) -> impl Iterator<Item = &str> {
    // An indented `type` is one that a trait asks for: `type Error = …`.
    let declared = text
        .lines()
        .filter(|line| !line.starts_with(' ') || !line.trim_start().starts_with("type "));
    declared.filter_map(|line| {
        let mut words = line.split_whitespace().skip_while(|it| it.starts_with("pub"));
        let is_type = matches!(words.next()?, "struct" | "enum" | "trait" | "type" | "union");
        let name = words.next()?.split(['<', '(', '{', ';', ':', '=']).next()?;
        (is_type && name.starts_with(|it: char| it.is_ascii_uppercase())).then_some(name)
    })
}

/// Complaints about type names that stand for too many types.
pub(super) fn type_offences(sources: &BTreeMap<String, String>) -> Vec<String> {
    let mut owners: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, text) in sources.iter().filter(|(name, _)| !is_test(name)) {
        for declared in types(text).filter(|it| !SHARED_NAMES.contains(it)) {
            owners.entry(declared).or_default().push(name);
        }
    }
    owners
        .into_iter()
        .filter(|(_, files)| files.len() > TYPES_OF_A_NAME_MAX)
        .map(|(name, files)| format!("`{name}` is {} types: {}", files.len(), files.join(", ")))
        .collect()
}

/// Counts over doc comments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Prose {
    words: usize,
    clause_words: usize,
    lines: usize,
    clause_lines: usize,
}

impl Prose {
    /// Most *what*, *who* and *whoever* among 10,000 words.
    const CLAUSE_WORDS_MAX: usize = 25;
    /// Most lines among 1,000 that begin with a question word.
    const CLAUSE_LINES_MAX: usize = 25;

    /// Adds the doc comments of one source.
    pub(super) fn add(&mut self, text: &str) {
        for line in text.lines().map(str::trim_start) {
            let Some(prose) = line.strip_prefix("//!").or_else(|| line.strip_prefix("///")) else {
                continue;
            };
            let words = || {
                prose
                    .split(|it: char| !it.is_ascii_alphabetic() && it != '\'')
                    .filter(|it| !it.is_empty())
            };
            self.words += words().count();
            self.clause_words += words()
                .filter(|it| ["what", "who", "whoever"].contains(&it.to_ascii_lowercase().as_str()))
                .count();
            self.lines += usize::from(!prose.trim().is_empty());
            let first = words().next().filter(|it| prose.trim_start().starts_with(it));
            self.clause_lines += usize::from(
                first.is_some_and(|it| ["What", "Who", "Whoever", "Whether", "How"].contains(&it)),
            );
        }
    }

    /// Complaints about the counts, each with the figure and its bound.
    pub(super) fn offences(self) -> Vec<String> {
        let mut found = Vec::new();
        let of_words = self.clause_words * 10_000 / self.words.max(1);
        if of_words > Self::CLAUSE_WORDS_MAX {
            let bound = Self::CLAUSE_WORDS_MAX;
            found.push(format!("{of_words} what/who/whoever in 10,000 words, {bound} at most"));
        }
        let of_lines = self.clause_lines * 1_000 / self.lines.max(1);
        if of_lines > Self::CLAUSE_LINES_MAX {
            let bound = Self::CLAUSE_LINES_MAX;
            found.push(format!("{of_lines} of 1,000 lines begin with What, Who, Whoever, Whether or How, {bound} at most"));
        }
        found
    }
}

/// Papers and plans that are not in the repository, by the names of their files.
const ABSENT_SOURCES: &[&str] = &[
    concat!("kera", ".txt"),
    concat!("chimera", ".txt"),
    concat!("s4-checkpointing", ".txt"),
    concat!("chronostream", ".txt"),
    concat!("neptune", ".txt"),
    concat!("DESIGN", " "),
];

/// Complaints about citations of texts that a reader of the repository does not have.
pub(super) fn citation_offences(name: &str, text: &str) -> Vec<String> {
    text.lines()
        .enumerate()
        .filter_map(|(number, line)| {
            let cited = ABSENT_SOURCES.iter().find(|it| line.contains(**it))?;
            let cited = cited.trim();
            Some(format!(
                "{name}:{}: `{cited}` is not in the repository: cite the paper's title and section",
                number + 1
            ))
        })
        .collect()
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn a_file_is_named_after_a_thing() {
        assert!(file_offence("crates/tidemill-flow/src/runtime/held.rs").is_some());
        assert_eq!(file_offence("crates/tidemill-flow/src/runtime/inbox.rs"), None);
        assert_eq!(file_offence("crates/tidemill-flow/src/engine/tests/alone.rs"), None);
    }

    #[test]
    fn a_type_name_stands_for_two_types_at_most() {
        let declares = |text: &str| text.to_owned();
        let mut sources: BTreeMap<String, String> = [
            ("a.rs".into(), declares("pub struct State;\n")),
            ("b.rs".into(), declares("enum State {\n}\npub(crate) type Error = u8;\n")),
            ("c/tests.rs".into(), declares("struct State<T>(T);\n")),
        ]
        .into();
        assert_eq!(type_offences(&sources), Vec::<String>::new());
        sources.insert("d.rs".into(), declares("    pub(super) struct State<'a> {\n"));
        assert_eq!(type_offences(&sources), ["`State` is 3 types: a.rs, b.rs, d.rs"]);
    }

    #[test]
    fn clauses_are_counted_in_doc_comments_alone() {
        let mut prose = Prose::default();
        prose.add("//! What it is.\n    /// Those who wait.\n// what\nlet what = 1;\n///\n");
        let expected = Prose { words: 6, clause_words: 2, lines: 2, clause_lines: 1 };
        assert_eq!(prose, expected);
        assert_eq!(prose.offences().len(), 2);
        assert_eq!(Prose::default().offences(), Vec::<String>::new());
    }

    #[test]
    fn a_citation_leads_to_something_a_reader_can_have() {
        let file = concat!("// (kera", ".txt ch. 5)\n");
        assert_eq!(citation_offences("a.rs", file).len(), 1);
        assert_eq!(citation_offences("a.rs", "// (KerA, chapter 5)\n"), Vec::<String>::new());
    }
}
