//! Jobs that may begin again by themselves.
//!
//! A node starts its jobs again when it is started again. One that keeps a ledger goes on where it
//! was; any other begins at the `start` of its sources, with empty states and with files begun anew.
//! Its delivery allows that only if all of its input comes again, or none of it has to.

use crate::diagnostic::Problem;
use tidemill_types::job::{
    DEAD_LETTER, Delivery, JobSpec, SinkSpec, SourceSpec, StageSpec, StartSpec,
};

#[cfg(test)]
mod tests;

/// Why a job cannot be left to a node: it would lose or repeat records when it begins again.
pub(super) fn refused(spec: &JobSpec) -> Option<Problem> {
    if spec.goes_on() {
        return None;
    }
    let problem = |message: &str| Some(Problem::new(["delivery"], message));
    if spec.delivery == Delivery::AtMostOnce {
        let message = "without a `checkpoint` the job would begin at the start of its sources \
                       again when its node is started again, and count records twice";
        return Some(problem(message)?.expected("a `checkpoint` too, such as `{every: 10s}`"));
    }
    let starts =
        |is: fn(&StartSpec) -> bool| spec.sources.iter().any(|(_, it)| start(it).is_some_and(is));
    if starts(|it| *it == StartSpec::Latest) {
        let message = "with `start: latest` the job would begin behind what it has not written yet \
                       when its node is started again, and lose it";
        return Some(problem(message)?.expected("`exactly-once`"));
    }
    if !starts(|it| matches!(it, StartSpec::Group(_))) {
        return None;
    }
    let why = if spec.stages.iter().any(|(_, it)| keeps(it)) {
        "the states of its stages would be empty"
    } else if spec.sinks.iter().any(|(_, it)| it.file.is_some()) {
        "the files of its sinks would be begun anew"
    } else if !spec.sinks.iter().any(|(_, it)| takes_letters(it)) {
        "the file of its dead letters would be begun anew, as no sink takes them,"
    } else {
        return None;
    };
    let message = format!(
        "when its node is started again, {why} while the group of its source stands behind what was \
         read"
    );
    Some(problem(&message)?.expected("`exactly-once`"))
}

fn start(source: &SourceSpec) -> Option<&StartSpec> {
    source.kafka.as_ref().and_then(|it| it.start.as_ref()).or(source.start.as_ref())
}

/// True if a stage has a state.
fn keeps(stage: &StageSpec) -> bool {
    let StageSpec { aggregate, top, join, dedup, operator, .. } = stage;
    aggregate.is_some() || top.is_some() || join.is_some() || dedup.is_some() || operator.is_some()
}

fn takes_letters(sink: &SinkSpec) -> bool {
    sink.from.iter().any(|it| it == DEAD_LETTER)
}
