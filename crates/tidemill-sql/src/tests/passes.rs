//! The order of passes, as the documentation has it.

use crate::passes::table;

#[test]
fn the_documentation_shows_the_passes_in_their_order() {
    let page = include_str!("../../../../docs/internals/sql.md");
    assert!(page.contains(&table()), "docs/internals/sql.md is to have:\n{}", table());
}
