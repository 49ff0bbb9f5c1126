//! Source files: their length, their first line, their names, and what must not be left in them.

use super::{none, tree};

/// Most lines of a source file, tests apart (tests live in `tests.rs` beside the code).
const LINES_MAX: usize = 500;
/// Files that may hold `unsafe`, each for the reason it gives itself.
const UNSAFE_ALLOWED: &[&str] = &["crates/tidemill/src/alloc.rs"];
/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] =
    &["util", "utils", "common", "helper", "helpers", "misc", "shared", "stuff"];
/// What must not be left in a file. Written in two parts, so that this file does not hold them.
const LEFTOVERS: &[[&str; 2]] = &[
    ["FIX", "ME"],
    ["TO", "DO:"],
    ["TO", "DO "],
    ["XX", "X "],
    ["todo", "!("],
    ["unimplemented", "!("],
    ["dbg", "!("],
    ["#[ign", "ore"],
];

fn is_test(name: &str) -> bool {
    name.ends_with("tests.rs") || name.contains("/tests/")
}

/// Complaints about one source file.
fn check(name: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut complain = |line: usize, what: &str| complaints.push(format!("{name}:{line}: {what}"));
    if !is_test(name) {
        if !text.starts_with("//!") {
            complain(1, "no `//!` on the first line: say what the file is");
        }
        if text.lines().count() > LINES_MAX {
            complain(LINES_MAX + 1, "too long: what is the second idea in this file?");
        }
    }
    for part in name.split('/') {
        if EMPTY_NAMES.contains(&part.trim_end_matches(".rs")) {
            complain(1, "a name that says nothing: name the file by what is in it");
        }
    }
    for (line, text) in text.lines().enumerate() {
        for leftover in LEFTOVERS.iter().map(|parts| parts.concat()) {
            if text.contains(&leftover) {
                complain(line + 1, &format!("leftover `{}`", leftover.trim_end()));
            }
        }
        let code = text.split("//").next().expect("split yields one piece at least");
        let uses_unsafe = [["unsafe ", "{"], ["unsafe ", "impl"], ["unsafe ", "fn"]]
            .iter()
            .any(|it| code.contains(&it.concat()));
        if uses_unsafe && !UNSAFE_ALLOWED.contains(&name) {
            complain(line + 1, "unsafe: only the files named in xtask/src/tidy/sources.rs may");
        }
        if text.ends_with([' ', '\t']) {
            complain(line + 1, "white space at the end");
        }
    }
    complaints
}

#[test]
fn source_files_are_tidy() {
    let mut complaints = Vec::new();
    for folder in ["crates", "xtask"] {
        for name in tree::files(folder, ".rs") {
            complaints.extend(check(&name, &tree::read(&name)));
        }
    }
    none(&complaints);
}

#[test]
fn every_permission_for_unsafe_is_used() {
    for name in UNSAFE_ALLOWED {
        assert!(tree::read(name).contains("unsafe"), "{name} has no unsafe: take it off the list");
    }
}

#[test]
fn each_fault_is_found() {
    let good = "//! A file.\nfn main() {}\n";
    assert!(check("crates/a/src/b.rs", good).is_empty());
    let long = format!("//! A file.\n{}", "// a line\n".repeat(LINES_MAX));
    let todo = format!("//! A file.\nfn f() {{ {}{} ) }}\n", "todo", "!(");
    for (name, text) in [
        ("crates/a/src/b.rs", "fn main() {}\n"),
        ("crates/a/src/b.rs", &*long),
        ("crates/a/src/b.rs", &*todo),
        ("crates/a/src/b.rs", "//! A file.\nfn f() { unsafe\u{20}{ g() } }\n"),
        ("crates/a/src/b.rs", "//! A file. \n"),
        ("crates/a/src/utils.rs", good),
        ("crates/common/src/lib.rs", good),
    ] {
        assert_eq!(check(name, text).len(), 1, "{name}: {:?}", check(name, text));
    }
    assert!(check("crates/a/src/b/tests.rs", &long[12..]).is_empty(), "tests may be long");
}
