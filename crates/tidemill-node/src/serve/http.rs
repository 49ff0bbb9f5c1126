//! The HTTP side of a node: health, metrics, streams.
//!
//! Read in this order: [`server`] (connections), `routes`.

mod routes;
pub mod server;

pub use server::Http;
