//! A job as the engine takes it: nodes and links, with the parts that run already made.

use crate::operator::OperatorFactory;
use crate::partition::Partition;
use crate::sink::Sink;
use crate::source::SourceFactory;
use std::{fmt, sync::Arc};
use tidemill_types::job::{BufferSpec, CompressionSpec, CycleSpec, Delivery};
use tidemill_types::limits::{SLICES_MAX, STAGES_MAX};
use tidemill_types::{ByteSize, Span};

/// A node of a graph: its index in [`JobGraph::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// A job: settings, nodes and links.
pub struct JobGraph {
    /// The job's name.
    pub name: String,
    /// What a failure may do to the output.
    pub delivery: Delivery,
    /// When a cycle ends.
    pub cycle: CycleSpec,
    /// Buffers of links.
    pub buffer: BufferSpec,
    /// Bytes of memory that the state of all stages may take. Default: as many as it needs.
    pub state_budget: Option<ByteSize>,
    /// LZ4 on links that leave the process.
    pub compression: CompressionSpec,
    /// Worker threads.
    pub workers: usize,
    /// Seed of everything random in the job.
    pub seed: u64,
    /// Sources, stages and sinks.
    pub nodes: Vec<Node>,
    /// What flows between them.
    pub links: Vec<Link>,
    /// Takes the job's dead letters, as rows of [`dead_letter_schema`](crate::letter::schema).
    pub dead_letter: Option<Box<dyn Sink>>,
}

/// A source, stage or sink.
pub struct Node {
    /// Its name, unique in the job.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// A stage: keys of its state that nothing came for in so long leave memory, and are read back
    /// when something does. Default: all stay.
    pub ttl: Option<Span>,
}

/// What a node is.
pub enum NodeKind {
    /// Reads records.
    Source {
        /// Opens its slices.
        factory: Arc<dyn SourceFactory>,
        /// Read to its end before other sources begin: the table side of a join.
        preload: bool,
    },
    /// Runs an operator.
    Stage {
        /// Makes its operators.
        factory: Arc<dyn OperatorFactory>,
        /// Number of slices. Zero: as many as the nodes it reads with the partition `local`.
        slices: u32,
    },
    /// Takes results.
    Sink {
        /// The sink.
        sink: Box<dyn Sink>,
    },
}

/// What flows from an output of one node to an input of another.
#[derive(Clone, Debug)]
pub struct Link {
    /// The node that writes.
    pub from: NodeId,
    /// Its output: 0 is the main one.
    pub output: usize,
    /// The node that reads.
    pub to: NodeId,
    /// Its port.
    pub port: usize,
    /// How rows reach the slices of `to`.
    pub partition: Partition,
}

/// Why a graph cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// A node reads itself, over one or more links.
    #[error("the graph has a cycle through {}", .0.join(" -> "))]
    Cyclic(Vec<String>),
    /// A link names a node that is not there, or ends in a source, or begins in a sink.
    #[error("a link from `{from}` to `{to}` is not possible")]
    Link {
        /// The node that writes.
        from: String,
        /// The node that reads.
        to: String,
    },
    /// A stage or sink reads nothing.
    #[error("`{0}` reads nothing")]
    Unread(String),
    /// Nothing leaves the graph.
    #[error("the job has no sink")]
    NoSink,
    /// A number is out of bounds.
    #[error("`{what}` is {value}, but must be from {min} to {max}")]
    Bounds {
        /// Which number.
        what: String,
        /// What it is.
        value: u64,
        /// The least it may be.
        min: u64,
        /// The most it may be.
        max: u64,
    },
}

impl fmt::Debug for JobGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
        f.debug_struct("JobGraph").field("name", &self.name).field("nodes", &names).finish()
    }
}

impl JobGraph {
    /// A graph without nodes.
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
            nodes: Vec::new(),
            links: Vec::new(),
            dead_letter: None,
        }
    }

    /// Adds a node.
    pub fn add(&mut self, name: impl Into<String>, kind: NodeKind) -> NodeId {
        self.nodes.push(Node { name: name.into(), kind, ttl: None });
        NodeId(self.nodes.len() - 1)
    }

    /// Adds a link from the main output of `from` to port 0 of `to`.
    pub fn link(&mut self, from: NodeId, to: NodeId, partition: Partition) {
        self.links.push(Link { from, output: 0, to, port: 0, partition });
    }

    /// Nodes in an order in which each comes after those it reads.
    ///
    /// # Errors
    /// The graph cannot run; the error says why.
    pub fn check(&self) -> Result<Vec<NodeId>, GraphError> {
        bounds("nodes", self.nodes.len() as u64, 1, STAGES_MAX as u64)?;
        for node in &self.nodes {
            if let NodeKind::Stage { slices, .. } = node.kind {
                bounds(&format!("{}.slices", node.name), slices.into(), 0, SLICES_MAX.into())?;
            }
        }
        for link in &self.links {
            self.check_link(link)?;
        }
        let mut reads = vec![0_usize; self.nodes.len()];
        for link in &self.links {
            reads[link.to.0] += 1;
        }
        for (node, reads) in self.nodes.iter().zip(&reads) {
            if *reads == 0 && !matches!(node.kind, NodeKind::Source { .. }) {
                return Err(GraphError::Unread(node.name.clone()));
            }
        }
        self.sort(reads)
    }

    fn check_link(&self, link: &Link) -> Result<(), GraphError> {
        let name = |id: NodeId| {
            self.nodes.get(id.0).map_or_else(|| format!("#{}", id.0), |node| node.name.clone())
        };
        let from = self.nodes.get(link.from.0).map(|node| &node.kind);
        let to = self.nodes.get(link.to.0).map(|node| &node.kind);
        match (from, to) {
            (
                Some(NodeKind::Source { .. } | NodeKind::Stage { .. }),
                Some(NodeKind::Stage { .. } | NodeKind::Sink { .. }),
            ) => Ok(()),
            _ => Err(GraphError::Link { from: name(link.from), to: name(link.to) }),
        }
    }

    fn sort(&self, mut waits: Vec<usize>) -> Result<Vec<NodeId>, GraphError> {
        let mut sorted: Vec<NodeId> = Vec::with_capacity(self.nodes.len());
        let mut ready: Vec<usize> = (0..waits.len()).rev().filter(|id| waits[*id] == 0).collect();
        while let Some(id) = ready.pop() {
            sorted.push(NodeId(id));
            for link in self.links.iter().filter(|link| link.from.0 == id) {
                waits[link.to.0] -= 1;
                if waits[link.to.0] == 0 {
                    ready.push(link.to.0);
                }
            }
        }
        if sorted.len() == self.nodes.len() {
            return Ok(sorted);
        }
        let stuck = (0..waits.len()).filter(|id| waits[*id] > 0);
        Err(GraphError::Cyclic(stuck.map(|id| self.nodes[id].name.clone()).collect()))
    }
}

fn bounds(what: &str, value: u64, min: u64, max: u64) -> Result<(), GraphError> {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(GraphError::Bounds { what: what.to_owned(), value, min, max })
    }
}
