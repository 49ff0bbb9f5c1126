//! Checks of the repository that are not about behaviour. They run as ordinary tests: `cargo test -p xtask`.
//!
//! Read in this order: `tidy::tree`, `tidy::layers`, `tidy::sources`, `tidy::documents`.

#[cfg(test)]
mod tidy;

/// The checks are tests; there is nothing to run.
fn main() {
    eprintln!("the checks of this crate are tests: cargo test -p xtask");
}
