//! A second process that would run the same job in the same folder, while the first runs it.

use crate::{fault::PlantedFault, job::SimJob, life::FOLDER};
use arrow_schema::SchemaRef;
use std::sync::Arc;
use tidemill_env::World;
use tidemill_flow::{
    RunOptions, Source, SourceError, SourceFactory, StageKind, StartError, engine::start,
};
use tidemill_types::SliceId;

/// A source that cannot be opened, so that the second process does no harm.
struct Missing(Arc<dyn SourceFactory>);

impl SourceFactory for Missing {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
    fn slices(&self) -> u32 {
        self.0.slices()
    }
    fn open(&self, _: SliceId) -> Result<Box<dyn Source>, SourceError> {
        Err(SourceError::new("the second process got as far as its sources"))
    }
}

/// Checks that a second process is refused before it touches anything.
///
/// # Errors
/// The wrong answer that it got.
pub(crate) fn is_refused(job: &SimJob, world: &World) -> Result<(), String> {
    let mut graph = job.graph(world, 0, 1, &PlantedFault::default());
    for stage in &mut graph.stages {
        if let StageKind::Source { factory, .. } = &mut stage.kind {
            *factory = Arc::new(Missing(Arc::clone(factory)));
        }
    }
    let options = RunOptions { data: Some(FOLDER.into()), resume: true, ..RunOptions::default() };
    match start(graph, world, &options) {
        Err(StartError::InUse { .. }) => Ok(()),
        Err(error) => {
            Err(format!("a second process was not told that the folder is in use: {error}"))
        }
        Ok(_) => Err("a second process runs in the same folder".to_owned()),
    }
}
