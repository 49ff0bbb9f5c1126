//! Topics of other Kafka clusters as sources and sinks.
//!
//! ```text
//! brokers ─▶ Consumer: fetches ahead ─▶ KafkaFeed, one a partition ─▶ Slice ─▶ batch
//!            its threads, bounded         wakes its slice
//! blocks ─▶ rows ─▶ commit(c): Transactions, or Producer ─▶ brokers
//! ```
//!
//! `tidemill_client` speaks the protocol. Records become rows, and rows records, as for the streams of this
//! process's log (`stream`).

mod cluster;
mod feed;
mod sink;
mod source;
#[cfg(test)]
mod testing;

pub use sink::KafkaSink;
