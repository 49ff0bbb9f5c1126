//! The checks, one file for each kind of thing checked.
//!
//! Every check gathers all its complaints before it fails, so that one run shows them all.

mod documents;
mod layers;
mod sources;
mod tree;

/// Fails with all complaints, one a line.
fn none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
