//! Rows as a table of characters, for a person.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

/// A table with a head. Columns that `numeric` marks are aligned to the right; a row has as many
/// cells as there are names.
#[must_use]
pub fn grid<S: ToString>(names: &[S], numeric: &[bool], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(names.iter().map(|name| shown(&name.to_string())));
    for row in rows {
        table.add_row(row.iter().zip(numeric).map(|(text, numeric)| {
            let side = if *numeric { CellAlignment::Right } else { CellAlignment::Left };
            Cell::new(shown(text)).set_alignment(side)
        }));
    }
    table.to_string()
}

/// A text that does nothing to a terminal and stays on its line, whatever somebody has written.
fn shown(text: &str) -> String {
    let one = |it: char| match it {
        it if it.is_control() => it.escape_default().to_string(),
        it => it.to_string(),
    };
    text.chars().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_does_nothing_to_a_terminal() {
        let rows = [vec!["\u{1b}[31mred\nof two".to_owned(), "grün".to_owned()]];
        let text = grid(&["a\tb", "c"], &[false, true], &rows);
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(text.contains(r"\u{1b}[31mred\nof two") && text.contains("grün"), "{text}");
        assert!(text.contains(r"a\tb"), "{text}");
    }
}
