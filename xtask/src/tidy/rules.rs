//! Rules for one manifest or one source: plain functions of a text.

/// Lines of one source file. Tests are excluded; they live in `tests.rs` beside the code.
const FILE_LINES_MAX: usize = 500;

/// Files that may contain `unsafe`, each of which lifts the lint with a reason.
pub(super) const UNSAFE_ALLOWED: &[&str] = &[
    "crates/tidemill/src/alloc.rs",
    "crates/tidemill-bench/src/allocator.rs",
    "crates/tidemill-env/src/real/mapping.rs",
    "crates/tidemill-state/src/prefetch.rs",
];

/// Crates that may touch the disk without asking `env::Disk`: the one that gives it to the others,
/// and the edge, which reads job files and `/proc`.
const DISK_ALLOWED: &[&str] =
    &["crates/tidemill-env/", "crates/tidemill/", "crates/tidemill-bench/", "fuzz/", "xtask/"];

/// Calls that touch the disk without `env::Disk`.
const DISK_CALLS: &[&str] = &[
    "std::fs",
    "fs::read(",
    "fs::read_to_string(",
    "fs::write(",
    "File::open(",
    "File::create(",
    "OpenOptions",
];

/// Crates that a simulation runs: it must see their threads wait.
const SIMULATED: &[&str] = &[
    "crates/tidemill-checkpoints/src/",
    "crates/tidemill-client/src/",
    "crates/tidemill-cluster/src/",
    "crates/tidemill-cluster/src/",
    "crates/tidemill-coord/src/",
    "crates/tidemill-flow/src/",
    "crates/tidemill-log/src/",
    "crates/tidemill-replica/src/",
    "crates/tidemill-state/src/",
];

/// Types that make threads wait for each other.
const WAITS: &[&str] = &["Mutex", "Condvar", "RwLock", "Barrier", "mpsc", "atomic"];

/// Work that was left. In two pieces, so that this file passes its own check.
const LEFTOVERS: &[&str] = &[
    concat!("FIX", "ME"),
    concat!("TO", "DO"),
    concat!("XX", "X "),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
    concat!("#[ig", "nore"),
];

/// Names that say nothing about the contents of a file.
const EMPTY_NAMES: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc"];

/// The crates that the section `[dependencies]` of a manifest names.
pub(super) fn dependencies(manifest: &str) -> Vec<String> {
    section(manifest, |it| it == "[dependencies]")
        .map(|line| line.split(['.', ' ', '=']).next().unwrap_or(line).to_owned())
        .collect()
}

/// Dependencies of any kind that do not take their version from the workspace.
pub(super) fn own_versions(manifest: &str) -> Vec<String> {
    section(manifest, |it| it.ends_with("dependencies]"))
        .filter(|line| line.contains('=') && !line.contains("workspace = true"))
        .map(str::to_owned)
        .collect()
}

/// The lines of the sections whose head is wanted, without blanks and comments.
fn section<'a>(
    manifest: &'a str,
    wanted: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<Item = &'a str> {
    let mut inside = false;
    manifest.lines().map(str::trim).filter(move |line| {
        if line.starts_with('[') {
            inside = wanted(line);
            return false;
        }
        inside && !line.is_empty() && !line.starts_with('#')
    })
}

/// Returns true for a path of tests, which may be long and may lay out files by hand.
fn is_test(name: &str) -> bool {
    name.ends_with("/tests.rs") || name.contains("/tests/") || name.contains("/benches/")
}

/// The offences of one source.
pub(super) fn offences(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    if !text.starts_with("//!") {
        found.push("no `//!` header on its first line: say what it is, and its invariants".into());
    }
    let line_count = text.lines().count();
    if !is_test(name) && line_count > FILE_LINES_MAX {
        let limit = FILE_LINES_MAX;
        found.push(format!("{line_count} lines, {limit} allowed: which is the second idea?"));
    }
    for leftover in LEFTOVERS.iter().filter(|it| text.contains(**it)) {
        found.push(format!("a leftover {}", leftover.trim()));
    }
    if has_unsafe(text) && !UNSAFE_ALLOWED.contains(&name) {
        found.push("`unsafe` outside the files allowed in xtask/src/tidy/rules.rs".into());
    }
    if let Some(empty) = name.split(['/', '.', '-', '_']).find(|it| EMPTY_NAMES.contains(it)) {
        found.push(format!("`{empty}` says nothing of what is inside: name the idea"));
    }
    if let Some(module) = empty_module(text) {
        found.push(format!("module `{module}` says nothing of what is inside: name the idea"));
    }
    let disk_is_env = !is_test(name) && !DISK_ALLOWED.iter().any(|it| name.starts_with(it));
    if let Some(call) =
        DISK_CALLS.iter().find(|it| disk_is_env && code(text).any(|l| l.contains(**it)))
    {
        found.push(format!("`{call}` touches the disk: ask env::Disk"));
    }
    let simulated = !name.contains("tests") && SIMULATED.iter().any(|it| name.starts_with(it));
    if let Some(wait) = hidden_wait(text).filter(|_| simulated) {
        found.push(format!(
            "`{wait}` of `std` is not seen by simulations: tidemill_env::sync has it"
        ));
    }
    if simulated && names_std_thread(text) {
        found
            .push("`std::thread` is not seen by simulations: ask env::Spawn and env::Clock".into());
    }
    found
}

/// Returns true if a source starts, stops or yields threads of the system by itself.
fn names_std_thread(text: &str) -> bool {
    let product = text.split("mod tests {").next().unwrap_or(text);
    let text = code(product).collect::<Vec<_>>().join(" ");
    let mut uses = text.split(';').filter_map(|it| it.rsplit_once("use std::{").map(|it| it.1));
    let is_thread = |it: &str| matches!(it.trim_end_matches('}'), "thread" | "thread::self");
    let names = |group: &str| group.split([',', '{', ' ']).any(|it| is_thread(it.trim()));
    text.contains("std::thread::") || text.contains("use std::thread;") || uses.any(names)
}

/// The first type of `std::sync` in a source that makes threads wait.
fn hidden_wait(text: &str) -> Option<&'static str> {
    let uses = text.split(';').filter_map(|it| it.rsplit_once("use std::").map(|(_, rest)| rest));
    let of_sync = uses.filter_map(|it| it.split_once("sync::").map(|(_, rest)| rest));
    let inline = text.split("std::sync::").skip(1).map(|it| it.split(['(', ';', '<']).next());
    let mut all = of_sync.chain(inline.flatten());
    all.find_map(|it| WAITS.iter().copied().find(|wait| it.contains(wait)))
}

/// The lines that are not comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.starts_with("//"))
}

pub(super) fn has_unsafe(text: &str) -> bool {
    const FORMS: &[&str] = &[
        concat!("unsafe", " {"),
        concat!("unsafe", " impl"),
        concat!("unsafe", " fn"),
        concat!("unsafe", " extern"),
    ];
    code(text).any(|line| FORMS.iter().any(|form| line.contains(form)))
}

/// The first module declared here whose name is one of the empty ones.
fn empty_module(text: &str) -> Option<&str> {
    code(text)
        .filter_map(|line| line.split_once("mod ").map(|(_, rest)| rest))
        .filter_map(|rest| rest.split([';', ' ', '{']).next())
        .find(|name| EMPTY_NAMES.contains(name))
}
