//! The catalogue covers the functions that DataFusion has.

use super::*;
use std::collections::BTreeSet;

#[test]
fn rows_are_sorted_so_that_they_are_found() {
    assert!(table::TABLE.windows(2).all(|pair| pair[0].name < pair[1].name));
}

/// They ask for a file that DataFusion scans, or for a type that no source has.
const WITHOUT_VALUE: [&str; 4] =
    ["file_row_index", "input_file_name", "union_extract", "union_tag"];

#[test]
fn every_function_of_datafusion_that_has_a_value_has_a_row() {
    let plain = datafusion_functions::all_default_functions().into_iter();
    let nested = datafusion_functions_nested::all_default_nested_functions().into_iter();
    let there: BTreeSet<String> = plain.chain(nested).map(|it| it.name().to_owned()).collect();
    let listed: BTreeSet<String> = table::TABLE.iter().map(|row| row.name.to_owned()).collect();
    assert_eq!(there.difference(&listed).collect::<Vec<_>>(), WITHOUT_VALUE, "no row");
}
