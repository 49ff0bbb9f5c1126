//! A stream that is not here, as its job describes it: for a look at a job without a node.
//!
//! Nothing here reads a log.

use crate::error::ConnectorError;
use crate::record_source::{LogName, RecordSampler, RecordSourceSpec};
use arrow_schema::SchemaRef;
use std::sync::Arc;
use tidemill_flow::{ErrorKind, Source, SourceError, SourceFactory};
use tidemill_types::{
    SliceId,
    job::{Format, UntilSpec},
};

/// A stream with the columns that its job names.
pub struct DeclaredStream {
    schema: SchemaRef,
    live: bool,
}

impl DeclaredStream {
    /// The stream with the columns that the job names and with no others; none if it names none, and
    /// they would be found in the records.
    ///
    /// # Errors
    /// The job's settings of the stream are impossible, whatever its records are.
    #[expect(clippy::new_ret_no_self, reason = "the engine takes any source factory")]
    pub fn new(
        name: &str,
        spec: &RecordSourceSpec,
    ) -> Result<Option<Arc<dyn SourceFactory>>, ConnectorError> {
        let name = LogName::stream(name);
        let sampler = RecordSampler::new(&name, spec)?;
        if Self::may_have_more(spec) && spec.schema.is_empty() {
            return Ok(None);
        }
        let schema = sampler.finish(&name, spec)?.schema;
        Ok(Some(Arc::new(Self { schema, live: spec.until == UntilSpec::Never })))
    }

    /// Returns true if records may have columns that the job does not name.
    #[must_use]
    pub fn may_have_more(spec: &RecordSourceSpec) -> bool {
        matches!(spec.format, Format::Json | Format::Influx)
    }
}

impl SourceFactory for DeclaredStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn open(&self, _: SliceId) -> Result<Box<dyn Source>, SourceError> {
        Err(SourceError::of_kind(
            ErrorKind::Invalid,
            "a stream that is only declared has no records",
        ))
    }

    fn live(&self) -> bool {
        self.live
    }
}
