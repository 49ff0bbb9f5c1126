//! The HTTP side of a node: health, metrics, streams, and the writes of InfluxDB clients.
//!
//! ```text
//! socket ─▶ server ─▶ patient ─▶ guard ─▶ routes ─▶ streams │ append │ read │ influx │ health │ metrics
//!           connections, limits   Host, Origin      body: limits, deadline, gzip
//! ```
//!
//! Handlers wait for sockets and notifications; blocking work (the log, inflating) runs on threads that
//! may. `docs/http.md` is the reference, and `openapi.json`, which is served, has the same routes.
//!
//! Read in this order: [`server`], `routes`, `guard`, `body`, `append`, `read`, `influx`.
//!
//! Invariants: no request is answered 2xx for records that do not count yet; all bodies and answers
//! together take no more memory than [`super::HttpSettings::bodies_bytes`], but for one look at a
//! job's state at a time, which is bounded by itself; a request by a name
//! that is not the node's is refused.

mod append;
mod batch;
mod body;
mod cluster;
mod document;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod health;
mod influx;
mod jobs;
mod metrics;
mod parameters;
mod path;
mod position;
mod problem;
mod read;
mod render;
mod routes;
pub mod server;
mod slow_peers;
mod state;
mod states;
mod streams;

pub use server::Http;
