//! Model-checked protocols: small state machines that a checker walks through every interleaving.
//!
//! A model says less than the code and is checked for more: every order of messages, crashes, power
//! cuts and pauses within its bounds. Product code depends on nothing here; it mirrors the steps, and
//! its names are those of the model.
//!
//! | model | protocol | read beside it |
//! | --- | --- | --- |
//! | [`replication`] | a virtual log: shipping, acknowledging, change of set, sealing, promotion | `docs/rfcs/2026-11-29-replication.md` |
//!
//! `cargo test -p tidemill-models` checks small bounds in about a minute. `make models` checks larger
//! ones: it sets `TIDEMILL_MODELS=large`.
//!
//! Invariants:
//! - Every property of a model fails in at least one variant with a planted flaw. A property that no
//!   flaw violates checks nothing.

pub mod replication;
