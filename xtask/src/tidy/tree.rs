//! The files of the repository, as names relative to its root with `/` between folders.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Folders that hold nothing of ours: builds, downloads and the data that `make run` fetches.
const SKIPPED: &[&str] = &["target", "data", ".git", ".venv", "node_modules", "__pycache__"];

/// The root of the checkout that runs the tests. Read at run time: `env!` would keep the path of the
/// checkout that first built this binary.
pub(super) fn root() -> PathBuf {
    let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR").expect("run through cargo");
    Path::new(&manifest_dir).parent().expect("xtask sits in the root").to_path_buf()
}

/// The text of a file.
pub(super) fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Names of all files below `folder` that end with `ending`, sorted.
pub(super) fn files(folder: &str, ending: &str) -> Vec<String> {
    let mut found = Vec::new();
    gather(&root().join(folder), ending, &mut found);
    found.sort();
    found
}

fn gather(folder: &Path, ending: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
        if path.is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                gather(&path, ending, found);
            }
        } else if name.ends_with(ending) {
            let inside = path.strip_prefix(root()).expect("inside the root");
            found.push(inside.to_string_lossy().replace('\\', "/"));
        }
    }
}
