//! The native client: producer, consumer, admin, over the Kafka protocol.
