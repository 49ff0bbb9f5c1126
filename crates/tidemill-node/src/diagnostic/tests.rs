//! Rendering of diagnostics and the choice of the nearest name.

use super::*;

#[test]
fn nearest_is_a_slip_of_the_finger_or_nothing() {
    let names = ["carrier", "dep_delay", "distance"];
    assert_eq!(nearest("dep_dely", names), Some("dep_delay"));
    assert_eq!(nearest("Carrier", names), Some("carrier"));
    assert_eq!(nearest("zzz", names), None);
    assert_eq!(nearest("carrier", names), None, "an exact name is not a guess");
    assert_eq!(nearest("x", []), None);
}

#[test]
fn a_long_line_is_cut_round_the_column() {
    let line = format!("{}WRONG{}", "a".repeat(500), "b".repeat(500));
    let diagnostic = Diagnostic {
        file: "j".to_owned(),
        place: Some(TextPlace { line: 7, column: 501 }),
        line: Some(line),
        problem: Problem::new(["x"], "bad"),
    };
    let text = diagnostic.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "j:7:501: error: bad");
    let caret = lines[2].find('^').expect("a caret");
    assert_eq!(&lines[1][caret..caret + 5], "WRONG");
    assert!(lines[1].len() < 140, "{}", lines[1].len());
}

#[test]
fn a_line_is_shown_without_its_password() {
    let line = "  x: {url: \"postgresql://u:hunter2@h/db\", tabel: t}";
    let column = u32::try_from(line.find("tabel").expect("it is there")).expect("a short line") + 1;
    let diagnostic = Diagnostic {
        file: "j".to_owned(),
        place: Some(TextPlace { line: 7, column }),
        line: Some(line.to_owned()),
        problem: Problem::new(["x"], "bad"),
    };
    let text = diagnostic.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert!(!text.contains("hunter2"), "{text}");
    let caret = lines[2].find('^').expect("a caret");
    assert_eq!(&lines[1][caret..caret + 5], "tabel");
}

#[test]
fn one_of_reads_as_a_sentence() {
    assert_eq!(one_of(&["a"]), "`a`");
    assert_eq!(one_of(&["a", "b"]), "one of `a`, `b`");
    let many: Vec<String> = (0..30).map(|n| format!("c{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(one_of(&many).ends_with("`c23` and 6 more"), "{}", one_of(&many));
}

#[test]
fn an_unseen_character_is_named_in_a_suggestion() {
    let names = ["id", "price", "\u{feff}first"];
    let shown = |given: &str| {
        let problem = Problem::new(["x"], format!("unknown column `{given}`"));
        let problem = problem.one_of(given, names);
        Diagnostic { file: "j".to_owned(), place: None, line: None, problem }.to_string()
    };
    for (given, expected) in [
        ("i\u{200b}d", "U+200B (zero width space) as character 2), expected"),
        ("pric\u{435}", "U+0435 (Cyrillic letter) as character 5), expected"),
        ("\u{456}\u{501}", "U+0456 (Cyrillic letter) as character 1, U+0501"),
        (
            "first",
            "did you mean `\u{feff}first`? (the name has U+FEFF (byte order mark) as character 1)",
        ),
        ("\u{200b}", "U+200B (zero width space) as character 1), expected"),
    ] {
        let text = shown(given);
        assert!(text.contains(expected), "{given:?}: {text}");
        assert_eq!(text.contains("did you mean"), given != "\u{200b}", "{text}");
    }
    assert!(!shown("pirce").contains("U+"), "{}", shown("pirce"));
}
