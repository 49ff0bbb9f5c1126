//! A checked graph with everything looked up that stays the same while the job runs.

use super::budget::StateBudget;
use super::credit::Credit;
use super::lane::Lane;
use super::panic_guard;
use crate::block::Payload;
use crate::engine::Processes;
use crate::graph::{GraphError, JobGraph, StageKind};
use crate::operator::OperatorFactory;
use crate::partition::Partition;
use crate::sink::Sink;
use crate::source::SourceFactory;
use std::{
    ops::{Index, IndexMut},
    sync::Arc,
};
use tidemill_env::sync::atomic::AtomicU64;
use tidemill_state::ExpiryCounts;
use tidemill_types::{
    Cycle, LinkIx, Micros, ProcessIx, Span, StageIx,
    job::{BufferSpec, CycleSpec, Delivery},
};

/// The work of a stage, without the parts that only one lane may hold.
pub(crate) enum Work {
    Source { factory: Arc<dyn SourceFactory>, preload: bool },
    Operator { factory: Arc<dyn OperatorFactory> },
    Sink,
}

/// One stage: a source, an operator or a sink.
pub(crate) struct StagePlan {
    pub(crate) name: String,
    pub(crate) work: Work,
    /// The number of slices; of a source that grows, that of when the job was started.
    pub(crate) slices: u32,
    /// The number of slices when the job began. It stays the same when the job resumes.
    pub(crate) began_with: u32,
    /// A source that may get more slices.
    pub(crate) grows: bool,
    /// Position in the order of the graph: upstream before downstream.
    pub(crate) rank: u32,
    /// Links that end here, in the order of the graph.
    pub(crate) links_in: Vec<LinkIx>,
    /// Links that begin here, by output.
    pub(crate) links_out: Vec<Vec<LinkIx>>,
    /// Number of ports.
    pub(crate) ports: usize,
    /// Worker of a stage with one lane, counted before the number of workers is known.
    pub(crate) seat: usize,
    /// The process that runs it.
    pub(crate) process: ProcessIx,
    /// A key of its state leaves memory after this long without a record.
    pub(crate) ttl: Option<Span>,
    pub(crate) count: StageCounters,
}

/// The counters of a stage. Any thread reads them, the lanes of the stage write them.
#[derive(Debug, Default)]
pub(crate) struct StageCounters {
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
    pub(crate) from: StageIx,
    pub(crate) output: usize,
    pub(crate) to: StageIx,
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
    pub(crate) budget: Arc<StateBudget>,
    pub(crate) seed: u64,
    pub(crate) stages: Vec<StagePlan>,
    pub(crate) links: Vec<LinkPlan>,
    /// This process.
    pub(crate) process: ProcessIx,
}

impl Index<StageIx> for Plan {
    type Output = StagePlan;

    #[inline]
    fn index(&self, stage: StageIx) -> &StagePlan {
        &self.stages[stage.index()]
    }
}

impl IndexMut<StageIx> for Plan {
    fn index_mut(&mut self, stage: StageIx) -> &mut StagePlan {
        &mut self.stages[stage.index()]
    }
}

impl Index<LinkIx> for Plan {
    type Output = LinkPlan;

    #[inline]
    fn index(&self, link: LinkIx) -> &LinkPlan {
        &self.links[link.index()]
    }
}

/// Parts of a graph that exist once: each goes to the one lane that runs it.
pub(crate) struct GraphParts {
    /// By stage.
    pub(crate) sinks: Vec<Option<Box<dyn Sink>>>,
    pub(crate) dead_letter: Option<Box<dyn Sink>>,
}

impl Plan {
    /// Checks a graph and takes it apart.
    pub(crate) fn new(
        graph: JobGraph,
        processes: &Processes,
    ) -> Result<(Self, GraphParts), GraphError> {
        let order = graph.check()?;
        let process_of = |id: usize| processes.of_stage.get(id).copied().unwrap_or_default();
        let mut ranks = vec![0_u32; graph.stages.len()];
        for (rank, id) in order.iter().enumerate() {
            ranks[id.index()] = u32::try_from(rank).expect("bounded by STAGES_MAX");
        }
        let links: Vec<LinkPlan> = graph
            .links
            .into_iter()
            .map(|link| LinkPlan {
                from: link.from,
                output: link.output,
                to: link.to,
                port: link.port,
                partition: link.partition,
                credit: Credit::new(graph.buffer.high_watermark.0, graph.buffer.low_watermark.0),
            })
            .collect();
        let mut parts = GraphParts { sinks: Vec::new(), dead_letter: graph.dead_letter };
        let mut stages = Vec::with_capacity(graph.stages.len());
        for (id, stage) in graph.stages.into_iter().enumerate() {
            let mut grew_from = None;
            let (work, slices, sink) = match stage.kind {
                StageKind::Source { factory, preload } => {
                    let factory = panic_guard::guard_source(&stage.name, factory);
                    grew_from = factory.growth().map(|it| it.began_with().max(1));
                    let slices = factory.slices().max(1);
                    (Work::Source { factory, preload }, slices, None)
                }
                StageKind::Operator { factory, slices } => {
                    let factory = panic_guard::guard_operator(&stage.name, factory);
                    (Work::Operator { factory }, slices, None)
                }
                StageKind::Sink { sink } => (Work::Sink, 1, Some(sink)),
            };
            parts.sinks.push(sink);
            stages.push(StagePlan {
                name: stage.name,
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
                ttl: stage.ttl,
                count: StageCounters::default(),
            });
        }
        let budget =
            Arc::new(StateBudget::new(stages.iter().map(|it| it.name.clone()), graph.state_budget));
        let mut plan = Self {
            name: graph.name,
            delivery: graph.delivery,
            cycle: graph.cycle,
            buffer: graph.buffer,
            budget,
            seed: graph.seed,
            stages,
            links,
            process: processes.me,
        };
        plan.connect(&order);
        Ok((plan, parts))
    }

    fn connect(&mut self, order: &[StageIx]) {
        for (id, link) in self.links.iter().enumerate() {
            let id = LinkIx::at(id);
            let to = &mut self.stages[link.to.index()];
            to.links_in.push(id);
            to.ports = to.ports.max(link.port + 1);
            let out = &mut self.stages[link.from.index()].links_out;
            if out.len() <= link.output {
                out.resize_with(link.output + 1, Vec::new);
            }
            out[link.output].push(id);
        }
        let mut seats = 0;
        for id in order.iter().copied() {
            let links = || self[id].links_in.iter().map(|link| &self[*link]);
            let local = links().find(|link| link.partition == Partition::Local);
            let local = local.map(|link| link.from);
            let most = links().map(|link| self[link.from].began_with).max();
            if self[id].slices == 0 {
                let slices = most.unwrap_or(1).max(1);
                (self[id].slices, self[id].began_with) = (slices, slices);
            }
            self[id].seat = match local {
                Some(from) => self[from].seat,
                None => {
                    seats += 1;
                    seats - 1
                }
            };
        }
    }

    /// The ids of all stages, in the order of the job.
    pub(crate) fn ids(&self) -> impl Iterator<Item = StageIx> + use<> {
        (0..self.stages.len()).map(StageIx::at)
    }

    /// All stages with their ids, in the order of the job.
    pub(crate) fn indexed(&self) -> impl Iterator<Item = (StageIx, &StagePlan)> + Clone {
        self.stages.iter().enumerate().map(|(id, stage)| (StageIx::at(id), stage))
    }

    /// The stages, upstream before downstream.
    pub(crate) fn order(&self) -> Vec<StageIx> {
        let mut order: Vec<StageIx> = self.ids().collect();
        order.sort_by_key(|stage| self[*stage].rank);
        order
    }

    /// The last cycle that each stage processes: the last one of any stage it reads. `last` is by
    /// stage, and given for the sources.
    pub(crate) fn downstream(&self, mut last: Vec<Cycle>) -> Vec<Cycle> {
        for stage in self.order() {
            let read = self[stage].links_in.iter().map(|link| last[self[*link].from.index()]);
            last[stage.index()] = read.max().unwrap_or(last[stage.index()]);
        }
        last
    }

    /// Advances the watermark of each stage by one cycle, as [`super::operator_lane`] does. `ends` is by
    /// stage and given for the sources: the watermark at the end of the cycle, and true if the
    /// source has ended.
    pub(crate) fn advance(&self, mut ends: Vec<(Micros, bool)>, watermarks: &mut [Micros]) {
        for stage in self.order() {
            let from = self[stage].links_in.iter().map(|link| ends[self[*link].from.index()]);
            let ended = from.clone().all(|(_, ended)| ended);
            let Some(lowest) = from.map(|(watermark, _)| watermark).min() else { continue };
            let is_idle = lowest == Micros::MAX && !ended;
            if !is_idle {
                watermarks[stage.index()] = watermarks[stage.index()].max(lowest);
            }
            let held_back = match &self[stage].work {
                Work::Operator { factory } => factory.holds_back(),
                Work::Source { .. } | Work::Sink => Span(0),
            };
            let watermark = watermarks[stage.index()].minus(held_back);
            ends[stage.index()] = (if is_idle { Micros::MAX } else { watermark }, ended);
        }
    }

    /// Returns true if another stage reads the rows of this one by the slice that wrote them.
    pub(crate) fn is_read_by_slice(&self, stage: StageIx) -> bool {
        let mut links = self[stage].links_out.iter().flatten().map(|link| &self[*link]);
        links.any(|it| it.partition == Partition::Local && self[it.to].slices > 1)
    }

    /// Returns true if the stage runs in this process.
    pub(crate) fn is_here(&self, stage: StageIx) -> bool {
        self[stage].process == self.process
    }
}

/// Rows of a payload.
pub(crate) fn rows_of(payload: &Payload) -> u64 {
    (match payload {
        Payload::Arrow(batch) => batch.num_rows(),
        Payload::Rows(rows) => rows.len(),
    }) as u64
}
