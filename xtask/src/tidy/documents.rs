//! Documents: one title each, and no link that leads nowhere.

use super::{none, tree};

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

/// Complaints about the titles of one document.
fn titles(name: &str, text: &str) -> Vec<String> {
    let titles = prose(text).iter().filter(|(_, line)| line.starts_with("# ")).count();
    let first = text.lines().next().unwrap_or_default();
    let mut complaints = Vec::new();
    if !first.starts_with("# ") {
        complaints.push(format!("{name}:1: a document begins with its title, `# …`"));
    }
    if titles > 1 {
        complaints.push(format!("{name}: {titles} titles, but a document has one"));
    }
    complaints
}

#[test]
fn documents_have_one_title_and_links_that_lead_somewhere() {
    let mut complaints = Vec::new();
    for name in tree::files(".", ".md") {
        let text = tree::read(&name);
        complaints.extend(titles(&name, &text));
        let folder = tree::root().join(&name);
        let folder = folder.parent().expect("a file is in a folder");
        for (number, line) in prose(&text) {
            for target in links(line) {
                if !folder.join(target).exists() {
                    complaints.push(format!("{name}:{number}: no such file: {target}"));
                }
            }
        }
    }
    none(&complaints);
}

#[test]
fn titles_and_links_are_found() {
    assert!(titles("a.md", "# A\n\n```sh\n# not a title\n```\n").is_empty());
    assert_eq!(titles("a.md", "# A\n\n# B\n").len(), 1);
    assert_eq!(titles("a.md", "text\n").len(), 1);
    assert_eq!(links("see [a](b.md#c), [d](https://e.f) and [g](#h)"), ["b.md"]);
}
