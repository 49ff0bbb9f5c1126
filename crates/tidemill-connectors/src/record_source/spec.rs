//! The settings with which a job reads a stream or a topic.

use std::path::PathBuf;
use tidemill_types::job::{Format, Isolation, MetaSpec, Named, StartSpec, TimeSpec, UntilSpec};

/// The settings with which a job reads a stream or a topic.
#[derive(Clone, Debug)]
pub struct RecordSourceSpec {
    /// The format of values; not Arrow or Parquet.
    pub format: Format,
    /// Column types by name; for CSV all columns in order.
    pub schema: Named<String>,
    /// Records that decide the types of other columns; none: 10,000.
    pub sample: Option<usize>,
    /// The place where reading begins.
    pub start: StartSpec,
    /// The place where it ends.
    pub until: UntilSpec,
    /// Reads either committed records only, or also those of open and aborted transactions.
    pub isolation: Isolation,
    /// Columns beside those of the value.
    pub meta: MetaSpec,
    /// Event time: a column of the value, or the timestamp's.
    pub time: Option<TimeSpec>,
    /// A file of the job's folder that keeps where reading began, for a job that can resume.
    pub note: Option<PathBuf>,
    /// True if the job resumes an earlier run, whose note counts.
    pub resume: bool,
    /// True if it begins anew with a checkpoint of an earlier run, whose noted columns count.
    pub from_checkpoint: bool,
}

impl RecordSourceSpec {
    /// The settings for reading records, except columns, which the stages name.
    pub(super) fn reads(&self) -> String {
        let uncommitted = match self.isolation {
            Isolation::Committed => None,
            Isolation::Uncommitted => Some("uncommitted records too".to_owned()),
        };
        let time = self.time.as_ref().map(TimeSpec::to_string);
        let said = [Some(self.format.to_string()), uncommitted, time];
        said.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}
