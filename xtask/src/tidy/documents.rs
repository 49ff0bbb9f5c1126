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

#[test]
fn titles_and_links_are_found() {
    let count = |text: &str| offences("a.md", text, &|_, target| target == "b.md").len();
    assert_eq!(count("# A\n\n```sh\n# not a title\n```\n"), 0);
    assert_eq!(count("# A\n\n# B\n"), 1);
    assert_eq!(count("text\n"), 1);
    assert_eq!(count("# A\nsee [a](b.md#c), [d](https://e.f) and [g](#h)\n"), 0);
    assert_eq!(count("# A\nsee [a](c.md)\n"), 1);
}
