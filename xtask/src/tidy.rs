//! Checks of the code that are not about behaviour: layering, file length, headers, leftovers.
//!
//! Each check reads every file and reports all offenders at once, each with a remedy. The decision about
//! one text is a plain function; `tests` shows the texts it refuses.

mod documents;
mod formats;
mod robustness;
mod rules;
mod tests;
mod tree;
mod words;

use std::collections::{BTreeMap, BTreeSet};

/// Crates whose code is synchronous: their manifests name no async runtime.
const SYNCHRONOUS: &[&str] = &[
    "tidemill-types",
    "tidemill-wire",
    "tidemill-env",
    "tidemill-log",
    "tidemill-state",
    "tidemill-checkpoints",
    "tidemill-client",
    "tidemill-cluster",
    "tidemill-coord",
    "tidemill-models",
    "tidemill-replica",
    "tidemill-flow",
    "tidemill-sql",
    "tidemill-operators",
    "tidemill-sim",
    "tidemill-connectors",
];

/// The one room of a synchronous crate that has a runtime, of one thread and within each call: a wait for
/// a database must be able to end.
const HAS_RUNTIME: (&str, &str) =
    ("tidemill-connectors", "crates/tidemill-connectors/src/postgres");

/// Fails with one line for each offence.
fn refuse(offences: &[String]) {
    assert!(offences.is_empty(), "\n  {}\n", offences.join("\n  "));
}

#[test]
fn every_crate_has_one_row_in_layers() {
    let listed: BTreeSet<String> = tree::layers().into_keys().collect();
    assert_eq!(tree::crates(), listed, "the folders of crates/ and the rows of layers.txt");
}

#[test]
fn layers_have_no_loop() {
    let layers = tree::layers();
    let mut done = BTreeSet::new();
    while done.len() < layers.len() {
        let ready: Vec<&String> = layers
            .iter()
            .filter(|(name, below)| {
                !done.contains(*name) && below.iter().all(|it| done.contains(it))
            })
            .map(|(name, _)| name)
            .collect();
        assert!(!ready.is_empty(), "layers.txt: what is left depends on itself; done: {done:?}");
        done.extend(ready.into_iter().cloned());
    }
}

#[test]
fn crates_depend_only_downwards() {
    let layers = tree::layers();
    let mut offences = Vec::new();
    for (name, allowed) in &layers {
        for used in rules::dependencies(&tree::manifest(name)) {
            if used.starts_with("tidemill") && !allowed.contains(&used) {
                offences.push(format!("{name} must not depend on {used}: see layers.txt"));
            }
        }
    }
    refuse(&offences);
}

#[test]
fn synchronous_crates_name_no_runtime() {
    let mut offences = Vec::new();
    for name in SYNCHRONOUS {
        for used in rules::dependencies(&tree::manifest(name)) {
            let is_runtime = used.starts_with("tokio") || used.starts_with("futures");
            if is_runtime && *name != HAS_RUNTIME.0 {
                offences.push(format!("{name} depends on {used}: its code is synchronous"));
            }
        }
    }
    let (name, room) = HAS_RUNTIME;
    for (file, text) in tree::sources() {
        let is_outside = file.starts_with(&format!("crates/{name}/")) && !file.starts_with(room);
        if is_outside && ["tokio", "futures_util", "async "].iter().any(|it| text.contains(it)) {
            offences.push(format!("{file} is asynchronous: that stays in {room}"));
        }
    }
    refuse(&offences);
}

#[test]
fn third_party_crates_are_declared_once() {
    let mut offences = Vec::new();
    for name in tree::crates() {
        let manifest = tree::manifest(&name);
        for line in rules::own_versions(&manifest) {
            offences.push(format!("{name}: `{line}`: say `.workspace = true`"));
        }
    }
    refuse(&offences);
}

#[test]
fn every_permission_for_unsafe_is_used() {
    let sources = tree::sources();
    for name in rules::UNSAFE_ALLOWED {
        let used = sources.get(*name).is_some_and(|text| rules::has_unsafe(text));
        assert!(used, "{name} has no unsafe: take it off the list");
    }
}

#[test]
fn documents_have_one_title_and_links_that_lead_somewhere() {
    let documents = tree::documents();
    assert!(documents.len() > 5, "the documents were found");
    let exists = |folder: &str, target: &str| tree::exists(folder, target);
    let mut offences = Vec::new();
    for (name, text) in &documents {
        offences.extend(documents::offences(name, text, &exists));
    }
    refuse(&offences);
}

#[test]
fn files_are_tidy() {
    let sources: BTreeMap<String, String> = tree::sources();
    assert!(sources.len() > 50, "the sources were found");
    let mut offences = Vec::new();
    for (name, text) in &sources {
        offences.extend(rules::offences(name, text).into_iter().map(|it| format!("{name}: {it}")));
    }
    refuse(&offences);
}

#[test]
fn documents_name_sources_that_are_there() {
    let sources = tree::sources();
    let mut offences = Vec::new();
    for (name, text) in &tree::documents() {
        offences.extend(documents::source_offences(name, text, sources.keys()));
    }
    refuse(&offences);
}

#[test]
fn architecture_is_short() {
    const LINES_MAX: usize = 300;
    let page = tree::documents().remove("ARCHITECTURE.md").expect("the map of the code");
    let lines = page.lines().count();
    assert!(
        lines <= LINES_MAX,
        "ARCHITECTURE.md: {lines} lines, {LINES_MAX} at most: docs/internals has room"
    );
}

#[test]
fn files_are_named_after_things() {
    let offences: Vec<String> =
        tree::sources().keys().filter_map(|it| words::file_offence(it)).collect();
    refuse(&offences);
}

#[test]
fn a_type_name_stands_for_two_types_at_most() {
    refuse(&words::type_offences(&tree::sources()));
}

#[test]
fn doc_comments_are_plain_sentences() {
    let mut prose = words::Prose::default();
    for text in tree::sources().iter().filter(|(name, _)| !words::is_test(name)).map(|it| it.1) {
        prose.add(text);
    }
    refuse(&prose.offences());
}

#[test]
fn citations_lead_to_published_texts() {
    let mut offences = Vec::new();
    for (name, text) in tree::sources().iter().chain(&tree::documents()) {
        offences.extend(words::citation_offences(name, text));
    }
    refuse(&offences);
}

#[test]
fn the_table_of_formats_has_the_versions_of_the_code() {
    let page = tree::documents().remove("docs/formats.md").expect("the page of formats");
    refuse(&formats::offences(&page, &tree::sources()));
}

#[test]
fn the_table_of_faults_names_tests_that_are_there() {
    let functions = functions_of_the_tests();
    assert!(functions.len() > 500, "the tests were found");
    refuse(&robustness::offences(&robustness_page(), &functions));
}

/// `docs/robustness.md`.
pub(crate) fn robustness_page() -> String {
    tree::documents().remove("docs/robustness.md").expect("the page of faults")
}

/// The names of all functions of the repository.
pub(crate) fn functions_of_the_tests() -> BTreeSet<String> {
    let (sources, scripts) = (tree::sources(), tree::scripts());
    robustness::functions(sources.values(), scripts.values())
}

/// A client that is told an unknown error sends its batch again under new numbers.
#[test]
fn r6_the_broker_names_no_unknown_error() {
    let mut offences = Vec::new();
    for (name, text) in tree::sources() {
        let speaks = name.starts_with("crates/tidemill-broker/src/");
        if speaks && text.contains(concat!("Unknown", "ServerError")) {
            offences.push(format!("{name} names an error that tells a client nothing"));
        }
    }
    refuse(&offences);
}
