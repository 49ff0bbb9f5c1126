//! The first rows of a sink as a table for a person: one line a row, columns that fit.

use comfy_table::Table;
use std::fmt::Write;
use tidemill::table::grid;
use tidemill_node::preview::Preview;

/// Width of a table where there is no terminal to ask, in characters.
const WIDTH: usize = 120;
/// Longest cell, in characters; a longer one is cut.
const CELL_CHARS_MAX: usize = 32;

/// A table with a title above it.
pub(super) fn render(preview: &Preview, rows_total: u64) -> String {
    let width = width(Table::new().width(), std::env::var("COLUMNS").ok().as_deref());
    let rows: Vec<Vec<String>> = preview
        .rows()
        .iter()
        .map(|row| row.iter().map(|cell| cut(cell.as_deref().unwrap_or("null"))).collect())
        .collect();
    let fitting = columns_that_fit(&preview.columns, &rows, width);
    let names: Vec<String> = preview.columns.iter().take(fitting).map(|it| cut(it)).collect();
    let shown = rows.len() as u64;
    let mut text = format!("{} ({}): ", preview.sink, preview.place);
    // Writing to a string cannot fail.
    let _ = match (shown < rows_total, rows_total) {
        (true, _) => write!(text, "the first {shown} of {rows_total} rows"),
        (false, 1) => write!(text, "1 row"),
        (false, _) => write!(text, "{rows_total} rows"),
    };
    let hidden: Vec<&str> = preview.columns.iter().skip(fitting).map(String::as_str).collect();
    if !hidden.is_empty() {
        let _ = write!(text, ", without {}", hidden.join(", "));
    }
    if shown > 0 {
        let _ = write!(text, "\n{}", grid(&names, &preview.numeric[..fitting], &rows));
    }
    text
}

/// The width of a table. Some terminals do not know their number of columns, and say 0.
fn width(of_terminal: Option<u16>, columns: Option<&str>) -> usize {
    let of_terminal = of_terminal.map(usize::from).filter(|width| *width > 0);
    let said = || columns?.parse().ok().filter(|width: &usize| *width > 0);
    of_terminal.or_else(said).unwrap_or(WIDTH)
}

fn cut(text: &str) -> String {
    if text.chars().count() <= CELL_CHARS_MAX {
        return text.to_owned();
    }
    text.chars().take(CELL_CHARS_MAX - 1).chain(['…']).collect()
}

/// Number of columns that fit side by side, at least one.
fn columns_that_fit(names: &[String], rows: &[Vec<String>], width: usize) -> usize {
    let chars = |text: &String| text.chars().count().min(CELL_CHARS_MAX);
    // A column has a space on both sides and a line behind; the first has a line before it too.
    let mut left = width.saturating_sub(1);
    let mut fitting = 0;
    for (index, name) in names.iter().enumerate() {
        let widest = rows.iter().map(|row| chars(&row[index])).max().unwrap_or(0);
        let needed = widest.max(chars(name)) + 3;
        if needed > left {
            break;
        }
        left -= needed;
        fitting += 1;
    }
    fitting.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_without_columns_is_asked_no_further() {
        assert_eq!(width(Some(80), Some("200")), 80);
        assert_eq!(width(Some(0), Some("200")), 200);
        assert_eq!(width(None, Some("200")), 200);
        for columns in [None, Some("0"), Some("wide"), Some("")] {
            assert_eq!(width(Some(0), columns), WIDTH);
            assert_eq!(width(None, columns), WIDTH);
        }
    }
}
