//! A checked graph with everything looked up that stays the same while the job runs.

use super::budget::Budget;
use super::credit::Credit;
use super::guarded;
use super::lane::Lane;
use crate::block::Payload;
use crate::engine::Processes;
use crate::graph::{GraphError, JobGraph, NodeId, NodeKind};
use crate::operator::OperatorFactory;
use crate::partition::Partition;
use crate::sink::Sink;
use crate::source::SourceFactory;
use std::sync::Arc;
use tidemill_env::sync::atomic::AtomicU64;
use tidemill_state::ExpiryCounts;
use tidemill_types::{
    Cycle, Micros, Span,
    job::{BufferSpec, CycleSpec, Delivery},
};

/// What a node does, without the parts that only one lane may hold.
pub(crate) enum Work {
    Source { factory: Arc<dyn SourceFactory>, preload: bool },
    Stage { factory: Arc<dyn OperatorFactory> },
    Sink,
}

/// One node.
pub(crate) struct NodePlan {
    pub(crate) name: String,
    pub(crate) work: Work,
    /// Of a source that grows: those that it had when the job was started.
    pub(crate) slices: u32,
    /// How many it had when the job began; that does not change while the job goes on.
    pub(crate) began_with: u32,
    /// A source that may get more slices.
    pub(crate) grows: bool,
    /// Position in the order of the graph: upstream before downstream.
    pub(crate) rank: u32,
    /// Links that end here, in the order of the graph.
    pub(crate) links_in: Vec<usize>,
    /// Links that begin here, by output.
    pub(crate) links_out: Vec<Vec<usize>>,
    /// Number of ports.
    pub(crate) ports: usize,
    /// Worker of a node with one lane, counted before the number of workers is known.
    pub(crate) seat: usize,
    /// The process that runs it.
    pub(crate) process: usize,
    /// Keys of its state leave memory when nothing came for them in so long.
    pub(crate) ttl: Option<Span>,
    pub(crate) count: NodeCount,
}

/// What a node counts. Any thread reads, its lanes write.
#[derive(Debug, Default)]
pub(crate) struct NodeCount {
    pub(crate) rows_in: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    /// A sink: rows that are committed.
    pub(crate) rows_out: AtomicU64,
    pub(crate) rows_side: AtomicU64,
    pub(crate) busy_us: AtomicU64,
    pub(crate) cycle: AtomicU64,
    pub(crate) position: AtomicU64,
    pub(crate) slices_ended: AtomicU64,
    /// A sink: the last cycle with rows.
    pub(crate) last_rows: AtomicU64,
    /// A sink: since when it commits, by the monotonic clock, in microseconds; 0 if it does not.
    pub(crate) committing_us: AtomicU64,
    /// Keys of its state that are not in memory.
    pub(crate) expiry: Arc<ExpiryCounts>,
    /// Keys that were read back while the rest of their slice was not.
    pub(crate) read_keys: Arc<AtomicU64>,
}

/// One link.
pub(crate) struct LinkPlan {
    pub(crate) from: usize,
    pub(crate) output: usize,
    pub(crate) to: usize,
    pub(crate) port: usize,
    pub(crate) partition: Partition,
    pub(crate) credit: Credit<Arc<Lane>>,
}

/// A job that can run.
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) delivery: Delivery,
    pub(crate) cycle: CycleSpec,
    pub(crate) buffer: BufferSpec,
    pub(crate) budget: Arc<Budget>,
    pub(crate) seed: u64,
    pub(crate) nodes: Vec<NodePlan>,
    pub(crate) links: Vec<LinkPlan>,
    /// The process that this is.
    pub(crate) process: usize,
}

/// Parts of a graph that exist once: each goes to the one lane that runs it.
pub(crate) struct Parts {
    /// By node.
    pub(crate) sinks: Vec<Option<Box<dyn Sink>>>,
    pub(crate) dead_letter: Option<Box<dyn Sink>>,
}

impl Plan {
    /// Checks a graph and takes it apart.
    pub(crate) fn new(graph: JobGraph, processes: &Processes) -> Result<(Self, Parts), GraphError> {
        let order = graph.check()?;
        let process_of = |node: usize| processes.of_node.get(node).copied().unwrap_or(0);
        let mut ranks = vec![0_u32; graph.nodes.len()];
        for (rank, id) in order.iter().enumerate() {
            ranks[id.0] = u32::try_from(rank).expect("bounded by STAGES_MAX");
        }
        let links: Vec<LinkPlan> = graph
            .links
            .into_iter()
            .map(|link| LinkPlan {
                from: link.from.0,
                output: link.output,
                to: link.to.0,
                port: link.port,
                partition: link.partition,
                credit: Credit::new(graph.buffer.high_watermark.0, graph.buffer.low_watermark.0),
            })
            .collect();
        let mut parts = Parts { sinks: Vec::new(), dead_letter: graph.dead_letter };
        let mut nodes = Vec::with_capacity(graph.nodes.len());
        for (id, node) in graph.nodes.into_iter().enumerate() {
            let mut grew_from = None;
            let (work, slices, sink) = match node.kind {
                NodeKind::Source { factory, preload } => {
                    let factory = guarded::source(&node.name, factory);
                    grew_from = factory.grows().then(|| factory.began_with().max(1));
                    let slices = factory.slices().max(1);
                    (Work::Source { factory, preload }, slices, None)
                }
                NodeKind::Stage { factory, slices } => {
                    let factory = guarded::stage(&node.name, factory);
                    (Work::Stage { factory }, slices, None)
                }
                NodeKind::Sink { sink } => (Work::Sink, 1, Some(sink)),
            };
            parts.sinks.push(sink);
            nodes.push(NodePlan {
                name: node.name,
                work,
                slices,
                began_with: grew_from.unwrap_or(slices),
                grows: grew_from.is_some(),
                rank: ranks[id],
                links_in: Vec::new(),
                links_out: Vec::new(),
                ports: 0,
                seat: 0,
                process: process_of(id),
                ttl: node.ttl,
                count: NodeCount::default(),
            });
        }
        let budget =
            Arc::new(Budget::new(nodes.iter().map(|it| it.name.clone()), graph.state_budget));
        let mut plan = Self {
            name: graph.name,
            delivery: graph.delivery,
            cycle: graph.cycle,
            buffer: graph.buffer,
            budget,
            seed: graph.seed,
            nodes,
            links,
            process: processes.me,
        };
        plan.connect(&order);
        Ok((plan, parts))
    }

    fn connect(&mut self, order: &[NodeId]) {
        for (id, link) in self.links.iter().enumerate() {
            self.nodes[link.to].links_in.push(id);
            let ports = &mut self.nodes[link.to].ports;
            *ports = (*ports).max(link.port + 1);
            let out = &mut self.nodes[link.from].links_out;
            if out.len() <= link.output {
                out.resize_with(link.output + 1, Vec::new);
            }
            out[link.output].push(id);
        }
        let mut seats = 0;
        for id in order {
            let local = self.nodes[id.0]
                .links_in
                .iter()
                .map(|link| &self.links[*link])
                .find(|link| link.partition == Partition::Local)
                .map(|link| link.from);
            if self.nodes[id.0].slices == 0 {
                let first = self.nodes[id.0].links_in.iter().map(|link| self.links[*link].from);
                let most = first.map(|from| self.nodes[from].began_with).max();
                self.nodes[id.0].slices = most.unwrap_or(1).max(1);
                self.nodes[id.0].began_with = self.nodes[id.0].slices;
            }
            self.nodes[id.0].seat = match local {
                Some(from) => self.nodes[from].seat,
                None => {
                    seats += 1;
                    seats - 1
                }
            };
        }
    }

    /// The nodes, upstream before downstream.
    pub(crate) fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by_key(|node| self.nodes[*node].rank);
        order
    }

    /// By node, given for the sources: the last cycle that each processes, which is the last of what
    /// feeds it.
    pub(crate) fn downstream(&self, mut last: Vec<Cycle>) -> Vec<Cycle> {
        for node in self.order() {
            let from = self.nodes[node].links_in.iter().map(|link| last[self.links[*link].from]);
            last[node] = from.max().unwrap_or(last[node]);
        }
        last
    }

    /// Event time goes on by a cycle, at each node, as `StageLane` has it: `told` is given for the
    /// sources, what they say at its end and whether they have ended.
    pub(crate) fn go_on(&self, mut told: Vec<(Micros, bool)>, watermarks: &mut [Micros]) {
        for node in self.order() {
            let from = self.nodes[node].links_in.iter().map(|link| told[self.links[*link].from]);
            let ended = from.clone().all(|(_, ended)| ended);
            let Some(lowest) = from.map(|(watermark, _)| watermark).min() else { continue };
            let is_idle = lowest == Micros::MAX && !ended;
            if !is_idle {
                watermarks[node] = watermarks[node].max(lowest);
            }
            let held_back = match &self.nodes[node].work {
                Work::Stage { factory } => factory.holds_back(),
                Work::Source { .. } | Work::Sink => Span(0),
            };
            let says = if is_idle { Micros::MAX } else { watermarks[node].minus(held_back) };
            told[node] = (says, ended);
        }
    }

    /// Whether a stage reads what the node writes under the slices that write it.
    pub(crate) fn is_read_by_slice(&self, node: usize) -> bool {
        let mut links = self.nodes[node].links_out.iter().flatten().map(|link| &self.links[*link]);
        links.any(|it| it.partition == Partition::Local && self.nodes[it.to].slices > 1)
    }

    /// Whether the node runs in this process.
    pub(crate) fn is_here(&self, node: usize) -> bool {
        self.nodes[node].process == self.process
    }
}

/// Rows of a payload.
pub(crate) fn rows_of(payload: &Payload) -> u64 {
    (match payload {
        Payload::Arrow(batch) => batch.num_rows(),
        Payload::Rows(rows) => rows.len(),
    }) as u64
}
