//! Topics of other Kafka clusters as sources and sinks.
//!
//! ```text
//! brokers ─▶ Consumer: fetches ahead ─▶ KafkaFeed, one a partition ─▶ Slice ─▶ batch
//!            its threads, bounded         wakes its slice
//! blocks ─▶ rows ─▶ commit(c): Transactions, or Producer ─▶ brokers
//! ```
//!
//! The protocol is spoken by `tidemill_client`; what a record becomes, and how rows become records,
//! is what the streams of this process's log do (`stream`).

mod cluster;
mod feed;
mod sink;
mod source;
#[cfg(test)]
mod testing;

pub use sink::KafkaSink;
pub use source::KafkaSource;
