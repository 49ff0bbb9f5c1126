//! Registration: the transaction that draws an incarnation for a node and gives it the node's id.
//!
//! ```text
//! list ─▶ RegistrationStep ┬ GrantLease: nothing is in the way
//!                          ├ Commit: counter + 1, nodes/ID, live/ID under the lease, as one commit
//!                          ├ Registered: an earlier commit was applied, and its answer was lost
//!                          └ Wait: another process may still have the id, or no cluster is there
//! ```
//!
//! The commit compares the counter, so an incarnation is drawn once. A caller uses an incarnation
//! only after the coordinator has said, by an answer or by a reading, that it is in the table. A lease
//! is granted to one process, so the lease of `live/ID` tells a commit of its own from another's.
//!
//! Invariant: nothing here reads a clock, takes a lock or calls the coordinator.

use super::record::{
    ClusterRecord, DesiredState, IncarnationsRecord, LiveRecord, NODES_MAX, NodeAddresses,
    NodeRecord, NodeRole, RecordKey, TableRecord, decode, encode,
};
use crate::{
    error::CoordinatorError,
    key::{LeaseId, Revision},
    transaction::{KeyValue, Listing, Transaction},
};
use std::collections::BTreeSet;
use tidemill_types::{ClusterId, Incarnation, NodeId};

/// The description with which a node registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeProfile {
    /// The node's id.
    pub node: NodeId,
    /// The node's addresses.
    pub addresses: NodeAddresses,
    /// The node's duties.
    pub roles: BTreeSet<NodeRole>,
    /// The rack of the node. Default none.
    pub rack: Option<String>,
    /// The version of the node's program.
    pub build: String,
    /// The cluster that the node's data folder is of; none: the folder is new.
    pub cluster: Option<ClusterId>,
    /// The newest incarnation that the node's data folder has seen. It is below every one that this
    /// node draws. Default 0.
    pub last_incarnation: Incarnation,
    /// True if the node may begin a new cluster in an empty table. Default false.
    pub can_create: bool,
}

/// The reason why a node cannot join.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// Another process has the id.
    #[error(
        "node id {node} is in use by incarnation {incarnation}{}: give this node another id, or stop the other and wait until its lease ends",
        at(address.as_deref())
    )]
    IdInUse {
        /// The id.
        node: NodeId,
        /// The address of the other process, for other nodes.
        address: Option<String>,
        /// The incarnation of the other process.
        incarnation: Incarnation,
        /// The lease of the other process.
        lease: Option<LeaseId>,
    },
    /// The data folder is of another cluster.
    #[error(
        "the data folder is of cluster {expected}, the coordinator's table of cluster {found}: use the coordinator of {expected}, or a new data folder"
    )]
    OtherCluster {
        /// The cluster of the data folder.
        expected: ClusterId,
        /// The cluster of the table.
        found: ClusterId,
    },
    /// The table is not the one that the node knew.
    #[error(
        "{0}. This node changes nothing until a person has looked: restore the coordinator's table, or start a new cluster in new data folders"
    )]
    Replaced(String),
    /// An operator has taken the node out of the cluster.
    #[error(
        "node {0} is decommissioned: cancel that, or give this machine another id and a new data folder"
    )]
    Decommissioned(NodeId),
    /// A record of the table cannot be read.
    #[error("record {key} of the coordinator cannot be read: {why}")]
    Unreadable {
        /// The key of the record.
        key: String,
        /// The offence.
        why: String,
    },
    /// A limit of the cluster is reached.
    #[error("{0}")]
    Full(String),
    /// A setting of this node breaks a rule of the records.
    #[error("this node's {0}")]
    Invalid(String),
    /// The coordinator has failed for good.
    #[error(transparent)]
    Coordinator(CoordinatorError),
    /// The node was stopped before it had joined.
    #[error("the node was stopped before it had joined")]
    Stopped,
}

fn at(address: Option<&str>) -> String {
    address.map_or_else(String::new, |it| format!(" at {it}"))
}

/// A life of a node in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The cluster.
    pub cluster: ClusterId,
    /// The node's incarnation.
    pub incarnation: Incarnation,
    /// The revision at which it took the id. A view of this revision or a later one has it.
    pub revision: Revision,
}

/// The next step of a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistrationStep {
    /// The node may register: get a lease, and ask again with it.
    GrantLease,
    /// Commit this. If it is applied, the node is registered at its revision.
    Commit {
        /// The transaction.
        transaction: Transaction,
        /// The cluster that it is of.
        cluster: ClusterId,
        /// The incarnation that it draws.
        incarnation: Incarnation,
    },
    /// An earlier transaction of this process is in the table.
    Registered(Registered),
    /// List again later.
    Wait(WaitReason),
}

/// The thing that a registration waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// No cluster is in the table, and this node may not begin one.
    NoCluster,
    /// The id is held by a process that may be dead. The error is for the case that it lives on.
    IdHeld(JoinError),
}

/// The lease that a node registers under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistrationLease {
    /// The node is alone: nothing watches its life.
    Alone,
    /// The node registers under a lease that is not granted yet.
    Wanted,
    /// The node registers under this lease, which was granted to this process.
    Granted(LeaseId),
}

impl RegistrationLease {
    /// The lease, if there is one.
    #[must_use]
    pub fn id(self) -> Option<LeaseId> {
        if let Self::Granted(lease) = self { Some(lease) } else { None }
    }
}

/// The facts of the moment that a registration depends on.
#[derive(Clone, Copy, Debug)]
pub struct RegistrationTerms<'a> {
    /// The node.
    pub profile: &'a NodeProfile,
    /// The lease to register under.
    pub lease: RegistrationLease,
    /// The newest revision that this process has seen.
    pub known: Revision,
    /// The id of a new cluster, if this node begins one.
    pub new_cluster: &'a ClusterId,
}

/// A record of a listing, and the entry that it was read from.
type FoundRecord<'a, T> = Option<(T, &'a KeyValue)>;

fn read<T: TableRecord>(
    listing: &Listing,
    place: RecordKey,
) -> Result<FoundRecord<'_, T>, JoinError> {
    let key = place.key();
    let Some(entry) = listing.entries.iter().find(|it| it.key == key) else { return Ok(None) };
    match decode(&entry.value) {
        Ok(record) => Ok(Some((record, entry))),
        Err(error) => Err(JoinError::Unreadable { key: key.to_string(), why: error.to_string() }),
    }
}

fn modified<T>(found: &FoundRecord<'_, T>) -> Revision {
    found.as_ref().map_or(Revision::NONE, |(_, entry)| entry.modified)
}

/// The records of a listing that a registration reads.
struct Found<'a> {
    cluster: FoundRecord<'a, ClusterRecord>,
    counter: FoundRecord<'a, IncarnationsRecord>,
    node: FoundRecord<'a, NodeRecord>,
    live: FoundRecord<'a, LiveRecord>,
}

/// The next step of a registration, from a listing of the whole table.
///
/// # Errors
/// [`JoinError`] if the node cannot join until a person has changed something.
pub fn next_step(
    listing: &Listing,
    terms: &RegistrationTerms<'_>,
) -> Result<RegistrationStep, JoinError> {
    let profile = terms.profile;
    if listing.revision < terms.known {
        let (known, found) = (terms.known, listing.revision);
        let why = format!("the coordinator's table went back from revision {known} to {found}");
        return Err(JoinError::Replaced(why));
    }
    let found = Found {
        cluster: read(listing, RecordKey::Cluster)?,
        counter: read(listing, RecordKey::Incarnations)?,
        node: read(listing, RecordKey::Node(profile.node))?,
        live: read(listing, RecordKey::Live(profile.node))?,
    };
    let Some(cluster) = choose_cluster(&found, terms)? else {
        return Ok(RegistrationStep::Wait(WaitReason::NoCluster));
    };
    if let Some((live, entry)) = &found.live
        && terms.lease.id().is_some()
        && entry.lease == terms.lease.id()
    {
        let (incarnation, revision) = (live.incarnation, entry.modified);
        return Ok(RegistrationStep::Registered(Registered { cluster, incarnation, revision }));
    }
    if found.node.as_ref().is_some_and(|(it, _)| it.desired == DesiredState::Decommissioned) {
        return Err(JoinError::Decommissioned(profile.node));
    }
    if let Some(wait) = check_holder(&found, terms)? {
        return Ok(RegistrationStep::Wait(wait));
    }
    if found.node.is_none() && count_nodes(listing) >= NODES_MAX {
        return Err(JoinError::Full(format!("{NODES_MAX} nodes are in the cluster already")));
    }
    let incarnation = draw(&found, terms)?;
    let record = NodeRecord {
        incarnation,
        addresses: profile.addresses.clone(),
        roles: profile.roles.clone(),
        rack: profile.rack.clone(),
        build: profile.build.clone(),
        desired: found.node.as_ref().map_or(DesiredState::Active, |(it, _)| it.desired),
        is_stopped: false,
    };
    record.check().map_err(|error| JoinError::Invalid(error.to_string()))?;
    if terms.lease == RegistrationLease::Wanted {
        return Ok(RegistrationStep::GrantLease);
    }
    let transaction = commit(&found, terms, &cluster, &record);
    Ok(RegistrationStep::Commit { transaction, cluster, incarnation })
}

/// The cluster to join or to begin. None: wait for one.
fn choose_cluster(
    found: &Found<'_>,
    terms: &RegistrationTerms<'_>,
) -> Result<Option<ClusterId>, JoinError> {
    let is_alone = terms.lease == RegistrationLease::Alone;
    match (&found.cluster, &terms.profile.cluster) {
        (Some((found, _)), Some(known)) if found.id != *known => {
            Err(JoinError::OtherCluster { expected: known.clone(), found: found.id.clone() })
        }
        (Some((found, _)), _) => Ok(Some(found.id.clone())),
        // A node alone has nothing but its folder, and its table may begin after the folder did.
        (None, Some(known)) if is_alone => Ok(Some(known.clone())),
        (None, Some(known)) => Err(JoinError::Replaced(format!(
            "the coordinator's table is empty, and the data folder is of cluster {known}"
        ))),
        (None, None) if terms.profile.can_create => Ok(Some(terms.new_cluster.clone())),
        (None, None) => Ok(None),
    }
}

/// Decides about another process that holds the id. None: there is none, or it is a former life of
/// this node and is surely dead.
///
/// A former life has this folder's incarnation and this node's address: the folder's lock and the
/// bound port say that it is over. With one of the two it may be a copy of the folder or a node that
/// moved, and its lease decides. With neither it is another node.
fn check_holder(
    found: &Found<'_>,
    terms: &RegistrationTerms<'_>,
) -> Result<Option<WaitReason>, JoinError> {
    let profile = terms.profile;
    let Some((holder, entry)) = &found.live else { return Ok(None) };
    if terms.lease == RegistrationLease::Alone {
        return Ok(None);
    }
    let address = found.node.as_ref().and_then(|(it, _)| it.addresses.cluster.clone());
    let is_own_life = holder.incarnation == profile.last_incarnation;
    let is_own_address = address.is_some() && address == profile.addresses.cluster;
    if is_own_life && is_own_address {
        return Ok(None);
    }
    let error = JoinError::IdInUse {
        node: profile.node,
        address,
        incarnation: holder.incarnation,
        lease: entry.lease,
    };
    if is_own_life || is_own_address { Ok(Some(WaitReason::IdHeld(error))) } else { Err(error) }
}

/// The incarnation above all that the table, the node's record and its folder have seen.
fn draw(found: &Found<'_>, terms: &RegistrationTerms<'_>) -> Result<Incarnation, JoinError> {
    let last = found.counter.as_ref().map_or(Incarnation(0), |(it, _)| it.last);
    let folder = terms.profile.last_incarnation;
    let is_alone = terms.lease == RegistrationLease::Alone;
    if !is_alone && found.cluster.is_some() && last < folder {
        return Err(JoinError::Replaced(format!(
            "the coordinator's table has drawn incarnation {last} at most, and this node was incarnation {folder}"
        )));
    }
    let newest = found.node.as_ref().map_or(Incarnation(0), |(it, _)| it.incarnation);
    let above = last.max(folder).max(newest);
    above
        .0
        .checked_add(1)
        .map(Incarnation)
        .ok_or_else(|| JoinError::Full("all incarnations of the cluster are used".to_owned()))
}

/// The transaction of a registration. It compares all that [`next_step`] has read.
fn commit(
    found: &Found<'_>,
    terms: &RegistrationTerms<'_>,
    cluster: &ClusterId,
    record: &NodeRecord,
) -> Transaction {
    let node = terms.profile.node;
    let (node_key, live_key) = (RecordKey::Node(node).key(), RecordKey::Live(node).key());
    let (cluster_key, counter_key) = (RecordKey::Cluster.key(), RecordKey::Incarnations.key());
    let incarnation = record.incarnation;
    let mut transaction = Transaction::new()
        .require(&cluster_key, modified(&found.cluster))
        .require(&counter_key, modified(&found.counter))
        .require(&node_key, modified(&found.node))
        .require(&live_key, modified(&found.live))
        .put(&counter_key, encode(&IncarnationsRecord { last: incarnation }))
        .put(&node_key, encode(record));
    if found.cluster.is_none() {
        transaction = transaction.put(&cluster_key, encode(&ClusterRecord { id: cluster.clone() }));
    }
    match terms.lease.id() {
        Some(lease) => {
            transaction.put_leased(&live_key, encode(&LiveRecord { incarnation }), lease)
        }
        None if found.live.is_some() => transaction.delete(&live_key),
        None => transaction,
    }
}

fn count_nodes(listing: &Listing) -> usize {
    let places = listing.entries.iter().filter_map(|it| RecordKey::of(&it.key));
    places.filter(|it| matches!(it, RecordKey::Node(_))).count()
}

/// The transaction of a clean stop: the node leaves at once, and others need not wait for its lease.
/// None if the incarnation does not hold the id any more.
///
/// # Errors
/// [`JoinError::Unreadable`] if the node's record cannot be read.
pub fn leave(
    listing: &Listing,
    node: NodeId,
    incarnation: Incarnation,
) -> Result<Option<Transaction>, JoinError> {
    let record = read::<NodeRecord>(listing, RecordKey::Node(node))?;
    let live = read::<LiveRecord>(listing, RecordKey::Live(node))?;
    let (Some((mut record, entry)), Some((live, live_entry))) = (record, live) else {
        return Ok(None);
    };
    if live.incarnation != incarnation {
        return Ok(None);
    }
    record.is_stopped = true;
    let (node_key, live_key) = (RecordKey::Node(node).key(), RecordKey::Live(node).key());
    Ok(Some(
        Transaction::new()
            .require(&node_key, entry.modified)
            .require(&live_key, live_entry.modified)
            .put(&node_key, encode(&record))
            .delete(&live_key),
    ))
}

#[cfg(test)]
mod tests;
