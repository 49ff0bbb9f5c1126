//! Where the checkpoints of a job are kept: in its data folder, or on servers.

use std::{path::Path, sync::Arc};
use tidemill_backends::{Job, RemoteBackend};
use tidemill_env::World;
use tidemill_flow::{CheckpointTo, StartError};
use tidemill_state::{Backend, FileBackend, IndexedBackend, IndexedOptions, StateError};
use tidemill_types::job::{BackendSpec, JobSpec};

/// Opens what a job's checkpoints are kept in; nothing if the job has none, or no folder.
///
/// # Errors
/// The backend's; another process has it open, or another job the place on the servers.
pub fn open_checkpoints(
    spec: &JobSpec,
    data: Option<&Path>,
    world: &World,
) -> Result<Option<CheckpointTo>, StartError> {
    let (Some(checkpoint), Some(data)) = (&spec.checkpoint, data) else { return Ok(None) };
    let folder = data.join("checkpoints");
    let job = Job { name: &spec.name, folder: &folder };
    let opened = match &checkpoint.backend {
        BackendSpec::Indexed(_) => indexed(spec, &folder, world),
        BackendSpec::Files(_) => FileBackend::open(world, &folder).map(|it| Arc::new(it) as _),
        BackendSpec::Redis(redis) => remote(RemoteBackend::redis(redis, job, world)),
        BackendSpec::ObjectStore(bucket) => remote(RemoteBackend::bucket(bucket, job, world)),
        BackendSpec::Hbase(table) => remote(RemoteBackend::hbase(table, job, world)),
    };
    let backend = opened.map_err(|error| StartError::Checkpoint { message: error.to_string() })?;
    Ok(Some(CheckpointTo { every: checkpoint.every, backend }))
}

fn remote(opened: Result<RemoteBackend, StateError>) -> Result<Arc<dyn Backend>, StateError> {
    opened.map(|it| Arc::new(it) as _)
}

fn indexed(spec: &JobSpec, folder: &Path, world: &World) -> Result<Arc<dyn Backend>, StateError> {
    let (backend, opened) = IndexedBackend::open(world, folder, IndexedOptions::default())?;
    if let Some((file, at)) = opened.cut {
        let file = file.display();
        tracing::warn!(job = spec.name, %file, at, "an unfinished write was cut off");
    }
    Ok(Arc::new(backend))
}
