//! Stages and sinks of a job in code. Both begin with [`from`].

use arrow_schema::SchemaRef;
use std::sync::{Arc, Mutex, PoisonError};
use tidemill_flow::Sink;
use tidemill_node::Problem;
use tidemill_node::registry::MakeSink;
use tidemill_types::Span;
use tidemill_types::job::{
    CountWindow, DatabaseUrl, DedupSpec, EmptySpec, FileSinkSpec, FlatMapSpec, Format, JoinKind,
    JoinSpec, KafkaSinkSpec, Named, PartitionSpec, PostgresSinkSpec, SinkSpec, SlidingWindow,
    StageSpec, StdoutSpec, TopSpec, WindowSpec,
};

/// A stage being built. Its parts apply in the order of a job file, whatever the order of calls. But for
/// [`Stage::filter`] each is called once.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Stage {
    pub(super) spec: StageSpec,
    pub(super) problems: Vec<Problem>,
}

/// Where a sink of a job writes.
#[must_use]
pub struct SinkOf {
    pub(super) spec: SinkSpec,
    pub(super) make: Option<MakeSink>,
    pub(super) problems: Vec<Problem>,
}

/// One name, or several: a union.
pub trait Names {
    /// The names.
    fn names(self) -> Vec<String>;
}

impl Names for &str {
    fn names(self) -> Vec<String> {
        vec![self.to_owned()]
    }
}

impl Names for String {
    fn names(self) -> Vec<String> {
        vec![self]
    }
}

impl Names for &String {
    fn names(self) -> Vec<String> {
        vec![self.clone()]
    }
}

impl<S: Into<String>> Names for Vec<S> {
    fn names(self) -> Vec<String> {
        self.into_iter().map(Into::into).collect()
    }
}

impl<S: Into<String>, const N: usize> Names for [S; N] {
    fn names(self) -> Vec<String> {
        self.into_iter().map(Into::into).collect()
    }
}

/// A stage or sink that reads a source or stage; or several of them, `from(["a", "b"])`.
pub fn from(names: impl Names) -> Stage {
    Stage { spec: StageSpec { from: names.names(), ..StageSpec::default() }, problems: Vec::new() }
}

fn join_of(left: &str) -> JoinSpec {
    let left = left.to_owned();
    let kind = JoinKind::default();
    JoinSpec { left, right: None, table: None, on: Vec::new(), within: None, kind }
}

/// A stage that pairs the records of two streams; [`Stage::on`] and [`Stage::within`] must follow.
pub fn join(left: &str, right: &str) -> Stage {
    let join = Some(JoinSpec { right: Some(right.to_owned()), ..join_of(left) });
    Stage { spec: StageSpec { join, ..StageSpec::default() }, problems: Vec::new() }
}

/// A stage that adds to each record the columns of a table's row; [`Stage::on`] must follow.
pub fn join_table(left: &str, table: &str) -> Stage {
    let join = Some(JoinSpec { table: Some(table.to_owned()), ..join_of(left) });
    Stage { spec: StageSpec { join, ..StageSpec::default() }, problems: Vec::new() }
}

/// Names of columns.
fn owned<C: Into<String>>(columns: impl IntoIterator<Item = C>) -> Vec<String> {
    columns.into_iter().map(Into::into).collect()
}

impl Stage {
    fn span(&mut self, field: &str, text: &str) -> Span {
        text.parse().unwrap_or_else(|error| {
            self.problems.push(Problem::new([field], format!("{error}")));
            Span(1)
        })
    }

    fn misplaced(&mut self, call: &str, after: &str) {
        let message = format!("`{call}` is called without {after} before it");
        self.problems.push(Problem::new::<String>([], message));
    }

    /// Sets a part of the stage. A part that is set twice is a problem.
    fn part<T>(&mut self, call: &str, of: impl FnOnce(&mut StageSpec) -> &mut Option<T>, part: T) {
        if of(&mut self.spec).replace(part).is_some() {
            self.twice(call);
        }
    }

    fn twice(&mut self, call: &str) {
        let message = format!("`{call}` is called twice: what comes after it is another stage");
        self.problems.push(Problem::new::<String>([], message));
    }

    fn window(mut self, call: &str, window: WindowSpec) -> Self {
        if self.spec.window.replace(window).is_some() {
            let message = format!("`{call}` is a second window: a stage has one");
            self.problems.push(Problem::new::<String>([], message));
        }
        self
    }

    /// Columns of a stage, each a name and an expression.
    fn columns<N: Into<String>, E: Into<String>>(
        &mut self,
        field: &str,
        named: impl IntoIterator<Item = (N, E)>,
    ) -> Named<String> {
        let mut columns = Named::default();
        for (name, expression) in named {
            let name = name.into();
            if columns.insert(name.clone(), expression.into()).is_some() {
                let message = format!("the name `{name}` is given twice");
                self.problems.push(Problem::new([field, &name], message));
            }
        }
        columns
    }

    /// One record becomes one for each element of the list that `unnest` gives, in column `name`.
    pub fn flat_map(mut self, unnest: &str, name: &str) -> Self {
        let spec = FlatMapSpec { unnest: unnest.to_owned(), name: name.to_owned() };
        self.part("flat_map", |it| &mut it.flat_map, spec);
        self
    }

    /// Keeps records for which a SQL condition is true; called again, those for which all are.
    pub fn filter(mut self, condition: &str) -> Self {
        self.spec.filter = Some(match self.spec.filter.take() {
            Some(others) => format!("({others}) and ({condition})"),
            None => condition.to_owned(),
        });
        self
    }

    /// New columns, each a name and a SQL expression; all others are dropped.
    pub fn select<N: Into<String>, E: Into<String>>(
        mut self,
        columns: impl IntoIterator<Item = (N, E)>,
    ) -> Self {
        let columns = self.columns("select", columns);
        self.part("select", |it| &mut it.select, columns);
        self
    }

    /// Columns whose values decide the slice.
    pub fn key<C: Into<String>>(mut self, columns: impl IntoIterator<Item = C>) -> Self {
        self.part("key", |it| &mut it.key, owned(columns));
        self
    }

    /// Windows of one size, side by side, such as `1d`.
    pub fn tumbling(mut self, size: &str) -> Self {
        let size = self.span("window", size);
        self.window("tumbling", WindowSpec::Tumbling(size))
    }

    /// Windows of one size, a new one at every step.
    pub fn sliding(mut self, size: &str, every: &str) -> Self {
        let (size, every) = (self.span("window", size), self.span("window", every));
        self.window("sliding", WindowSpec::Sliding(SlidingWindow { size, every }))
    }

    /// Windows that end when their key is silent for `gap`.
    pub fn session(mut self, gap: &str) -> Self {
        let gap = self.span("window", gap);
        self.window("session", WindowSpec::Session(gap))
    }

    /// The last `size` records of a key, after every `every` records.
    pub fn count(self, size: u64, every: u64) -> Self {
        self.window("count", WindowSpec::Count(CountWindow { size, every }))
    }

    /// One window for the whole input.
    pub fn global(self) -> Self {
        self.window("global", WindowSpec::Global(EmptySpec {}))
    }

    /// Aggregates, each a column name and a SQL aggregate call.
    pub fn aggregate<N: Into<String>, E: Into<String>>(
        mut self,
        aggregates: impl IntoIterator<Item = (N, E)>,
    ) -> Self {
        let aggregates = self.columns("aggregate", aggregates);
        self.part("aggregate", |it| &mut it.aggregate, aggregates);
        self
    }

    /// The `k` rows with the largest values of a column or expression.
    pub fn top(mut self, k: usize, by: &str) -> Self {
        let by = by.to_owned();
        let spec = TopSpec { k, by, ascending: false, per: Vec::new() };
        self.part("top", |it| &mut it.top, spec);
        self
    }

    /// After [`Self::top`]: the smallest values.
    pub fn ascending(mut self) -> Self {
        match &mut self.spec.top {
            Some(top) => top.ascending = true,
            None => self.misplaced("ascending", "`top`"),
        }
        self
    }

    /// After [`Self::top`]: columns whose values form a group.
    pub fn per<C: Into<String>>(mut self, columns: impl IntoIterator<Item = C>) -> Self {
        match &mut self.spec.top {
            Some(top) if !top.per.is_empty() => self.twice("per"),
            Some(top) => top.per = owned(columns),
            None => self.misplaced("per", "`top`"),
        }
        self
    }

    /// The first record of each key only.
    pub fn dedup<C: Into<String>>(mut self, on: impl IntoIterator<Item = C>) -> Self {
        let on = owned(on);
        self.part("dedup", |it| &mut it.dedup, DedupSpec { on, within: None });
        self
    }

    /// After a join: columns that must be equal, `name` or `left_name = right_name`.
    pub fn on<C: Into<String>>(mut self, columns: impl IntoIterator<Item = C>) -> Self {
        match &mut self.spec.join {
            Some(join) if !join.on.is_empty() => self.twice("on"),
            Some(join) => join.on = owned(columns),
            None => self.misplaced("on", "a join"),
        }
        self
    }

    /// After a join or [`Self::dedup`]: the limit in event time.
    pub fn within(mut self, span: &str) -> Self {
        let span = self.span("within", span);
        let before = match (&mut self.spec.join, &mut self.spec.dedup) {
            (Some(join), _) => join.within.replace(span),
            (None, Some(dedup)) => dedup.within.replace(span),
            (None, None) => {
                self.misplaced("within", "a join or `dedup`");
                None
            }
        };
        if before.is_some() {
            self.twice("within");
        }
        self
    }

    /// After a join: the fate of a left record without a partner.
    pub fn kind(mut self, kind: JoinKind) -> Self {
        match &mut self.spec.join {
            Some(join) => join.kind = kind,
            None => self.misplaced("kind", "a join"),
        }
        self
    }

    /// The name under which other stages read records that came too late for their window.
    pub fn late(mut self, name: &str) -> Self {
        self.part("late", |it| &mut it.late, name.to_owned());
        self
    }

    /// Partition of the link to this stage.
    pub fn partition(mut self, partition: PartitionSpec) -> Self {
        self.part("partition", |it| &mut it.partition, partition);
        self
    }

    /// Slices of this stage, if not the job's.
    pub fn slices(mut self, slices: u32) -> Self {
        self.part("slices", |it| &mut it.slices, slices);
        self
    }

    /// Keys that nothing came for in so long leave memory, and are read back from the newest
    /// checkpoint when something does: results are the same. For count windows and operators whose
    /// state is a `Map`; the job needs a checkpoint. A time such as `"1h"`.
    pub fn ttl(mut self, time: &str) -> Self {
        let time = self.span("ttl", time);
        self.part("ttl", |it| &mut it.ttl, time);
        self
    }

    /// Runs the operator that `Job::operator` registered under this name.
    pub fn operator(mut self, name: &str) -> Self {
        self.part("operator", |it| &mut it.operator, name.to_owned());
        self
    }

    fn sink(mut self, make: Option<MakeSink>, kind: impl FnOnce(&mut SinkSpec)) -> SinkOf {
        let from = std::mem::take(&mut self.spec.from);
        if self.spec != StageSpec::default() {
            let message = "a sink writes what it reads as it is: add a stage that does the rest, \
                           and let the sink read that";
            self.problems.push(Problem::new::<String>([], message));
        }
        let mut spec = SinkSpec {
            from,
            file: None,
            stdout: None,
            stream: None,
            kafka: None,
            postgres: None,
            blackhole: None,
        };
        kind(&mut spec);
        SinkOf { spec, make, problems: self.problems }
    }

    /// A sink that writes a file.
    pub fn to_file(self, path: impl Into<String>, format: Format) -> SinkOf {
        let file = FileSinkSpec { path: path.into(), format };
        self.sink(None, |spec| spec.file = Some(file))
    }

    /// A sink that writes to standard output.
    pub fn to_stdout(self, format: Format) -> SinkOf {
        self.sink(None, |spec| spec.stdout = Some(StdoutSpec { format }))
    }

    /// A sink that writes a table of a PostgreSQL database: `NAME` or `SCHEMA.NAME`, which is made
    /// if it is not there. With a `key` a row replaces the one that has its key; without, rows are
    /// added. The password is taken from the URL, or from `PGPASSWORD`.
    pub fn to_postgres<'k>(
        self,
        url: impl Into<String>,
        table: impl Into<String>,
        key: impl IntoIterator<Item = &'k str>,
    ) -> SinkOf {
        let postgres = PostgresSinkSpec {
            url: DatabaseUrl(url.into()),
            table: table.into(),
            create: true,
            key: key.into_iter().map(str::to_owned).collect(),
            password_env: None,
        };
        self.sink(None, |spec| spec.postgres = Some(postgres))
    }

    /// A sink that writes a topic of an Apache Kafka cluster, or a stream of a Tidemill node, as JSON;
    /// it is made if it is not there. `brokers` are addresses of some brokers, `HOST:PORT`, with commas
    /// between them. The columns of `key` are the records' keys and choose their partitions.
    ///
    /// Under `exactly-once`, in a job with a data folder, each commit is a transaction.
    pub fn to_kafka<'k>(
        self,
        brokers: impl Into<String>,
        topic: impl Into<String>,
        key: impl IntoIterator<Item = &'k str>,
    ) -> SinkOf {
        let kafka = KafkaSinkSpec {
            brokers: brokers.into(),
            topic: topic.into(),
            format: Format::Json,
            key: key.into_iter().map(str::to_owned).collect(),
            create: true,
            partitions: None,
            transaction_timeout: KafkaSinkSpec::TRANSACTION_TIMEOUT,
        };
        self.sink(None, |spec| spec.kafka = Some(kafka))
    }

    /// A sink that counts rows and drops them.
    pub fn to_blackhole(self) -> SinkOf {
        self.sink(None, |spec| spec.blackhole = Some(EmptySpec {}))
    }

    /// A sink of the program.
    pub fn to(self, sink: impl Sink + 'static) -> SinkOf {
        let once: Mutex<Option<Box<dyn Sink>>> = Mutex::new(Some(Box::new(sink)));
        let make = move |_: &SchemaRef| {
            let mut held = once.lock().unwrap_or_else(PoisonError::into_inner);
            held.take().ok_or_else(|| "the sink was given to another job".to_owned())
        };
        self.sink(Some(Arc::new(make)), |_| {})
    }
}
