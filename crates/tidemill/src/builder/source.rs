//! Sources of a job in code.

use std::sync::Arc;
use tidemill_flow::SourceFactory;
use tidemill_node::Problem;
use tidemill_types::job::{
    FileSourceSpec, Format, Isolation, KafkaSourceSpec, MetaSpec, Named, SourceSpec, StartSpec,
    TimeSpec, UntilSpec,
};

/// The input of a source: made from a [`File`], a topic of [`Kafka`], from
/// [`Generated`](super::Generated) records, or from a `SourceFactory` in an `Arc`.
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
        let file = FileSourceSpec::new(path, format);
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

    /// CSV without a header line: `columns` are the names and types of all columns, in order, or
    /// empty; then they are text, numbers and so on as the first records show them, and are called
    /// `column_1`, `column_2` and so on.
    pub fn csv_without_header<N: Into<String>, T: Into<String>>(
        path: impl Into<String>,
        columns: impl IntoIterator<Item = (N, T)>,
    ) -> Self {
        let mut made = Self::csv(path);
        made.file.header = Some(false);
        made.file.schema = columns.into_iter().map(|(n, t)| (n.into(), t.into())).collect();
        made
    }

    /// Of CSV: the character between two fields, in place of a comma.
    pub fn delimiter(mut self, delimiter: char) -> Self {
        self.file.delimiter = Some(delimiter);
        self
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
    /// seen, such as `1h` or `0s`. A source has one.
    pub fn event_time(mut self, field: impl Into<String>, lateness: &str) -> Self {
        say_time(&mut self.time, field.into(), lateness, &mut self.problems);
        self
    }

    /// The type of a column, such as `int64`; other columns are found from the file's head.
    pub fn column(mut self, name: impl Into<String>, kind: impl Into<String>) -> Self {
        self.file.schema.insert(name.into(), kind.into());
        self
    }
}

/// Says the event time of a source. Another one that was said before is not replaced without a word.
pub(super) fn say_time(
    said: &mut Option<TimeSpec>,
    field: String,
    lateness: &str,
    problems: &mut Vec<Problem>,
) {
    let time = match lateness.parse() {
        Ok(lateness) => TimeSpec { field, lateness },
        Err(error) => {
            problems.push(Problem::new(["time", "lateness"], format!("{error}")));
            return;
        }
    };
    match said {
        Some(before) if *before != time => {
            let call = |it: &TimeSpec| format!("(`{}`, `{}`)", it.field, it.lateness);
            let (before, time) = (call(before), call(&time));
            let message =
                format!("`event_time` is called twice, with {before} and {time}: a source has one");
            problems.push(Problem::new(["time"], message));
        }
        _ => *said = Some(time),
    }
}

/// Records of a topic of an Apache Kafka cluster, or of a stream of a Tidemill node, which speaks the
/// same protocol. It is read from its first record on, and without an end, unless said otherwise.
#[derive(Clone, Debug)]
#[must_use]
pub struct Kafka {
    kafka: KafkaSourceSpec,
    time: Option<TimeSpec>,
    problems: Vec<Problem>,
}

impl Kafka {
    /// A topic whose values are of this format. `brokers` are addresses of some brokers, `HOST:PORT`,
    /// with commas between them.
    pub fn new(brokers: impl Into<String>, topic: impl Into<String>, format: Format) -> Self {
        let kafka = KafkaSourceSpec {
            brokers: brokers.into(),
            topic: topic.into(),
            format,
            schema: Named::new(),
            sample: None,
            start: None,
            until: None,
            isolation: None,
            meta: None,
        };
        Self { kafka, time: None, problems: Vec::new() }
    }

    /// Event time: the field that holds it, or the column that [`Self::meta`] names for timestamps,
    /// and how far the watermark trails the largest time seen, such as `1h` or `0s`. A source has one.
    pub fn event_time(mut self, field: impl Into<String>, lateness: &str) -> Self {
        say_time(&mut self.time, field.into(), lateness, &mut self.problems);
        self
    }

    /// The type of a column, such as `int64`; other columns are found from the first records.
    pub fn column(mut self, name: impl Into<String>, kind: impl Into<String>) -> Self {
        self.kafka.schema.insert(name.into(), kind.into());
        self
    }

    /// Where reading begins: a consumer group is none of the places.
    pub fn start(mut self, start: StartSpec) -> Self {
        self.kafka.start = Some(start);
        self
    }

    /// Reading ends at the end that the topic has when the job starts, and so may the job.
    pub fn until_latest(mut self) -> Self {
        self.kafka.until = Some(UntilSpec::Latest);
        self
    }

    /// All records are read, also those of open and aborted transactions.
    pub fn uncommitted(mut self) -> Self {
        self.kafka.isolation = Some(Isolation::Uncommitted);
        self
    }

    /// Columns for the key, timestamp and position of records.
    pub fn meta(mut self, meta: MetaSpec) -> Self {
        self.kafka.meta = Some(meta);
        self
    }
}

impl From<Kafka> for SourceOf {
    fn from(kafka: Kafka) -> Self {
        let Kafka { kafka, time, problems } = kafka;
        Self {
            spec: SourceSpec { kafka: Some(kafka), time, ..SourceSpec::default() },
            factory: None,
            problems,
        }
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
