//! The files of the repository as texts by name; nothing else here reads the disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Where the repository's own sources are.
const ROOMS: &[&str] = &["crates", "fuzz", "xtask"];

fn root() -> PathBuf {
    // Read at run time: `env!` would keep the path of the checkout that first built this binary.
    let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR").expect("run through cargo");
    Path::new(&manifest_dir).parent().expect("xtask sits in the root").to_path_buf()
}

/// The rows of `layers.txt`: a crate, and those it may depend on.
pub(super) fn layers() -> BTreeMap<String, BTreeSet<String>> {
    let table = fs::read_to_string(root().join("layers.txt")).expect("layers.txt exists");
    table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(':'))
        .map(|(name, below)| (name.into(), below.split_whitespace().map(Into::into).collect()))
        .collect()
}

/// The folders of `crates/`; a folder is named as its crate.
pub(super) fn crates() -> BTreeSet<String> {
    fs::read_dir(root().join("crates"))
        .expect("the folder of crates")
        .map(|entry| entry.expect("a readable entry"))
        .filter(|entry| entry.path().join("Cargo.toml").exists())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// The manifest of a crate.
pub(super) fn manifest(name: &str) -> String {
    let path = root().join("crates").join(name).join("Cargo.toml");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every Rust file by its path from the root, with `/` between its parts.
pub(super) fn sources() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for room in ROOMS {
        gather(&root(), room, ".rs", &mut found);
    }
    found
}

/// Every Markdown file by its path from the root.
pub(super) fn documents() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    gather(&root(), "", ".md", &mut found);
    found
}

/// Every Python file of the tests by its path from the root.
pub(super) fn scripts() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    gather(&root(), "tests", ".py", &mut found);
    found
}

/// Returns true if a folder of the repository has this file.
pub(super) fn exists(folder: &str, target: &str) -> bool {
    root().join(folder).join(target).exists()
}

fn gather(root: &Path, folder: &str, ending: &str, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(root.join(folder)).expect("a readable folder") {
        let entry = entry.expect("a readable entry");
        let file = entry.file_name().to_string_lossy().into_owned();
        let name = if folder.is_empty() { file.clone() } else { format!("{folder}/{file}") };
        if entry.path().is_dir() {
            // Nothing that is built, fetched or hidden.
            if !matches!(file.as_str(), "target" | "data" | "node_modules")
                && !file.starts_with('.')
            {
                gather(root, &name, ending, found);
            }
        } else if name.ends_with(ending) {
            let text = fs::read_to_string(entry.path()).expect("a source is UTF-8");
            found.insert(name, text);
        }
    }
}
