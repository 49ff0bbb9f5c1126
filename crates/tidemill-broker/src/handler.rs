//! Handlers of requests, a module for each subject.

pub(crate) mod acls;
pub(crate) mod blocking;
pub(crate) mod cluster;
pub(crate) mod configs;
pub(crate) mod fetch;
pub(crate) mod group;
pub(crate) mod list_offsets;
pub(crate) mod log_dirs;
pub(crate) mod metadata;
pub(crate) mod offsets;
pub(crate) mod once;
pub(crate) mod partitions;
pub(crate) mod produce;
pub(crate) mod quotas;
pub(crate) mod records;
pub(crate) mod replicas;
pub(crate) mod topics;
pub(crate) mod transaction;
pub(crate) mod twins;
