//! The table of `docs/robustness.md`: each id once, and no test that is not there.

use std::collections::BTreeSet;

/// Faults and bugs that must have a row; others may have one.
const IDS: &[&str] = &[
    "row 1", "row 4", "row 14", "row 15", "row 16", "row 17", "row 18", "row 19", "row 20",
    "row 21", "row 28", "row 32", "row 33", "row 34", "row 35", "row 36", "row 38", "row 40", "N1",
    "N2", "N3", "N4", "N7", "R1", "R2", "R6", "R7", "R8", "R9", "R10", "R11", "R12", "K1", "K2",
    "K3", "K4", "K5", "K7", "K8", "E1",
];
/// Those that may have one.
const MORE: &[&str] = &[
    "row 2", "row 6", "row 13", "row 24", "row 25", "row 44", "R3", "R4", "F1", "F2", "F3", "F4",
    "F5",
];

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

/// Complaints about the page.
pub(super) fn offences(page: &str, functions: &BTreeSet<String>) -> Vec<String> {
    let mut offences = Vec::new();
    let mut seen = BTreeSet::new();
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
        if !id.is_empty() && !is_plant && !IDS.contains(&id) && !MORE.contains(&id) {
            offences.push(format!("`{id}` is no id of the list"));
        }
        if !id.is_empty() && !seen.insert(id) {
            offences.push(format!("`{id}` stands there twice"));
        }
        let named: Vec<&str> =
            tests.split('`').skip(1).step_by(2).filter(|it| !it.contains('/')).collect();
        let absent = named.iter().filter(|it| it.contains('_') && !functions.contains(**it));
        offences.extend(absent.map(|it| format!("{id}: there is no test `{it}`")));
        if named.is_empty() && !tests.contains("missing") {
            offences.push(format!("`{id}` has no test and does not say so"));
        }
    }
    let unsaid = IDS.iter().filter(|it| !seen.contains(**it));
    offences.extend(unsaid.map(|it| format!("`{it}` has no row")));
    offences
}

#[test]
fn rows_and_tests_are_looked_for() {
    let source = "fn it_holds() {}".to_owned();
    let script = "def test_it(node): pass".to_owned();
    let functions = functions([&source].into_iter(), [&script].into_iter());
    let all: String = IDS.iter().map(|id| format!("| {id} | w | `it_holds` |\n")).collect();
    let count = |more: &str| offences(&format!("{all}{more}"), &functions).len();
    assert_eq!(count("| R4 | w | `it_holds`, `test_it` with `--journal map` |\n"), 0);
    assert_eq!(count("| R4 | w | missing |\n"), 0);
    assert_eq!(count("| R4 | w | |\n"), 1);
    assert_eq!(count("| R4 | w | `it_does_not` |\n"), 1);
    assert_eq!(count("| R1 | w | `it_holds` |\n"), 1);
    assert_eq!(count("| Q1 | w | `it_holds` |\n"), 1);
    assert_eq!(offences("", &functions).len(), IDS.len());
}
