//! Every kind of unseen character is named, and nothing else is.

use super::*;

#[test]
fn an_unseen_character_is_named_by_its_code_point() {
    for (name, expected) in [
        ("ab\u{200b}c", "U+200B (zero width space) as character 3"),
        ("\u{feff}id", "U+FEFF (byte order mark) as character 1"),
        ("a\u{a0}b", "U+00A0 (no-break space) as character 2"),
        ("a\u{202f}b", "U+202F (narrow no-break space) as character 2"),
        ("id\u{200e}", "U+200E (left-to-right mark) as character 3"),
        ("\u{202e}di", "U+202E (bidirectional control) as character 1"),
        ("a\u{3000}b", "U+3000 (space) as character 2"),
        ("a\u{7}b", "U+0007 (control character) as character 2"),
        ("pric\u{435}", "U+0435 (Cyrillic letter) as character 5"),
        ("\u{3bf}ne", "U+03BF (Greek letter) as character 1"),
        ("\u{ff49}d", "U+FF49 (full-width form) as character 1"),
        ("a\u{2010}b", "U+2010 (not the ASCII sign) as character 2"),
        ("cafe\u{301}", "U+0301 (combining mark) as character 5"),
        ("a\u{2062}b", "U+2062 (invisible) as character 2"),
    ] {
        assert_eq!(unseen(name, None).as_deref(), Some(expected), "{name:?}");
        assert_eq!(note(name, None), format!(" (the name has {expected})"));
    }
    let many = unseen(&"\u{200b}".repeat(5), None).expect("five of them");
    assert!(many.ends_with("as character 3 and 2 more"), "{many}");
}

#[test]
fn a_name_that_can_be_seen_has_no_note() {
    for name in ["", "id", "a b", "größe", "цена", "τιμή", "価格", "a-b", "naïve"] {
        assert_eq!(unseen(name, None), None, "{name}");
        assert_eq!(note(name, None), "");
    }
    // A word of another script beside one in ASCII: one was taken for the other.
    assert!(unseen("сор", Some("cop")).is_some_and(|it| it.starts_with("U+0441 (Cyrillic")));
}

#[test]
fn names_that_look_alike_are_known() {
    for (a, b) in [
        ("id", "\u{feff}id"),
        ("сор", "cop"),
        ("pric\u{435}", "price"),
        ("\u{ff49}\u{ff44}", "id"),
        ("a\u{2212}b", "a-b"),
        ("\u{200b}x\u{200b}", "x"),
    ] {
        assert!(look_alike(a, b) && look_alike(b, a), "{a:?} {b:?}");
    }
    for (a, b) in [("id", "id"), ("id", "ID"), ("a b", "ab"), ("é", "e")] {
        assert!(!look_alike(a, b), "{a:?} {b:?}");
    }
    assert_eq!(suggestion("id"), "did you mean `id`?");
    let marked = suggestion("\u{feff}id");
    assert!(
        marked.ends_with("? (the name has U+FEFF (byte order mark) as character 1)"),
        "{marked}"
    );
}
