//! The broker of one node: the log, served in the Kafka protocol.
