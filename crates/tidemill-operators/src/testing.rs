//! Tables of states, as text that tests compare.

use arrow_cast::display::{ArrayFormatter, FormatOptions};
use tidemill_flow::trial::Trial;

/// The rows of a table: values with spaces between, by slice.
pub(crate) fn shown(trial: &mut Trial, table: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (_, batch) in trial.rows(table) {
        let options = FormatOptions::new().with_null("null");
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|it| ArrayFormatter::try_new(it.as_ref(), &options).expect("a type with a text"))
            .collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = columns.iter().map(|it| it.value(row).to_string()).collect();
            lines.push(cells.join(" "));
        }
    }
    lines
}
