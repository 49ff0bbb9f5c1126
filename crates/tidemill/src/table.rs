//! Rows as a table of characters, for a person.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

/// A table with a head. Columns that `numeric` marks are aligned to the right; a row has as many
/// cells as there are names.
#[must_use]
pub fn grid<S: ToString>(names: &[S], numeric: &[bool], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(names.iter().map(ToString::to_string));
    for row in rows {
        table.add_row(row.iter().zip(numeric).map(|(text, numeric)| {
            let side = if *numeric { CellAlignment::Right } else { CellAlignment::Left };
            Cell::new(text).set_alignment(side)
        }));
    }
    table.to_string()
}
