//! Jobs that were changed and go on without a checkpoint: only with the stages that they had.

use super::checkpoints::kill;
use super::*;
use crate::has_ledger;
use tidemill_types::job::Delivery;

/// Does what another does, in other words.
struct Worded(Arc<dyn OperatorFactory>, &'static str);

impl OperatorFactory for Worded {
    fn outputs(&self) -> Vec<SchemaRef> {
        self.0.outputs()
    }
    fn operator(&self) -> Box<dyn Operator> {
        self.0.operator()
    }
    fn state(&self, slice: SliceId) -> SliceState {
        self.0.state(slice)
    }
    fn does(&self) -> String {
        self.1.to_owned()
    }
}

/// The job of `graph`, but for what is done to it.
fn changed(sink: &Collect, change: impl FnOnce(&mut JobGraph)) -> JobGraph {
    let mut graph = graph(&Setup { count: 100_000, ..SETUP }, sink);
    change(&mut graph);
    graph
}

fn second(graph: &mut JobGraph) -> (&mut Arc<dyn OperatorFactory>, &mut u32) {
    let stage = graph.stages.iter_mut().find(|it| it.name == "second").expect("a stage");
    match &mut stage.kind {
        StageKind::Operator { factory, slices } => (factory, slices),
        _ => unreachable!("it is a stage"),
    }
}

fn does_else(graph: &mut JobGraph) {
    let (factory, _) = second(graph);
    *factory = Arc::new(Worded(Arc::clone(factory), "something else"));
}

/// A life that is killed when it has committed something.
fn killed(graph: JobGraph, options: &RunOptions) {
    let handle = start(graph, &World::real(), options).expect("it starts");
    while handle.progress().cycle_committed == Cycle::NONE {
        std::thread::yield_now();
    }
    kill(&handle);
}

#[test]
fn without_a_checkpoint_a_job_goes_on_with_the_stages_that_it_had_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = Some(folder.path().to_owned());
    let options = RunOptions { data, resume: true, ..RunOptions::default() };
    let sink = Collect::default();
    let undisturbed = run(&Setup { count: 100_000, ..SETUP });
    let world = World::real();
    killed(changed(&sink, |_| ()), &options);
    let fewer = |graph: &mut JobGraph| *second(graph).1 = 3;
    let renamed = |graph: &mut JobGraph| {
        let stage = graph.stages.iter_mut().find(|it| it.name == "second");
        stage.expect("a stage").name = "third".to_owned();
    };
    for (graph, expected) in [
        (
            changed(&sink, does_else),
            "stage `second` does something else now: something else; it did: key Int64, sum Int64",
        ),
        (changed(&sink, fewer), "stage `second` has 3 slices now, and had 7"),
        (changed(&sink, renamed), "the job has no stage `second` any more"),
    ] {
        let error = start(graph, &world, &options).err().expect("refused");
        assert!(matches!(error, StartError::Ledger { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    // As it was it goes on, and anew it may be anything.
    killed(changed(&sink, |_| ()), &options);
    let handle = start(changed(&sink, |_| ()), &world, &options).expect("it starts");
    assert!(handle.wait().expect("it ends well").finished);
    assert!(rows(&sink) == undisturbed);
    let anew = RunOptions { resume: false, ..options.clone() };
    killed(changed(&sink, does_else), &anew);
    let error = start(changed(&sink, |_| ()), &world, &options).err().expect("refused");
    assert!(error.to_string().contains("stage `second` does something else now"), "{error}");
}

#[test]
fn a_note_that_is_damaged_is_told_and_a_ledger_without_one_is_of_an_older_build() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = Some(folder.path().to_owned());
    let options = RunOptions { data, resume: true, ..RunOptions::default() };
    let (sink, world) = (Collect::default(), World::real());
    killed(changed(&sink, |_| ()), &options);
    let note = folder.path().join("ledger.stages");
    let whole = std::fs::read(&note).expect("it was noted");
    std::fs::write(&note, &whole[..whole.len() - 1]).expect("it is written");
    let error = start(changed(&sink, |_| ()), &world, &options).err().expect("refused");
    assert!(error.to_string().contains("ledger.stages: it is damaged"), "{error}");
    let anew = RunOptions { resume: false, ..options.clone() };
    killed(changed(&sink, |_| ()), &anew);
    std::fs::remove_file(&note).expect("it is there again");
    killed(changed(&sink, does_else), &options);
    let error = start(changed(&sink, |_| ()), &world, &options).err().expect("refused");
    assert!(error.to_string().contains("it did: something else"), "{error}");
}

#[test]
fn a_ledger_says_nothing_of_what_a_job_without_one_has_done_since() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = Some(folder.path().to_owned());
    let options = RunOptions { data, resume: true, ..RunOptions::default() };
    let (sink, world) = (Collect::default(), World::real());
    killed(changed(&sink, |_| ()), &options);
    let at_least_once = |graph: &mut JobGraph| graph.delivery = Delivery::AtLeastOnce;
    let anew = RunOptions { resume: false, ..options.clone() };
    let handle = start(changed(&sink, at_least_once), &world, &anew).expect("it starts");
    handle.wait().expect("it ends well");
    assert!(!has_ledger(&*world.disk, folder.path()));
    assert!(!folder.path().join("ledger.stages").exists());
}
