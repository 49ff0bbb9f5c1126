//! Sources of a job in code.

use std::sync::Arc;
use tidemill_flow::SourceFactory;
use tidemill_node::Problem;
use tidemill_types::job::{FileSourceSpec, Format, Named, SourceSpec, TimeSpec};

/// What a source of a job reads: made from a [`File`], from [`Generated`](super::Generated)
/// records, or from a `SourceFactory` in an `Arc`.
#[must_use]
pub struct SourceOf {
    pub(super) spec: SourceSpec,
    pub(super) factory: Option<Arc<dyn SourceFactory>>,
    pub(super) problems: Vec<Problem>,
}

/// Records of a file, read once from its start to its end.
#[derive(Clone, Debug)]
#[must_use]
pub struct File {
    file: FileSourceSpec,
    time: Option<TimeSpec>,
    problems: Vec<Problem>,
}

impl File {
    /// A file of any format.
    pub fn new(path: impl Into<String>, format: Format) -> Self {
        let path = path.into();
        let file = FileSourceSpec { path, format, schema: Named::new(), sample: None };
        Self { file, time: None, problems: Vec::new() }
    }

    /// One JSON object a line.
    pub fn ndjson(path: impl Into<String>) -> Self {
        Self::new(path, Format::Json)
    }

    /// RFC 4180 with a header line.
    pub fn csv(path: impl Into<String>) -> Self {
        Self::new(path, Format::Csv)
    }

    /// One record a line, in the column `text`.
    pub fn text(path: impl Into<String>) -> Self {
        Self::new(path, Format::Text)
    }

    /// Apache Parquet.
    pub fn parquet(path: impl Into<String>) -> Self {
        Self::new(path, Format::Parquet)
    }

    /// Event time: the field that holds it, and how far the watermark trails the largest time
    /// seen, such as `1h` or `0s`.
    pub fn event_time(mut self, field: impl Into<String>, lateness: &str) -> Self {
        match lateness.parse() {
            Ok(lateness) => self.time = Some(TimeSpec { field: field.into(), lateness }),
            Err(error) => {
                self.problems.push(Problem::new(["time", "lateness"], format!("{error}")));
            }
        }
        self
    }

    /// The type of a column, such as `int64`; other columns are found from the file's head.
    pub fn column(mut self, name: impl Into<String>, kind: impl Into<String>) -> Self {
        self.file.schema.insert(name.into(), kind.into());
        self
    }
}

impl From<File> for SourceOf {
    fn from(file: File) -> Self {
        let File { file, time, problems } = file;
        Self {
            spec: SourceSpec { file: Some(file), time, ..SourceSpec::default() },
            factory: None,
            problems,
        }
    }
}

impl From<Arc<dyn SourceFactory>> for SourceOf {
    fn from(factory: Arc<dyn SourceFactory>) -> Self {
        let spec = SourceSpec::default();
        Self { spec, factory: Some(factory), problems: Vec::new() }
    }
}

impl<F: SourceFactory + 'static> From<Arc<F>> for SourceOf {
    fn from(factory: Arc<F>) -> Self {
        Self::from(factory as Arc<dyn SourceFactory>)
    }
}
