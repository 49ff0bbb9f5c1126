//! The table of `docs/robustness.md`: each id once, no test that is not there, and each test that is
//! named by ids in their rows.

use std::collections::{BTreeMap, BTreeSet};

/// Faults and bugs that have a row.
const IDS: &[&str] = &[
    "row 1", "row 2", "row 4", "row 5", "row 6", "row 13", "row 14", "row 15", "row 16", "row 17",
    "row 18", "row 19", "row 20", "row 21", "row 24", "row 25", "row 26", "row 28", "row 29",
    "row 30", "row 32", "row 33", "row 34", "row 35", "row 36", "row 38", "row 40", "row 44", "N1",
    "N2", "N3", "N4", "N7", "R1", "R2", "R3", "R4", "R6", "R7", "R8", "R9", "R10", "R11", "R12",
    "K1", "K2", "K3", "K4", "K5", "K7", "K8", "E1", "E3", "E4", "F1", "F2", "F3", "F4", "F5",
];
/// First letters of the ids of bugs.
const BUGS: &str = "nrkef";

/// The names of all functions in these sources and scripts.
pub(super) fn functions<'a>(
    sources: impl Iterator<Item = &'a String>,
    scripts: impl Iterator<Item = &'a String>,
) -> BTreeSet<String> {
    let after = |text: &'a str, word: &'static str| text.split(word).skip(1);
    let name = |rest: &'a str| rest.split_once('(').map(|(name, _)| name.to_owned());
    let of_rust = sources.flat_map(|it| after(it, "fn ")).filter_map(name);
    of_rust.chain(scripts.flat_map(|it| after(it, "def ")).filter_map(name)).collect()
}

/// The ids that a test's name begins with: `row 17` and `N1` of `n1_row_17_nothing_is_lost`.
fn ids_of(test: &str) -> Vec<String> {
    let mut rest = test.strip_prefix("test_").unwrap_or(test);
    let mut ids = Vec::new();
    loop {
        let is_row = rest.starts_with("row_");
        let number =
            rest.strip_prefix("row_").or_else(|| rest.strip_prefix(|it| BUGS.contains(it)));
        let Some((number, after)) = number.and_then(|it| it.split_once('_')) else { return ids };
        if number.is_empty() || number.contains(|it: char| !it.is_ascii_digit()) {
            return ids;
        }
        ids.push(if is_row {
            format!("row {number}")
        } else {
            rest[..=number.len()].to_uppercase()
        });
        rest = after;
    }
}

/// Complaints about the page.
pub(super) fn offences(page: &str, functions: &BTreeSet<String>) -> Vec<String> {
    let mut offences = Vec::new();
    let mut rows: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in page.lines().filter(|it| it.starts_with("| ") && !it.starts_with("| ---")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let (id, tests) = match cells[..] {
            [id, _, tests] => (id, tests),
            // The table of bugs that were found: a test, and what it found.
            [tests, _] => ("", tests),
            _ => {
                offences.push(format!("a row of {} cells: {row}", cells.len()));
                continue;
            }
        };
        if ["id", "test", "plant"].contains(&cells[0]) {
            continue;
        }
        let is_plant = id.starts_with('`');
        if !id.is_empty() && !is_plant && !IDS.contains(&id) {
            offences.push(format!("`{id}` is no id of the list"));
        }
        let named: Vec<&str> =
            tests.split('`').skip(1).step_by(2).filter(|it| !it.contains('/')).collect();
        let absent = named.iter().filter(|it| it.contains('_') && !functions.contains(**it));
        offences.extend(absent.map(|it| format!("{id}: there is no test `{it}`")));
        if named.is_empty() && !tests.contains("missing") {
            offences.push(format!("`{id}` has no test and does not say so"));
        }
        if !id.is_empty() && rows.insert(id, named).is_some() {
            offences.push(format!("`{id}` stands there twice"));
        }
    }
    let unsaid = IDS.iter().filter(|it| !rows.contains_key(**it));
    offences.extend(unsaid.map(|it| format!("`{it}` has no row")));
    for test in functions {
        for id in ids_of(test) {
            match rows.get(id.as_str()) {
                Some(named) if named.contains(&test.as_str()) => {}
                Some(_) => offences.push(format!("`{test}` is not in the row of {id}")),
                None => offences.push(format!("`{test}` is named by `{id}`, which has no row")),
            }
        }
    }
    offences
}

#[test]
fn rows_and_tests_are_looked_for() {
    let source = "fn it_holds() {}".to_owned();
    let script = "def test_it(node): pass".to_owned();
    let functions = functions([&source].into_iter(), [&script].into_iter());
    let all: String = IDS
        .iter()
        .filter(|it| **it != "R4")
        .map(|id| format!("| {id} | w | `it_holds` |\n"))
        .collect();
    let count = |more: &str| offences(&format!("{all}{more}"), &functions).len();
    assert_eq!(count("| R4 | w | `it_holds`, `test_it` with `--journal map` |\n"), 0);
    assert_eq!(count("| R4 | w | missing |\n"), 0);
    assert_eq!(count("| R4 | w | |\n"), 1);
    assert_eq!(count("| R4 | w | `it_does_not` |\n"), 1);
    assert_eq!(count(""), 1);
    assert_eq!(count("| R4 | w | missing |\n| R1 | w | `it_holds` |\n"), 1);
    assert_eq!(count("| R4 | w | missing |\n| Q1 | w | `it_holds` |\n"), 1);
    assert_eq!(offences("", &functions).len(), IDS.len());
}

#[test]
fn a_test_that_is_named_by_ids_must_be_in_their_rows() {
    assert_eq!(ids_of("n1_row_17_nothing_is_lost"), ["N1", "row 17"]);
    assert_eq!(ids_of("test_k1_k2_an_old_request"), ["K1", "K2"]);
    for none in ["row_is_read", "row_20", "u32_at", "knows_nothing", "n_1_a", "test_rows", "é1_a"]
    {
        assert_eq!(ids_of(none), [""; 0], "{none}");
    }
    let rows = |r1: &str, r2: &str| {
        let row = |id: &&str| match *id {
            "R1" => format!("| R1 | w | {r1} |\n"),
            "R2" => format!("| R2 | w | {r2} |\n"),
            id => format!("| {id} | w | missing |\n"),
        };
        IDS.iter().map(row).collect::<String>()
    };
    let functions = BTreeSet::from(["r1_r2_it_holds".to_owned()]);
    let count = |page: &str| offences(page, &functions).len();
    assert_eq!(count(&rows("`r1_r2_it_holds`", "`r1_r2_it_holds`")), 0);
    assert_eq!(count(&rows("`r1_r2_it_holds`", "missing")), 1);
    assert_eq!(count(&rows("missing", "missing")), 2);
    let functions = BTreeSet::from(["row_99_it_holds".to_owned()]);
    assert_eq!(offences(&rows("missing", "missing"), &functions).len(), 1);
}
