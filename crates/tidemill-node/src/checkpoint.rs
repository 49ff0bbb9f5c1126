//! The backend of a job's checkpoints, in its data folder or on servers; and a checkpoint as
//! others to see.

use serde::Serialize;
use std::{path::Path, sync::Arc};
use tidemill_backends::{OwnerJob, RemoteBackend};
use tidemill_checkpoints::{
    Backend, BackendError, CheckpointError, CheckpointInfo, Checkpoints, FileBackend,
    IndexedBackend, IndexedOptions, Manifest, SavedSink, SavedSource,
};
use tidemill_env::World;
use tidemill_flow::{CheckpointTo, StartError};
use tidemill_types::CheckpointNumber;
use tidemill_types::job::{BackendSpec, JobSpec};

/// Opens the backend of a job's checkpoints; none if the job has none, or no folder. A job
/// that resumes goes on from the checkpoint `from`, or from the newest.
///
/// # Errors
/// The backend's; another process has it open, or another job the place on the servers. Or there is
/// nothing of which `from` could be one.
pub fn open_checkpoints(
    spec: &JobSpec,
    data: Option<&Path>,
    from: Option<CheckpointNumber>,
    world: &World,
) -> Result<Option<CheckpointTo>, StartError> {
    let refused = |message: String| StartError::Checkpoint { message };
    let (Some(checkpoint), Some(data)) = (&spec.checkpoint, data) else {
        return match from {
            Some(_) => Err(refused(tidemill_flow::AskError::None.to_string())),
            None => Ok(None),
        };
    };
    let backend = open_backend(spec, &checkpoint.backend, data, world);
    let backend = backend.map_err(StartError::from)?;
    let (every, recovery) = (checkpoint.every, checkpoint.recovery);
    Ok(Some(CheckpointTo { every, backend, from, recovery }))
}

/// The checkpoints of a job that does not run; none if it makes none.
///
/// # Errors
/// The backend's; another process has it open.
pub fn stored_checkpoints(
    spec: &JobSpec,
    data: &Path,
    world: &World,
) -> Result<Option<Checkpoints>, CheckpointError> {
    let Some(checkpoint) = &spec.checkpoint else { return Ok(None) };
    Checkpoints::open(open_backend(spec, &checkpoint.backend, data, world)?).map(Some)
}

/// True if checkpoints are kept on servers.
pub(crate) fn is_remote(backend: &BackendSpec) -> bool {
    match backend {
        BackendSpec::Indexed(_) | BackendSpec::Files(_) => false,
        BackendSpec::Redis(_) | BackendSpec::ObjectStore(_) | BackendSpec::Hbase(_) => true,
    }
}

/// The checkpoints of a job that does not run, on a server; none if it has none there.
///
/// # Errors
/// The backend's; another job has the place.
pub(crate) fn remote_place(
    spec: &JobSpec,
    data: &Path,
    world: &World,
) -> Result<Option<Arc<dyn Backend>>, BackendError> {
    match spec.checkpoint.as_ref().filter(|it| is_remote(&it.backend)) {
        Some(checkpoint) => open_backend(spec, &checkpoint.backend, data, world).map(Some),
        None => Ok(None),
    }
}

fn open_backend(
    spec: &JobSpec,
    backend: &BackendSpec,
    data: &Path,
    world: &World,
) -> Result<Arc<dyn Backend>, BackendError> {
    let folder = data.join("checkpoints");
    let job = OwnerJob { name: &spec.name, folder: &folder };
    match backend {
        BackendSpec::Indexed(_) => indexed(spec, &folder, world),
        BackendSpec::Files(_) => FileBackend::open(world, &folder).map(|it| Arc::new(it) as _),
        BackendSpec::Redis(redis) => remote(RemoteBackend::redis(redis, job, world)),
        BackendSpec::ObjectStore(bucket) => remote(RemoteBackend::bucket(bucket, job, world)),
        BackendSpec::Hbase(table) => remote(RemoteBackend::hbase(table, job, world)),
    }
}

/// A checkpoint as others see it.
#[derive(Clone, Debug, Serialize)]
pub struct CheckpointView {
    /// A summary.
    #[serde(flatten)]
    pub info: CheckpointInfo,
    /// The recorded time of its cycle, in microseconds since 1970.
    pub time_us: i64,
    /// All slices are as of that cycle; if not, each is as of a cycle of its own, up to that one.
    pub coordinated: bool,
    /// The slices of the sources.
    pub sources: Vec<SavedSource>,
    /// The stages.
    pub stages: Vec<StageView>,
    /// The sinks.
    pub sinks: Vec<SavedSink>,
}

/// A stage in a checkpoint, as others see it.
#[derive(Clone, Debug, Serialize)]
pub struct StageView {
    /// Its name.
    pub name: String,
    /// A description of its operator: a state belongs to a stage with the same one.
    pub does: String,
    /// Its watermark, in microseconds since 1970.
    pub watermark: i64,
    /// The number of its slices.
    pub slices: usize,
    /// Runs of changes that its state is read from.
    pub runs: usize,
    /// Bytes of these.
    pub bytes: u64,
}

impl CheckpointView {
    /// Shows a checkpoint.
    #[must_use]
    pub fn new(info: CheckpointInfo, manifest: &Manifest) -> Self {
        let stages = manifest.stages.iter().map(|stage| StageView {
            name: stage.name.clone(),
            does: stage.does.clone(),
            watermark: stage.watermark.0,
            slices: stage.slices.len(),
            runs: stage.slices.iter().map(Vec::len).sum(),
            bytes: stage.slices.iter().flatten().map(|run| run.bytes).sum(),
        });
        Self {
            info,
            time_us: manifest.time.0,
            coordinated: manifest.coordinated,
            sources: manifest.sources.clone(),
            stages: stages.collect(),
            sinks: manifest.sinks.clone(),
        }
    }
}

fn remote(opened: Result<RemoteBackend, BackendError>) -> Result<Arc<dyn Backend>, BackendError> {
    opened.map(|it| Arc::new(it) as _)
}

fn indexed(spec: &JobSpec, folder: &Path, world: &World) -> Result<Arc<dyn Backend>, BackendError> {
    let (backend, opened) = IndexedBackend::open(world, folder, IndexedOptions::default())?;
    if let Some((file, at)) = opened.cut {
        let file = file.display();
        tracing::warn!(job = spec.name, %file, at, "an unfinished write was cut off");
    }
    Ok(Arc::new(backend))
}
