//! The table in an etcd cluster, spoken to by etcd's HTTP and JSON gateway.
//!
//! ```text
//! list, commit, leases ─▶ EtcdGateway ─ POST /v3/… ─▶ the first address that answers
//! watch ─▶ a thread of its own ─ POST /v3/watch, a stream of lines ─▶ channel ─▶ changes
//! ```
//!
//! The gateway needs neither `protoc` nor an asynchronous runtime, and the coordinator's traffic is a few
//! requests a second. All keys stand under `tidemill/`, so an etcd cluster may be shared.
//!
//! Invariants:
//! - A commit is sent once: if its answer is lost, the caller learns that the outcome is unknown.
//! - The revision and the id of the etcd cluster never change under a handle: a wiped etcd is
//!   [`CoordinatorError::Replaced`], never an empty table.
//! - A watch reconnects by itself after the last revision it delivered.

mod gateway;
mod message;
mod watch;

#[cfg(all(test, feature = "servers"))]
mod tests;

use crate::{
    coordinator::{Coordinator, Watch, check_ttl},
    error::CoordinatorError,
    key::{Key, LeaseId, Revision},
    transaction::{CommitOutcome, Comparison, KeyValue, Listing, Transaction, Write},
};
use gateway::EtcdGateway;
use message::{
    Compare, DeleteRequest, KeepAliveAnswer, LeaseAnswer, LeaseRequest, PutRequest, RangeAnswer,
    RangeRequest, StreamItem, TxnAnswer, TxnOperation, TxnRequest,
};
use std::{sync::Arc, time::Duration};
use tidemill_env::World;

/// Before each key in etcd.
const ROOT: &str = "tidemill/";

/// How to reach an etcd cluster.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// Addresses such as `http://127.0.0.1:2379`, tried in turn.
    pub addresses: Vec<String>,
    /// Longest time of a request, connecting included. Default 5 s.
    pub timeout: Duration,
    /// PEM text of the authorities to trust with `https://`; none: those of the system.
    pub authorities: Option<Vec<u8>>,
}

impl EtcdOptions {
    /// Options for these addresses, comma separated.
    ///
    /// # Errors
    /// [`CoordinatorError::Invalid`] names an address that is none.
    pub fn new(addresses: &str) -> Result<Self, CoordinatorError> {
        let addresses: Vec<String> =
            addresses.split(',').map(|it| it.trim().trim_end_matches('/').to_owned()).collect();
        for address in &addresses {
            let authority =
                address.strip_prefix("http://").or_else(|| address.strip_prefix("https://"));
            if authority.is_none_or(|it| it.is_empty() || it.contains('/')) {
                return Err(CoordinatorError::Invalid(format!(
                    "etcd address {address:?}: expected http://HOST:PORT or https://HOST:PORT"
                )));
            }
        }
        Ok(Self { addresses, timeout: Duration::from_secs(5), authorities: None })
    }
}

/// The table in an etcd cluster.
pub struct EtcdCoordinator {
    gateway: Arc<EtcdGateway>,
}

impl EtcdCoordinator {
    /// A handle. Nothing is sent before the first call.
    ///
    /// # Errors
    /// [`CoordinatorError::Invalid`] if the authorities are not PEM.
    pub fn new(world: &World, options: EtcdOptions) -> Result<Self, CoordinatorError> {
        Ok(Self { gateway: Arc::new(EtcdGateway::new(world, options)?) })
    }

    /// The newest revision of etcd. The key that it reads is never written.
    fn revision(&self) -> Result<Revision, CoordinatorError> {
        let request = RangeRequest { key: stored(""), range_end: Vec::new() };
        let answer: RangeAnswer = self.gateway.read("kv/range", &request)?;
        self.gateway.observe(&answer.header)
    }
}

/// A key as etcd has it.
fn stored(key: &str) -> Vec<u8> {
    format!("{ROOT}{key}").into_bytes()
}

/// The key of bytes that etcd has, if it is one of ours.
fn key_of(stored: &[u8]) -> Result<Key, CoordinatorError> {
    let text = std::str::from_utf8(stored).ok().and_then(|it| it.strip_prefix(ROOT));
    let text = text.ok_or_else(|| {
        CoordinatorError::Unavailable(format!("etcd answers with a foreign key: {stored:?}"))
    })?;
    Key::new(text)
}

/// The first key behind all that begin with a prefix.
fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    // The root is ASCII, so some byte can be raised.
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            break;
        }
    }
    end
}

fn lease_text(lease: Option<LeaseId>) -> Option<String> {
    lease.map(|it| it.0.to_string())
}

impl Coordinator for EtcdCoordinator {
    fn list(&self, prefix: &str) -> Result<Listing, CoordinatorError> {
        let key = stored(prefix);
        let request = RangeRequest { range_end: prefix_end(&key), key };
        let answer: RangeAnswer = self.gateway.read("kv/range", &request)?;
        let revision = self.gateway.observe(&answer.header)?;
        let mut entries = Vec::with_capacity(answer.kvs.len());
        for kv in answer.kvs {
            entries.push(KeyValue {
                key: key_of(&kv.key)?,
                value: kv.value,
                modified: Revision(kv.mod_revision),
                lease: (kv.lease != 0).then_some(LeaseId(kv.lease)),
            });
        }
        Ok(Listing { revision, entries })
    }

    fn get(&self, key: &Key) -> Result<Option<KeyValue>, CoordinatorError> {
        let request = RangeRequest { key: stored(key.as_str()), range_end: Vec::new() };
        let answer: RangeAnswer = self.gateway.read("kv/range", &request)?;
        self.gateway.observe(&answer.header)?;
        let found = answer.kvs.into_iter().next();
        Ok(found.map(|kv| KeyValue {
            key: key.clone(),
            value: kv.value,
            modified: Revision(kv.mod_revision),
            lease: (kv.lease != 0).then_some(LeaseId(kv.lease)),
        }))
    }

    fn commit(&self, transaction: &Transaction) -> Result<CommitOutcome, CoordinatorError> {
        transaction.check()?;
        let compare = |it: &Comparison| Compare {
            target: "MOD",
            result: "EQUAL",
            key: stored(it.key.as_str()),
            mod_revision: it.modified.0.to_string(),
        };
        let write = |it: &Write| match it {
            Write::Put { key, value, lease } => TxnOperation::Put(PutRequest {
                key: stored(key.as_str()),
                value: value.clone(),
                lease: lease_text(*lease),
            }),
            Write::Delete { key } => {
                TxnOperation::DeleteRange(DeleteRequest { key: stored(key.as_str()) })
            }
        };
        let request = TxnRequest {
            compare: transaction.comparisons.iter().map(compare).collect(),
            success: transaction.writes.iter().map(write).collect(),
        };
        let lease = transaction.writes.iter().find_map(|it| match it {
            Write::Put { lease, .. } => *lease,
            Write::Delete { .. } => None,
        });
        let answer: TxnAnswer = self.gateway.change("kv/txn", &request, lease)?;
        let revision = self.gateway.observe(&answer.header)?;
        Ok(if answer.succeeded {
            CommitOutcome::Applied(revision)
        } else {
            CommitOutcome::Refused(revision)
        })
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, CoordinatorError> {
        let newest = self.revision()?;
        if after > newest {
            return Err(CoordinatorError::Replaced { known: after, found: newest });
        }
        Ok(Box::new(watch::EtcdWatch::start(&self.gateway, prefix, after)))
    }

    fn grant_lease(&self, ttl: Duration) -> Result<LeaseId, CoordinatorError> {
        check_ttl(ttl)?;
        let seconds = ttl.as_millis().div_ceil(1_000);
        let request = LeaseRequest { id: None, ttl: Some(seconds.to_string()) };
        let answer: LeaseAnswer = self.gateway.change("lease/grant", &request, None)?;
        Ok(LeaseId(answer.id))
    }

    fn keep_alive(&self, lease: LeaseId) -> Result<(), CoordinatorError> {
        let request = LeaseRequest { id: lease_text(Some(lease)), ttl: None };
        let answer: StreamItem<KeepAliveAnswer> = self.gateway.read("lease/keepalive", &request)?;
        let lives = answer.result.is_some_and(|it| it.ttl > 0);
        if lives { Ok(()) } else { Err(CoordinatorError::LeaseExpired(lease)) }
    }

    fn revoke_lease(&self, lease: LeaseId) -> Result<(), CoordinatorError> {
        let request = LeaseRequest { id: lease_text(Some(lease)), ttl: None };
        let answer: Result<LeaseAnswer, _> =
            self.gateway.change("lease/revoke", &request, Some(lease));
        match answer {
            Ok(_) | Err(CoordinatorError::LeaseExpired(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn addresses_are_checked_one_by_one() {
        let options = EtcdOptions::new("http://127.0.0.1:2379, https://etcd:2379/").expect("two");
        assert_eq!(options.addresses, ["http://127.0.0.1:2379", "https://etcd:2379"]);
        for wrong in ["", "127.0.0.1:2379", "http://", "http://a,ftp://b", "http://a/v3"] {
            assert!(EtcdOptions::new(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_prefix_ends_where_its_last_key_does() {
        assert_eq!(prefix_end(b"ab"), b"ac");
        assert_eq!(prefix_end(b"a\xff"), b"b");
        assert_eq!(key_of(b"tidemill/nodes/1").map(String::from).as_deref(), Ok("nodes/1"));
        assert!(key_of(b"other/nodes/1").is_err());
    }
}
