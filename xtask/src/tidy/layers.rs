//! Dependencies point one way: what `layers.txt` says is what the manifests do.

use super::{none, tree};
use std::collections::{BTreeMap, BTreeSet};

/// Crates that decide synchronously: their manifests name no async runtime.
const SYNCHRONOUS: &[&str] = &[
    "tidemill-types",
    "tidemill-wire",
    "tidemill-env",
    "tidemill-flow",
    "tidemill-operators",
    "tidemill-connectors",
];
const ASYNC_RUNTIMES: &[&str] =
    &["tokio", "async-std", "smol", "futures", "futures-util", "async-trait"];

type Table = BTreeMap<String, BTreeSet<String>>;

fn table(text: &str) -> Table {
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.filter_map(|line| line.split_once(':'))
        .map(|(name, deps)| {
            (name.trim().to_owned(), deps.split_whitespace().map(str::to_owned).collect())
        })
        .collect()
}

/// What a manifest depends on, by section: `x.workspace = true`, `x = …` or `[dependencies.x]`.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            inside = section.ends_with("dependencies");
            if let Some((before, name)) = section.rsplit_once('.')
                && before.ends_with("dependencies")
            {
                found.push(name.to_owned());
            }
        } else if inside
            && !line.starts_with('#')
            && let Some((name, _)) = line.split_once('=')
        {
            let name = name.split('.').next().expect("split yields one piece at least");
            found.push(name.trim().to_owned());
        }
    }
    found
}

/// Complaints about one manifest.
fn check(name: &str, manifest: &str, table: &Table) -> Vec<String> {
    let Some(allowed) = table.get(name) else {
        return vec![format!("{name}: has no row in layers.txt")];
    };
    let mut complaints = Vec::new();
    for used in dependencies(manifest) {
        if table.contains_key(&used) && !allowed.contains(&used) {
            complaints.push(format!("{name}: must not depend on {used}, see layers.txt"));
        }
        if SYNCHRONOUS.contains(&name) && ASYNC_RUNTIMES.contains(&used.as_str()) {
            complaints.push(format!("{name}: is synchronous, but depends on {used}"));
        }
    }
    complaints
}

#[test]
fn crates_depend_only_downwards() {
    let table = table(&tree::read("layers.txt"));
    let mut complaints = Vec::new();
    let mut seen = BTreeSet::new();
    for path in tree::files("crates", "Cargo.toml") {
        let name = path.split('/').nth(1).expect("crates/NAME/Cargo.toml").to_owned();
        let manifest = tree::read(&path);
        if !manifest.contains(&format!("name = \"{name}\"")) {
            complaints.push(format!("{path}: a folder is named as its crate"));
        }
        complaints.extend(check(&name, &manifest, &table));
        seen.insert(name);
    }
    let listed: BTreeSet<String> = table.keys().cloned().collect();
    complaints
        .extend(listed.difference(&seen).map(|name| format!("layers.txt: {name}: no such crate")));
    none(&complaints);
}

#[test]
fn the_table_has_no_way_back() {
    // A crate may only name crates of earlier rows: then no cycle and no sibling in both directions.
    let text = tree::read("layers.txt");
    let table = table(&text);
    let order: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name)
        .collect();
    let mut complaints = Vec::new();
    for (row, name) in order.iter().enumerate() {
        for used in &table[*name] {
            if !order[..row].contains(&used.as_str()) {
                complaints.push(format!("layers.txt: {name}: {used} is not in an earlier row"));
            }
        }
    }
    none(&complaints);
}

#[test]
fn a_sibling_is_refused_in_every_way_to_write_it() {
    let table = table("# c\na:\nb: a\nc: a\n");
    for manifest in [
        "[dependencies]\nb.workspace = true",
        "[dependencies]\nb = { path = \"../b\" }",
        "[dev-dependencies]\nb = \"1\"",
        "[build-dependencies]\n b .workspace=true",
        "[dependencies.b]\nworkspace = true",
        "[target.'cfg(unix)'.dependencies]\nb.workspace = true",
    ] {
        assert_eq!(check("c", manifest, &table).len(), 1, "{manifest}");
    }
    assert!(check("c", "[package]\nb = 1\n[dependencies]\na.workspace = true", &table).is_empty());
    assert_eq!(check("d", "", &table), ["d: has no row in layers.txt"]);
}
