//! The home of the coordinator's table, as the settings name it, and the key of the cluster.

use super::{
    membership::{ClusterError, ClusterPlan},
    requests::NodeHandler,
};
use crate::serve::settings::{ClusterSettings, CoordinatorSettings};
use std::{sync::Arc, time::Duration};
use tidemill_cluster::ClusterKey;
use tidemill_coord::{Coordinator, EtcdCoordinator, EtcdOptions};
use tidemill_env::World;
use tidemill_raft::{
    RaftCoordinator, RaftOptions, RaftVoter, Transport,
    founding::{CoordinatorRole, find_or_found},
};

/// Longest call of etcd or of the voters, as a part of the lease.
const CALLS_A_LEASE: u32 = 3;
/// The folder of the voter in the data folder.
const VOTER_FOLDER: &str = "coordinator";

/// The table, and the voter of this node if it is one.
type OpenedCoordinator = (Arc<dyn Coordinator>, Option<Arc<RaftVoter>>);

pub(super) fn open_coordinator(
    world: &World,
    plan: &ClusterPlan<'_>,
    own_address: &str,
    transport: &Arc<dyn Transport>,
    handler: &NodeHandler,
) -> Result<OpenedCoordinator, ClusterError> {
    let settings = plan.settings;
    let timeout = settings.lease.duration() / CALLS_A_LEASE;
    if !settings.join.is_empty() {
        if settings.coordinator != CoordinatorSettings::File {
            let why = "--join and --coordinator exclude each other: the coordinator's table is kept by \
                       the nodes of --join, or by etcd";
            return Err(ClusterError::Settings(why.to_owned()));
        }
        return open_voters(world, plan, own_address, transport, handler, timeout);
    }
    let CoordinatorSettings::Etcd(addresses) = &settings.coordinator else {
        let why = "--cluster-listen needs a coordinator that other nodes reach: give --join the cluster \
                   addresses of the first three or five nodes, or --coordinator etcd:http://HOST:2379";
        return Err(ClusterError::Settings(why.to_owned()));
    };
    let mut options = EtcdOptions::new(addresses).map_err(ClusterError::Coordinator)?;
    options.timeout = timeout;
    if let Some(path) = &settings.etcd_ca_file {
        let pem = world.disk.read(path).map_err(|error| ClusterError::File {
            option: "--etcd-ca-file",
            path: path.clone(),
            error,
        })?;
        options.authorities = Some(pem);
    }
    let etcd = EtcdCoordinator::new(world, options).map_err(ClusterError::Coordinator)?;
    Ok((Arc::new(etcd), None))
}

fn open_voters(
    world: &World,
    plan: &ClusterPlan<'_>,
    own_address: &str,
    transport: &Arc<dyn Transport>,
    handler: &NodeHandler,
    timeout: Duration,
) -> Result<OpenedCoordinator, ClusterError> {
    let folder = plan.data.join(VOTER_FOLDER);
    let options = RaftOptions {
        call_timeout: timeout,
        ..RaftOptions::new(plan.node, own_address.to_owned(), folder)
    };
    let voter = RaftVoter::open(world, options, Arc::clone(transport))?;
    handler.serve_voter(Some(Arc::clone(&voter)));
    let addresses = &plan.settings.join;
    let report = |why: &str| tracing::info!("the node waits to join its cluster: {why}");
    let role =
        find_or_found(world, &**transport, &voter, addresses, report, || (plan.is_stopped)());
    match role {
        Ok(CoordinatorRole::Voter) => {
            let coordinator = RaftCoordinator::of_voter(&voter, Arc::clone(transport));
            Ok((Arc::new(coordinator), Some(voter)))
        }
        Ok(CoordinatorRole::Client(voters)) => {
            handler.serve_voter(None);
            voter.close();
            let addresses = voters.into_values().map(|it| it.address).collect();
            let transport = Arc::clone(transport);
            let coordinator = RaftCoordinator::of_client(world, transport, addresses, timeout);
            Ok((Arc::new(coordinator), None))
        }
        Err(error) => {
            handler.serve_voter(None);
            voter.close();
            Err(error.into())
        }
    }
}

pub(super) fn refuse_without_port(settings: &ClusterSettings) -> Result<(), ClusterError> {
    let needs = if settings.coordinator != CoordinatorSettings::File {
        "--coordinator"
    } else if !settings.join.is_empty() {
        "--join"
    } else if settings.key_file.is_some() {
        "--cluster-key-file"
    } else {
        return Ok(());
    };
    Err(ClusterError::Settings(format!(
        "{needs} is for a node of a cluster, and this node has no cluster port: add --cluster-listen, \
         such as 127.0.0.1:7088"
    )))
}

pub(super) fn read_key(
    world: &World,
    settings: &ClusterSettings,
) -> Result<ClusterKey, ClusterError> {
    let Some(path) = &settings.key_file else {
        return Err(ClusterError::Settings(
            "--cluster-listen needs --cluster-key-file: a file that all nodes of the cluster have and \
             nobody else; make one with `head -c 32 /dev/urandom | base64 > FILE`"
                .to_owned(),
        ));
    };
    let bytes = world.disk.read(path).map_err(|error| ClusterError::File {
        option: "--cluster-key-file",
        path: path.clone(),
        error,
    })?;
    ClusterKey::parse(&bytes)
        .map_err(|error| ClusterError::Key { path: path.clone(), why: error.to_string() })
}
