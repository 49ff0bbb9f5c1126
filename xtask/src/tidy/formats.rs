//! The version table of `docs/formats.md` against the constants of the code.

use std::collections::BTreeMap;

/// Rows of the table, by the text of the link in their first column, and the constant each is of.
const VERSIONS: &[(&str, &str)] = &[
    ("ledger", "LEDGER_VERSION"),
    ("link frames", "LINK_VERSION"),
    ("coordinator", "COORDINATOR_VERSION"),
    ("records of nodes", "RECORD_VERSION"),
    ("journal of votes", "RAFT_JOURNAL_VERSION"),
    ("snapshot of the table", "RAFT_SNAPSHOT_VERSION"),
    ("cluster port", "CLUSTER_VERSION"),
    ("indexed backend", "INDEX_VERSION"),
    ("checkpoints", "MANIFEST_VERSION"),
    ("groups", "GROUP_VERSION"),
    ("group offsets", "OFFSET_VERSION"),
    ("transactions", "TRANSACTION_VERSION"),
    ("producers", "PRODUCERS_VERSION"),
];

/// The value of a constant that exactly one source declares.
fn constant<'a>(sources: &'a BTreeMap<String, String>, name: &str) -> Option<&'a str> {
    let declared = format!("const {name}: ");
    let mut lines = sources
        .iter()
        .filter(|(file, _)| !file.starts_with("xtask/"))
        .flat_map(|(_, text)| text.lines())
        .filter(|line| line.contains(&declared))
        .filter_map(|line| line.split_once("= ")?.1.strip_suffix(';'));
    let value = lines.next()?;
    lines.next().is_none().then_some(value)
}

/// The version that the row of a format begins its third column with.
fn written<'a>(page: &'a str, format: &str) -> Option<&'a str> {
    let row = page.lines().find(|line| line.starts_with(&format!("| [{format}](#")))?;
    let version = row.split('|').nth(3)?.trim();
    version.split([',', ' ']).next()
}

/// Complaints about rows that do not say what the code has.
pub(super) fn offences(page: &str, sources: &BTreeMap<String, String>) -> Vec<String> {
    let mut found = Vec::new();
    for (format, name) in VERSIONS {
        match (written(page, format), constant(sources, name)) {
            (Some(page), Some(code)) if page == code => {}
            (page, code) => found.push(format!(
                "docs/formats.md: `{format}` has version {page:?}, `{name}` is {code:?}"
            )),
        }
    }
    found
}

#[test]
fn a_row_that_has_drifted_is_named() {
    let code = "pub const LEDGER_VERSION: u8 = 2;\n";
    let sources: BTreeMap<String, String> = [("ledger.rs".to_owned(), code.to_owned())].into();
    let of_ledger = |page: &str| {
        let all = offences(page, &sources);
        all.iter().filter(|it| it.contains("LEDGER_VERSION")).count()
    };
    assert_eq!(of_ledger("| [ledger](#ledger) | `DIR/ledger` | 2, in the head |\n"), 0);
    assert_eq!(of_ledger("| [ledger](#ledger) | `DIR/ledger` | 1, in the head |\n"), 1);
    assert_eq!(of_ledger("no row\n"), 1);
}
