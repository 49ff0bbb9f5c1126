//! Stages that share their windows: those with tumbling or sliding windows over the same input by the
//! same key become one stage of the graph, where that takes less memory.
//!
//! ```text
//! by key ─▶ hour+minute ┬ 0 ─▶ hour      2 ─▶ minute
//!                       └ 1 ─▶ late rows 3 ─▶ late rows
//! ```

use super::{Outlets, Planner, stage::PlannedPart};
use tidemill_flow::MEMBERS_SEPARATOR;
use tidemill_operators::window;
use tidemill_types::job::{JobSpec, StageSpec, WindowSpec};

/// True if a stage has windows over time and nothing before them.
fn is_plain(stage: &StageSpec) -> bool {
    let is_timed = matches!(stage.window, Some(WindowSpec::Tumbling(_) | WindowSpec::Sliding(_)));
    is_timed
        && stage.aggregate.is_some()
        && stage.flat_map.is_none()
        && stage.filter.is_none()
        && stage.select.is_none()
        && stage.join.is_none()
}

/// The stages whose rows reach the same slices as those of this one, by name.
fn alike<'a>(spec: &'a JobSpec, stage: &StageSpec) -> Vec<(&'a str, &'a StageSpec)> {
    let is_alike = |it: &StageSpec| {
        is_plain(it)
            && (&it.from, &it.key, &it.partition, it.slices)
                == (&stage.from, &stage.key, &stage.partition, stage.slices)
    };
    let all = spec.stages.iter().filter(|(_, it)| is_alike(it));
    let mut all: Vec<_> = all.map(|(name, it)| (name.as_str(), it)).collect();
    // So that another order in the job's file is the same node.
    all.sort_unstable_by_key(|(name, _)| *name);
    all
}

fn shared_stage<'a>((name, stage): &(&'a str, &'a StageSpec)) -> Option<window::SharedStage<'a>> {
    let (window, aggregate) = (stage.window.as_ref()?, stage.aggregate.as_ref()?);
    Some(window::SharedStage { name, window, aggregate })
}

impl Planner<'_> {
    /// Plans all stages that have the input of this one and share their windows with another.
    /// Returns true if this is one of them. A stage that is wrong shares nothing, and its own planning says
    /// the plan.
    pub(super) fn shared(&mut self, name: &str, stage: &StageSpec) -> bool {
        if !self.spec.state.share_windows || !is_plain(stage) || self.apart.contains(name) {
            return false;
        }
        let stages = alike(self.spec, stage);
        if stages.len() < 2 {
            return false;
        }
        let Some(input) = self.union(&stage.from, &["stages", name, "from"]) else {
            // The problem is noted.
            return true;
        };
        // What is not planned here plans itself, and is not asked again.
        self.apart.extend(stages.iter().map(|(name, _)| (*name).to_owned()));
        let key = stage.key.as_deref().unwrap_or_default();
        let parts: Vec<_> = stages.iter().filter_map(shared_stage).collect();
        for group in window::groups(&input.schema, key, &parts) {
            if group.len() > 1 {
                let group: Vec<_> = group.into_iter().map(|nth| stages[nth]).collect();
                self.group(&group, &input, key);
            }
        }
        self.names.contains_key(name)
    }

    /// Plans stages of the job as one of the graph.
    fn group(&mut self, stages: &[(&str, &StageSpec)], input: &Outlets, key: &[String]) {
        let Some((name, first)) = stages.first().copied() else { return };
        let parts: Vec<_> = stages.iter().filter_map(shared_stage).collect();
        let Ok(partition) = self.key(name, first, &input.schema) else { return };
        let Ok(factory) = window::shared(&input.schema, key, &parts) else { return };
        let names: Vec<&str> = stages.iter().map(|(name, _)| *name).collect();
        let outputs = factory.outputs();
        let part = PlannedPart { factory, ports: vec![(input.clone(), partition)] };
        let added = self.add_stage(names.join(&MEMBERS_SEPARATOR.to_string()), first, part);
        for (nth, (name, stage)) in stages.iter().enumerate() {
            self.name(name, added, 2 * nth, outputs[2 * nth].clone());
            if let Some(late) = &stage.late {
                self.name(late, added, 2 * nth + 1, outputs[2 * nth + 1].clone());
            }
        }
    }
}
