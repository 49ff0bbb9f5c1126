//! One stage of a job as one or two stages of the graph.

use super::{Outlets, Planner, operators, program_calls};
use crate::check;
use crate::diagnostic::Problem;
use arrow_schema::SchemaRef;
use std::sync::Arc;
use tidemill_flow::{
    OperatorFactory, Partition, StageKind, TIME_COLUMN, partition::check_key_type,
};
use tidemill_operators::{dedup, join, top, transform, window};
use tidemill_state::structure;
use tidemill_types::job::{PartitionSpec, StageSpec, WindowSpec};
use tidemill_types::{SliceId, StageIx};

/// A stage of the graph before it is added: its operator and its inputs.
pub(super) struct PlannedPart {
    pub(super) factory: Arc<dyn OperatorFactory>,
    /// By port: the input and its partition.
    pub(super) ports: Vec<(Outlets, Partition)>,
}

/// The plan of a part of a stage, or its problem.
type Planning<T> = Result<T, Problem>;

impl Planner<'_> {
    /// Plans a stage. Problems are noted; a stage with a problem is left out.
    pub(super) fn stage(&mut self, name: &str, stage: &StageSpec) {
        if self.names.contains_key(name) || self.shared(name, stage) {
            // With one that shares its windows.
            return;
        }
        let changes = stage.flat_map.is_some() || stage.filter.is_some() || stage.select.is_some();
        let main = stage.aggregate.is_some()
            || stage.top.is_some()
            || stage.dedup.is_some()
            || stage.operator.is_some();
        let mut at = if stage.join.is_some() {
            let Some(part) = self.join(name, stage) else { return };
            let node_name = if changes { format!("{name}.join") } else { name.to_owned() };
            self.add(node_name, stage, part)
        } else {
            let Some(input) = self.union(&stage.from, &["stages", name, "from"]) else { return };
            input
        };
        if changes || (!main && stage.join.is_none() && stage.partition.is_some()) {
            let node_name = if main { format!("{name}.select") } else { name.to_owned() };
            match transform_part(name, stage, at, main) {
                Ok(part) => at = self.add(node_name, stage, part),
                Err(problem) => return self.problem(problem),
            }
        }
        if main {
            match self.main(name, stage, at) {
                Ok(part) => {
                    if stage.ttl.is_some() && !can_expire(&*part.factory) {
                        let message = "the state of this stage has no key that can leave memory";
                        let problem = Problem::new(["stages", name, "ttl"], message).at_name();
                        return self.problem(problem.expected(check::EXPIRES));
                    }
                    at = self.add(name.to_owned(), stage, part);
                }
                Err(problem) => return self.problem(problem),
            }
        }
        self.names.insert(name.to_owned(), at);
    }

    /// Adds the last stage of the graph for a stage of the job, with its links; returns its main output.
    fn add(&mut self, node_name: String, stage: &StageSpec, part: PlannedPart) -> Outlets {
        let outputs = part.factory.outputs();
        let added = self.add_stage(node_name, stage, part);
        if let (Some(late), Some(schema)) = (&stage.late, outputs.get(1)) {
            self.name(late, added, 1, Arc::clone(schema));
        }
        main_output(added, &outputs)
    }

    /// Adds a stage of the graph with its links.
    pub(super) fn add_stage(
        &mut self,
        name: String,
        stage: &StageSpec,
        part: PlannedPart,
    ) -> StageIx {
        let PlannedPart { factory, ports } = part;
        let slices = match ports.first().map(|(_, partition)| partition) {
            Some(Partition::Local) => 0,
            Some(Partition::One) => 1,
            _ => stage.slices.unwrap_or(self.spec.slices),
        };
        // Of the nodes of a stage those that keep nothing have no `ttl`.
        let ttl = stage.ttl.filter(|_| can_expire(&*factory));
        let added = self.graph.add(name, StageKind::Operator { factory, slices });
        self.graph[added].ttl = ttl;
        for (port, (from, partition)) in ports.iter().enumerate() {
            self.link(from, added, port, partition);
        }
        added
    }

    fn main(&mut self, name: &str, stage: &StageSpec, input: Outlets) -> Planning<PlannedPart> {
        let schema = Arc::clone(&input.schema);
        if let Some(aggregate) = &stage.aggregate {
            let window = stage.window.as_ref();
            let in_time = matches!(
                window,
                Some(WindowSpec::Tumbling(_) | WindowSpec::Sliding(_) | WindowSpec::Session(_))
            );
            if in_time {
                self.needs_time(&["stages", name, "window"], name, &schema)?;
            }
            let key = self.key(name, stage, &schema)?;
            let columns = stage.key.clone().unwrap_or_default();
            let factory = window::windowed(&schema, &columns, window, aggregate)
                .map_err(|error| operators::aggregate_problem(name, &error))?;
            return Ok(PlannedPart { factory, ports: vec![(input, key)] });
        }
        if let Some(top) = &stage.top {
            let made = top::top(&schema, top)
                .map_err(|error| operators::top_problem(name, top, &schema, &error))?;
            let partition = one_if_asked(stage, made.partition);
            return Ok(PlannedPart { factory: made.factory, ports: vec![(input, partition)] });
        }
        if let Some(dedup) = &stage.dedup {
            if dedup.within.is_some() {
                self.needs_time(&["stages", name, "dedup", "within"], name, &schema)?;
            }
            let key = columns_of(&["stages", name, "dedup", "on"], &dedup.on, &schema)?;
            let factory = dedup::dedup(&schema, dedup)
                .map_err(|error| operators::dedup_problem(name, &error))?;
            let partition = one_if_asked(stage, Partition::Key(key));
            return Ok(PlannedPart { factory, ports: vec![(input, partition)] });
        }
        let operator = stage.operator.as_deref().unwrap_or_default();
        let make = self.registry.operator(operator).ok_or_else(|| {
            Problem::new(["stages", name, "operator"], format!("there is no operator `{operator}`"))
        })?;
        let path = ["stages", name, "operator"];
        let made = program_calls::ask(&path, || {
            let factory = make(&schema)?;
            let outputs = factory.outputs();
            // Whether keys of it can leave memory is seen in a state that it makes.
            let _made_once = stage.ttl.map(|_| can_expire(&*factory));
            Ok((factory, outputs))
        })?;
        let (factory, outputs) = made.map_err(|message: String| Problem::new(path, message))?;
        let wrong = outputs.iter().find_map(|it| program_calls::wrong(&path, it));
        wrong.map_or(Ok(()), Err)?;
        let partition = asked_partition(name, stage, &schema)?;
        Ok(PlannedPart { factory, ports: vec![(input, partition)] })
    }

    fn join(&mut self, name: &str, stage: &StageSpec) -> Option<PlannedPart> {
        let spec = stage.join.as_ref()?;
        let right_name = spec.right.as_ref().or(spec.table.as_ref())?;
        let left = self.names.get(&spec.left)?.clone();
        let right = self.names.get(right_name)?.clone();
        if let Some(table) = &spec.table {
            let streamed = check::streamed(self.spec);
            let both = check::sources_of(self.spec, table)
                .into_iter()
                .find(|source| streamed.contains(source));
            if let Some(source) = both {
                let message = format!(
                    "the table `{table}` reads the source `{source}`, which is a stream elsewhere \
                     and cannot be read to its end first"
                );
                let problem = Problem::new(["stages", name, "join", "table"], message);
                self.problem(problem.expected("a source of its own for the table"));
                return None;
            }
        }
        if spec.right.is_some() {
            for (side, schema) in [("left", &left.schema), ("right", &right.schema)] {
                let side_name = if side == "left" { &spec.left } else { right_name };
                let path = ["stages", name, "join", side];
                if let Err(problem) = self.needs_time(&path, side_name, schema) {
                    self.problem(problem);
                    return None;
                }
            }
        }
        match join::join(&left.schema, &right.schema, spec) {
            Ok(made) => {
                let one = stage.partition == Some(PartitionSpec::One);
                let part = |keys| if one { Partition::One } else { Partition::Key(keys) };
                let ports = vec![(left, part(made.left_keys)), (right, part(made.right_keys))];
                Some(PlannedPart { factory: made.factory, ports })
            }
            Err(error) => {
                let problem =
                    operators::join_problem(name, spec, (&left.schema, &right.schema), &error);
                self.problem(problem);
                None
            }
        }
    }

    /// The partition of the link to the windows of a stage.
    pub(super) fn key(
        &self,
        name: &str,
        stage: &StageSpec,
        schema: &SchemaRef,
    ) -> Planning<Partition> {
        match &stage.key {
            Some(key) => {
                let columns = columns_of(&["stages", name, "key"], key, schema)?;
                Ok(one_if_asked(stage, Partition::Key(columns)))
            }
            None => Ok(Partition::One),
        }
    }

    /// Refuses an input without event time, naming the sources that lack it.
    fn needs_time(&self, path: &[&str], name: &str, schema: &SchemaRef) -> Planning<()> {
        if schema.column_with_name(TIME_COLUMN).is_some() {
            return Ok(());
        }
        let sources: Vec<String> = check::sources_of(self.spec, name)
            .into_iter()
            .filter(|source| self.spec.sources[*source].time.is_none())
            .map(|source| format!("`{source}`"))
            .collect();
        let message = format!("it needs event time, which {} does not have", sources.join(", "));
        let expected = "`time: {field: ...}` on the source";
        Err(Problem::new(path.iter().copied(), message).expected(expected))
    }
}

fn can_expire(factory: &dyn OperatorFactory) -> bool {
    structure::can_expire(&mut *factory.state(SliceId(0)))
}

fn main_output(stage: StageIx, outputs: &[SchemaRef]) -> Outlets {
    let schema = outputs.first().cloned().unwrap_or_else(tidemill_flow::rows_schema);
    Outlets { outlets: vec![super::Outlet { stage, output: 0 }], schema }
}

/// `flat_map`, `where` and `select` as one stage of the graph.
fn transform_part(
    name: &str,
    stage: &StageSpec,
    input: Outlets,
    main: bool,
) -> Planning<PlannedPart> {
    let made = transform::transform(
        &input.schema,
        stage.flat_map.as_ref(),
        stage.filter.as_deref(),
        stage.select.as_ref(),
    );
    let factory = made.map_err(|error| operators::transform_problem(name, &error))?;
    // With a main part behind it, or a join before it, the partition is that part's.
    let partition = if main || stage.join.is_some() {
        Partition::Local
    } else {
        asked_partition(name, stage, &input.schema)?
    };
    Ok(PlannedPart { factory, ports: vec![(input, partition)] })
}

/// The partition that a stage asks for; by key if it has one, else local.
fn asked_partition(name: &str, stage: &StageSpec, schema: &SchemaRef) -> Planning<Partition> {
    let by_key = || -> Planning<Partition> {
        let key = stage.key.as_deref().unwrap_or_default();
        let columns = columns_of(&["stages", name, "key"], key, schema)?;
        for (number, column) in columns.iter().enumerate() {
            let checked = check_key_type(schema.field(*column).data_type());
            let path = ["stages", name, "key", &number.to_string()];
            checked.map_err(|error| Problem::new(path, error.to_string()))?;
        }
        Ok(Partition::Key(columns))
    };
    match &stage.partition {
        Some(PartitionSpec::Key) => by_key(),
        Some(PartitionSpec::One) => Ok(Partition::One),
        Some(PartitionSpec::All) => Ok(Partition::All),
        Some(PartitionSpec::Random) => Ok(Partition::Random),
        None if stage.key.is_some() => by_key(),
        Some(PartitionSpec::Local) | None => Ok(Partition::Local),
    }
}

fn one_if_asked(stage: &StageSpec, partition: Partition) -> Partition {
    if stage.partition == Some(PartitionSpec::One) { Partition::One } else { partition }
}

/// The indices of columns by name.
fn columns_of(path: &[&str], names: &[String], schema: &SchemaRef) -> Planning<Vec<usize>> {
    let find = |(number, name): (usize, &String)| {
        schema.index_of(name).map_err(|_| {
            let number = number.to_string();
            let path: Vec<&str> = path.iter().copied().chain([number.as_str()]).collect();
            operators::unknown_column(&path, name, schema)
        })
    };
    names.iter().enumerate().map(find).collect()
}
