//! Documents: one title each, and no link that leads nowhere.

/// Lines of a document, without those inside code fences.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((number + 1, line));
        }
    }
    lines
}

/// Targets of `[text](target)` that are files of this repository.
fn links(line: &str) -> Vec<&str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .map(|target| target.split('#').next().expect("split yields one piece at least"))
        .filter(|target| !target.is_empty() && !target.contains("://"))
        .collect()
}

/// Complaints about one document; `exists` says whether a folder has a file.
pub(super) fn offences(name: &str, text: &str, exists: &dyn Fn(&str, &str) -> bool) -> Vec<String> {
    let lines = prose(text);
    let mut offences = Vec::new();
    if !text.starts_with("# ") {
        offences.push(format!("{name}:1: a document begins with its title, `# …`"));
    }
    let titles = lines.iter().filter(|(_, line)| line.starts_with("# ")).count();
    if titles > 1 {
        offences.push(format!("{name}: {titles} titles, but a document has one"));
    }
    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
    for (number, line) in lines {
        for target in links(line).into_iter().filter(|target| !exists(folder, target)) {
            offences.push(format!("{name}:{number}: no such file: {target}"));
        }
    }
    offences
}

/// Complaints about sources that a document names and the repository does not have.
///
/// A name is a word in backticks that ends in `.rs`; it may leave out leading folders. Placeholders
/// are in capitals (`FORMAT.rs`), and the history of names is what a decision page is for.
pub(super) fn source_offences<'a>(
    name: &str,
    text: &str,
    sources: impl Iterator<Item = &'a String> + Clone,
) -> Vec<String> {
    let is_history = name.starts_with("docs/rfcs/") || name == "CHANGELOG.md";
    if is_history {
        return Vec::new();
    }
    let mut offences = Vec::new();
    for (number, line) in prose(text) {
        for word in line.split('`').skip(1).step_by(2).filter(|it| it.ends_with(".rs")) {
            let is_placeholder =
                word.contains(['{', '*', ' ']) || word.chars().any(|it| it.is_ascii_uppercase());
            let is_there =
                || sources.clone().any(|it| *it == word || it.ends_with(&format!("/{word}")));
            if !is_placeholder && !is_there() {
                offences.push(format!("{name}:{number}: no such source: {word}"));
            }
        }
    }
    offences
}

#[test]
fn a_source_that_is_named_is_there() {
    let sources = ["crates/tidemill-flow/src/runtime/inbox.rs".to_owned()];
    let count = |name: &str, text: &str| source_offences(name, text, sources.iter()).len();
    assert_eq!(count("a.md", "see `runtime/inbox.rs`, `inbox.rs` and `FORMAT.rs`\n"), 0);
    assert_eq!(count("a.md", "see `box.rs`\n"), 1);
    assert_eq!(count("docs/rfcs/a.md", "was `box.rs`\n"), 0);
}

#[test]
fn titles_and_links_are_found() {
    let count = |text: &str| offences("a.md", text, &|_, target| target == "b.md").len();
    assert_eq!(count("# A\n\n```sh\n# not a title\n```\n"), 0);
    assert_eq!(count("# A\n\n# B\n"), 1);
    assert_eq!(count("text\n"), 1);
    assert_eq!(count("# A\nsee [a](b.md#c), [d](https://e.f) and [g](#h)\n"), 0);
    assert_eq!(count("# A\nsee [a](c.md)\n"), 1);
}
