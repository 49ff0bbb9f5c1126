//! A job as the engine takes it: stages and links, with the operators, sources and sinks made.

use crate::operator::OperatorFactory;
use crate::partition::Partition;
use crate::sink::Sink;
use crate::source::SourceFactory;
use std::{
    fmt,
    ops::{Index, IndexMut},
    sync::Arc,
};
use tidemill_types::job::{BufferSpec, CompressionSpec, CycleSpec, Delivery};
use tidemill_types::limits::{SLICES_MAX, STAGES_MAX};
use tidemill_types::{ByteSize, Span, StageIx};

/// A job: settings, stages and links.
pub struct JobGraph {
    /// The job's name.
    pub name: String,
    /// The guarantee for the output when the job fails.
    pub delivery: Delivery,
    /// The bounds of a cycle.
    pub cycle: CycleSpec,
    /// Buffers of links.
    pub buffer: BufferSpec,
    /// Bytes of memory that the state of all stages may take. Default: no limit.
    pub state_budget: Option<ByteSize>,
    /// LZ4 on links that leave the process.
    pub compression: CompressionSpec,
    /// Worker threads.
    pub workers: usize,
    /// Seed of everything random in the job.
    pub seed: u64,
    /// Sources, operators and sinks. A [`StageIx`] is an index of this table.
    pub stages: Vec<Stage>,
    /// The links between stages.
    pub links: Vec<Link>,
    /// Takes the job's dead letters, as rows of [`dead_letter_schema`](crate::dead_letter::schema).
    pub dead_letter: Option<Box<dyn Sink>>,
}

/// A vertex of the graph: a source, an operator or a sink.
pub struct Stage {
    /// The name, unique in the job.
    pub name: String,
    /// The kind, with the parts that do its work.
    pub kind: StageKind,
    /// For an operator: a key of its state that received no record for this long leaves memory, and
    /// is read back with its next record. Default: every key stays.
    pub ttl: Option<Span>,
}

/// The kind of a stage.
pub enum StageKind {
    /// Reads records.
    Source {
        /// Opens its slices.
        factory: Arc<dyn SourceFactory>,
        /// Read to its end before other sources begin: the table side of a join.
        preload: bool,
    },
    /// Runs an operator.
    Operator {
        /// Makes one operator a lane and one state a slice.
        factory: Arc<dyn OperatorFactory>,
        /// The number of slices. Zero: that of the stages it reads with the partition `local`.
        slices: u32,
    },
    /// Takes results.
    Sink {
        /// The sink.
        sink: Box<dyn Sink>,
    },
}

/// An edge of the graph: from an output of one stage to a port of another.
#[derive(Clone, Debug)]
pub struct Link {
    /// The stage that writes.
    pub from: StageIx,
    /// Its output: 0 is the main one.
    pub output: usize,
    /// The stage that reads.
    pub to: StageIx,
    /// Its port.
    pub port: usize,
    /// The way of rows to the slices of `to`.
    pub partition: Partition,
}

/// A graph that cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// A stage reads itself, over one or more links.
    #[error("the graph has a cycle through {}", .0.join(" -> "))]
    Cyclic(Vec<String>),
    /// A link names a missing stage, ends in a source, or begins in a sink.
    #[error("a link from `{from}` to `{to}` is not possible")]
    Link {
        /// The stage that writes.
        from: String,
        /// The stage that reads.
        to: String,
    },
    /// A stage or sink reads nothing.
    #[error("`{0}` reads nothing")]
    Unread(String),
    /// Nothing leaves the graph.
    #[error("the job has no sink")]
    NoSink,
    /// A number is out of bounds.
    #[error("`{setting}` is {value}, but must be from {min} to {max}")]
    Bounds {
        /// The name of the number.
        setting: String,
        /// The value given.
        value: u64,
        /// The least value allowed.
        min: u64,
        /// The greatest value allowed.
        max: u64,
    },
}

impl Index<StageIx> for JobGraph {
    type Output = Stage;

    fn index(&self, stage: StageIx) -> &Stage {
        &self.stages[stage.index()]
    }
}

impl IndexMut<StageIx> for JobGraph {
    fn index_mut(&mut self, stage: StageIx) -> &mut Stage {
        &mut self.stages[stage.index()]
    }
}

impl fmt::Debug for JobGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.stages.iter().map(|stage| stage.name.as_str()).collect();
        f.debug_struct("JobGraph").field("name", &self.name).field("stages", &names).finish()
    }
}

impl JobGraph {
    /// A graph without stages.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            delivery: Delivery::default(),
            cycle: CycleSpec::default(),
            buffer: BufferSpec::default(),
            state_budget: None,
            compression: CompressionSpec::default(),
            workers: 1,
            seed: 0,
            stages: Vec::new(),
            links: Vec::new(),
            dead_letter: None,
        }
    }

    /// Adds a stage.
    pub fn add(&mut self, name: impl Into<String>, kind: StageKind) -> StageIx {
        self.stages.push(Stage { name: name.into(), kind, ttl: None });
        StageIx::at(self.stages.len() - 1)
    }

    /// Adds a link from the main output of `from` to port 0 of `to`.
    pub fn link(&mut self, from: StageIx, to: StageIx, partition: Partition) {
        self.links.push(Link { from, output: 0, to, port: 0, partition });
    }

    /// Stages in an order in which each comes after those it reads.
    ///
    /// # Errors
    /// The graph cannot run; the error says why.
    pub fn check(&self) -> Result<Vec<StageIx>, GraphError> {
        bounds("stages", self.stages.len() as u64, 1, STAGES_MAX as u64)?;
        for stage in &self.stages {
            if let StageKind::Operator { slices, .. } = stage.kind {
                bounds(&format!("{}.slices", stage.name), slices.into(), 0, SLICES_MAX.into())?;
            }
        }
        for link in &self.links {
            self.check_link(link)?;
        }
        let mut reads = vec![0_usize; self.stages.len()];
        for link in &self.links {
            reads[link.to.index()] += 1;
        }
        for (stage, reads) in self.stages.iter().zip(&reads) {
            if *reads == 0 && !matches!(stage.kind, StageKind::Source { .. }) {
                return Err(GraphError::Unread(stage.name.clone()));
            }
        }
        self.sort(reads)
    }

    fn check_link(&self, link: &Link) -> Result<(), GraphError> {
        let name = |id: StageIx| {
            self.stages.get(id.index()).map_or_else(|| format!("#{id}"), |stage| stage.name.clone())
        };
        let from = self.stages.get(link.from.index()).map(|stage| &stage.kind);
        let to = self.stages.get(link.to.index()).map(|stage| &stage.kind);
        match (from, to) {
            (
                Some(StageKind::Source { .. } | StageKind::Operator { .. }),
                Some(StageKind::Operator { .. } | StageKind::Sink { .. }),
            ) => Ok(()),
            _ => Err(GraphError::Link { from: name(link.from), to: name(link.to) }),
        }
    }

    fn sort(&self, mut waits: Vec<usize>) -> Result<Vec<StageIx>, GraphError> {
        let mut sorted: Vec<StageIx> = Vec::with_capacity(self.stages.len());
        let mut ready: Vec<usize> = (0..waits.len()).rev().filter(|id| waits[*id] == 0).collect();
        while let Some(id) = ready.pop() {
            sorted.push(StageIx::at(id));
            for link in self.links.iter().filter(|link| link.from.index() == id) {
                let to = link.to.index();
                waits[to] -= 1;
                if waits[to] == 0 {
                    ready.push(to);
                }
            }
        }
        if sorted.len() == self.stages.len() {
            return Ok(sorted);
        }
        let stuck = (0..waits.len()).filter(|id| waits[*id] > 0);
        Err(GraphError::Cyclic(stuck.map(|id| self.stages[id].name.clone()).collect()))
    }
}

fn bounds(setting: &str, value: u64, min: u64, max: u64) -> Result<(), GraphError> {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(GraphError::Bounds { setting: setting.to_owned(), value, min, max })
    }
}
