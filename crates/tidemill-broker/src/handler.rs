//! Handlers of requests, a module for each subject.

pub(crate) mod acls;
pub(crate) mod cluster;
pub(crate) mod configs;
pub(crate) mod duplicates;
pub(crate) mod fetch;
pub(crate) mod group;
pub(crate) mod list_offsets;
pub(crate) mod log_dirs;
pub(crate) mod metadata;
pub(crate) mod name_collision;
pub(crate) mod offsets;
pub(crate) mod partitions;
pub(crate) mod produce;
pub(crate) mod quotas;
pub(crate) mod records;
pub(crate) mod replicas;
pub(crate) mod thread_pool;
pub(crate) mod topics;
pub(crate) mod transaction;
