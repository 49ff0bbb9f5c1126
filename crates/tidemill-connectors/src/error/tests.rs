//! Messages about names that a source does not have.

use super::*;

#[test]
fn a_column_that_is_not_there_is_refused_with_unseen_characters_and_the_nearest() {
    let columns = ["carrier", "dep_delay"];
    let of = |name: &str| {
        ConnectorError::no_column("f.csv", SchemaPlace::Column, name, columns.into_iter()).message
    };
    for (name, expected) in [
        (
            "dep_dely",
            "`f.csv` has no column `dep_dely`; did you mean `dep_delay`? It has: carrier, dep_delay",
        ),
        ("wheels", "`f.csv` has no column `wheels`. It has: carrier, dep_delay"),
        (
            "carrier\u{200b}",
            "`f.csv` has no column `carrier\u{200b}` (the name has U+200B (zero width space) as \
             character 8); did you mean `carrier`? It has: carrier, dep_delay",
        ),
        (
            "\u{feff}x",
            "`f.csv` has no column `\u{feff}x` (the name has U+FEFF (byte order mark) as character \
             1). It has: carrier, dep_delay",
        ),
        (
            "d\u{435}p_delay",
            "`f.csv` has no column `d\u{435}p_delay` (the name has U+0435 (Cyrillic letter) as \
             character 2); did you mean `dep_delay`? It has: carrier, dep_delay",
        ),
    ] {
        assert_eq!(of(name), expected);
    }
    let none = ConnectorError::no_column("f", SchemaPlace::Time, "t", [].into_iter());
    assert_eq!(none.message, "`f` has no column `t`. It has none");
}
