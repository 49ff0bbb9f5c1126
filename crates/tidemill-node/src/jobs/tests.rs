//! Jobs outlive the node that runs them.

use super::*;
use std::{fs, os::unix::fs::PermissionsExt, time::Duration};
use tempfile::TempDir;
use tidemill_env::Spawn;
use tidemill_log::{Log, LogOptions, StreamSpec};
use tidemill_types::CheckpointNumber;

pub(super) struct Node {
    pub(super) jobs: Arc<Jobs>,
    streams: Streams,
}

fn node(folder: &TempDir) -> Node {
    Node::open(folder)
}

impl Node {
    fn folder_of(&self, name: &str) -> Folder {
        self.jobs.folder_of(name)
    }

    pub(super) fn open(folder: &TempDir) -> Self {
        Self::open_in(World::real(), folder)
    }

    fn open_in(world: World, folder: &TempDir) -> Self {
        let streams = Streams::open(&world, folder.path(), false).unwrap();
        Self { jobs: Jobs::open(&world, streams.clone(), folder.path()).unwrap(), streams }
    }

    pub(super) fn stop(self) {
        self.jobs.close();
        self.streams.close();
    }

    pub(super) fn wait(&self, name: &str, done: impl Fn(&JobView) -> bool) -> JobView {
        let clock = World::real().clock;
        for _ in 0..20_000 {
            let view = self.jobs.get(name).unwrap();
            if done(&view) {
                return view;
            }
            clock.sleep_micros(Duration::from_millis(1).as_micros() as u64);
        }
        panic!("{name}: {:?}", self.jobs.get(name));
    }
}

fn submission(folder: &TempDir, text: &str) -> Submission {
    Submission {
        text: text.to_owned(),
        file: "job.yaml".to_owned(),
        base_dir: Some(folder.path().to_owned()),
        ..Submission::default()
    }
}

const FILL: &str = "
name: fill
sources: {lines: {file: {path: in.ndjson, format: json}}}
sinks: {out: {from: lines, stream: {name: numbers, key: [n], streamlets: 2}}}
";
const DOUBLE: &str = "
name: double
sources: {numbers: {stream: numbers, format: json}}
stages: {twice: {from: numbers, select: {n: n * 2}}}
sinks: {out: {from: twice, file: {path: out.ndjson, format: json}}}
";

fn fill(node: &Node, folder: &TempDir, from: i64, to: i64) {
    let lines: String = (from..to).map(|it| format!("{{\"n\":{it}}}\n")).collect();
    fs::write(folder.path().join("in.ndjson"), lines).unwrap();
    node.jobs.submit(submission(folder, FILL)).unwrap();
    node.wait("fill", |it| it.status == Status::Finished);
}

fn numbers(folder: &TempDir) -> Vec<i64> {
    let text = fs::read_to_string(folder.path().join("out.ndjson")).unwrap();
    let number = |line: &str| line.trim_matches(|it: char| !it.is_ascii_digit()).parse().unwrap();
    let mut all: Vec<i64> = text.lines().map(number).collect();
    all.sort_unstable();
    all
}

#[test]
fn a_job_goes_on_when_its_node_starts_again() {
    let folder = TempDir::new().unwrap();
    let first = node(&folder);
    fill(&first, &folder, 0, 100);
    first.jobs.submit(submission(&folder, DOUBLE)).unwrap();
    first.wait("double", |it| rows(it) == 100);
    let again = first.jobs.submit(submission(&folder, DOUBLE));
    assert!(matches!(again, Err(JobsError::Running(_))));
    let view = first.jobs.rescale("double", 1).unwrap();
    assert_eq!(view.status, Status::Running);
    first.stop();

    let second = node(&folder);
    assert_eq!(second.jobs.get("fill").unwrap().status, Status::Finished);
    fill(&second, &folder, 100, 250);
    // What the file holds already is not written again.
    second.wait("double", |it| rows(it) == 150 && it.progress.as_ref().unwrap().workers == 1);
    second.jobs.cancel("double").unwrap();
    second.wait("double", |it| it.status == Status::Cancelled);
    assert_eq!(numbers(&folder), (0..250).map(|it| it * 2).collect::<Vec<_>>());
    assert!(matches!(second.jobs.cancel("double"), Err(JobsError::Ended(_))));
    second.stop();

    let third = node(&folder);
    let statuses: Vec<_> = third.jobs.list().into_iter().map(|it| (it.name, it.status)).collect();
    assert_eq!(
        statuses,
        [("double".to_owned(), Status::Cancelled), ("fill".to_owned(), Status::Finished)]
    );
    third.stop();
}

#[test]
fn what_is_refused_leaves_nothing_behind() {
    let folder = TempDir::new().unwrap();
    let node = node(&folder);
    for (text, expected) in [
        ("name: x\nsources: {}\nsinks: {}\n", "no source"),
        (DOUBLE, "there is no stream `numbers`"),
        (
            "name: ../up\nsources: {a: {stream: s, format: text}}\nsinks: {b: {from: a, blackhole: {}}}\n",
            "name",
        ),
        (
            "name: x\nsources: {a: {file: {path: in.ndjson, format: text}}}\nsinks: {b: {from: a, stdout: {}}}\n",
            "`file`, `stream`, `kafka`, `postgres` or `blackhole`",
        ),
    ] {
        let error = node.jobs.submit(submission(&folder, text)).expect_err("it is wrong");
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(node.jobs.list().is_empty());
    assert!(fs::read_dir(folder.path().join("jobs")).unwrap().next().is_none());
    assert!(matches!(node.jobs.get("none"), Err(JobsError::Unknown(_))));
    node.stop();
}

#[test]
fn a_job_that_cannot_start_again_fails_and_the_others_run() {
    let folder = TempDir::new().unwrap();
    let first = node(&folder);
    fill(&first, &folder, 0, 10);
    first.jobs.submit(submission(&folder, DOUBLE)).unwrap();
    let kept = fs::metadata(folder.path().join("jobs/double/job.json")).unwrap();
    assert_eq!(kept.permissions().mode() & 0o777, 0o600, "it may hold a password");
    first.stop();
    let world = World::real();
    let log = Log::open(&world, &folder.path().join("log"), LogOptions::default()).unwrap();
    log.delete("numbers").unwrap();
    log.close();
    // The node was killed while it took another, and while it took one that it had.
    fs::write(folder.path().join("jobs/fill/job.json.new"), "{").unwrap();
    fs::create_dir(folder.path().join("jobs/begun")).unwrap();
    fs::write(folder.path().join("jobs/begun/job.json.new"), "{").unwrap();
    fs::create_dir(folder.path().join("jobs/odd")).unwrap();
    fs::write(folder.path().join("jobs/odd/job.json"), "no JSON").unwrap();

    let second = node(&folder);
    let view = second.jobs.get("double").unwrap();
    assert!(matches!(&view.status, Status::Failed(it) if it.contains("numbers")), "{view:?}");
    assert_eq!(second.jobs.list().len(), 2);
    second.stop();
    assert!(folder.path().join("jobs/odd/job.json").exists(), "nothing is deleted");
    assert!(!folder.path().join("jobs/begun").exists(), "it may hold a password");
    assert!(!folder.path().join("jobs/fill/job.json.new").exists());
}

#[test]
fn a_job_that_has_ended_is_deleted_with_its_folder_and_may_come_again() {
    let folder = TempDir::new().unwrap();
    let first = node(&folder);
    fill(&first, &folder, 0, 10);
    first.jobs.submit(submission(&folder, DOUBLE)).unwrap();
    let refused = first.jobs.delete("double").expect_err("it runs");
    assert!(matches!(refused, JobsError::NotEnded(_)), "{refused}");
    first.jobs.cancel("double").unwrap();
    first.wait("double", |it| it.status == Status::Cancelled);
    first.jobs.delete("double").unwrap();
    assert!(matches!(first.jobs.get("double"), Err(JobsError::Unknown(_))));
    assert!(!folder.path().join("jobs/double").exists());
    first.jobs.submit(submission(&folder, DOUBLE)).unwrap();
    first.wait("double", |it| rows(it) == 10);
    first.jobs.delete("fill").unwrap();
    first.stop();
    let second = node(&folder);
    let names: Vec<_> = second.jobs.list().into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["double"]);
    second.stop();
}

#[test]
fn asking_for_jobs_that_never_were_leaves_nothing_behind() {
    let folder = TempDir::new().unwrap();
    let node = node(&folder);
    for nth in 0..100 {
        let name = format!("no-{nth}");
        let asked = node.jobs.query_state((&name, "stage"), StateOf::Now, "SELECT * FROM state");
        assert!(matches!(asked, Err(JobsError::Unknown(_))), "{asked:?}");
        assert!(matches!(node.jobs.delete(&name), Err(JobsError::Unknown(_))));
    }
    assert!(node.jobs.turns.lock().unwrap().len() <= 1);
    node.stop();
}

#[test]
fn a_job_whose_stream_is_deleted_fails_and_says_so() {
    let folder = TempDir::new().unwrap();
    let node = node(&folder);
    fill(&node, &folder, 0, 10);
    node.jobs.submit(submission(&folder, DOUBLE)).unwrap();
    node.wait("double", |it| it.progress.as_ref().is_some_and(|it| it.sinks[0].rows == 10));
    node.streams.log().delete("numbers").unwrap();
    let ended = node.wait("double", |it| it.status != Status::Running);
    match ended.status {
        Status::Failed(why) => assert!(why.contains("numbers") && why.contains("deleted"), "{why}"),
        other => panic!("{other:?}"),
    }
    node.stop();
}

#[test]
fn a_node_does_not_wait_for_a_job_that_does_not_end() {
    let folder = TempDir::new().unwrap();
    let node = node(&folder);
    fill(&node, &folder, 0, 10);
    node.jobs.submit(submission(&folder, DOUBLE)).unwrap();
    node.wait("double", |it| it.progress.as_ref().is_some_and(|it| it.sinks[0].rows == 10));
    // Its end is not noted before this is given back, so it has not ended for anybody.
    let notes = node.jobs.notes.lock().unwrap();
    node.jobs.begin_to_close();
    let until_us = node.jobs.state().until_us;
    let (jobs, (tell, told)) = (Arc::clone(&node.jobs), std::sync::mpsc::channel());
    let close = move || {
        jobs.close();
        tell.send(()).unwrap();
    };
    drop(World::real().spawn.spawn("closes", Box::new(close)));
    told.recv_timeout(Duration::from_secs(60)).expect("the node stops");
    assert_eq!(node.jobs.state().until_us, until_us, "its time runs from when it was told");
    drop(notes);
    node.stop();
    let node = Node::open(&folder);
    node.wait("double", |it| it.status == Status::Running);
    node.stop();
}

fn rows(job: &JobView) -> u64 {
    job.progress.as_ref().map_or(0, |it| it.sinks[0].rows)
}

/// A job has doubled ten numbers and was cancelled: its folder, and what is noted there.
fn has_run(folder: &TempDir) -> (Folder, JobRecord) {
    let node = node(folder);
    fill(&node, folder, 0, 10);
    node.jobs.submit(submission(folder, DOUBLE)).unwrap();
    node.wait("double", |it| rows(it) == 10);
    node.jobs.cancel("double").unwrap();
    node.wait("double", |it| it.status == Status::Cancelled);
    let of = node.folder_of("double");
    let record = of.read().unwrap().unwrap();
    node.stop();
    (of, record)
}

/// A job of this name has run; another is submitted, and the node is killed before it is known
/// whether that has begun.
#[test]
fn a_submission_that_a_crash_cut_short_begins_and_does_not_go_on_with_the_life_before() {
    let folder = TempDir::new().unwrap();
    let (of, mut record) = has_run(&folder);
    assert_eq!(record.begins, None);

    // The file was noted, and the ledger is still that of the life before.
    let begins = Begins { resume: false, from: None, life: 7 };
    record.text = DOUBLE.replace("n * 2", "n * 3");
    (record.status, record.begins) = (Status::Running, Some(begins));
    of.write(&record).unwrap();
    let second = node(&folder);
    second.wait("double", |it| rows(it) == 10);
    assert_eq!(of.read().unwrap().unwrap().begins, None, "it has begun");
    second.stop();
    assert_eq!(numbers(&folder), (0..10).map(|it| it * 3).collect::<Vec<_>>());

    // It had begun, and that was not noted: it does not begin once more.
    of.write(&record).unwrap();
    let third = node(&folder);
    fill(&third, &folder, 10, 15);
    third.wait("double", |it| rows(it) == 5);
    third.stop();
    assert_eq!(numbers(&folder), (0..15).map(|it| it * 3).collect::<Vec<_>>());
}

/// Whoever submitted was not answered: the node was killed before it knew that it refuses.
#[test]
fn a_submission_that_was_cut_short_and_is_refused_leaves_the_job_as_it_was() {
    let folder = TempDir::new().unwrap();
    let (of, before) = has_run(&folder);

    let begins = Some(Begins { resume: true, from: Some(CheckpointNumber(99)), life: 7 });
    let (status, text) = (Status::Running, DOUBLE.replace("n * 2", "n * 3"));
    let record =
        JobRecord { status, text, begins, before: Some(before.clone().into()), ..before.clone() };
    of.write(&record).unwrap();
    let second = node(&folder);
    second.wait("double", |it| it.status == Status::Cancelled);
    second.stop();
    assert_eq!(of.read().unwrap().unwrap(), before);
}

/// A folder stands where the note is to be written, in place of a full disk.
#[test]
fn what_could_not_be_noted_is_noted_later() {
    let folder = TempDir::new().unwrap();
    let node = node(&folder);
    fill(&node, &folder, 0, 10);
    node.jobs.submit(submission(&folder, DOUBLE)).unwrap();
    let of = node.folder_of("double");
    let in_the_way = of.path().join("job.json.new");
    fs::create_dir(&in_the_way).unwrap();
    node.jobs.cancel("double").unwrap();
    node.wait("double", |it| it.status == Status::Cancelled);
    node.jobs.note_again();
    assert_eq!(of.read().unwrap().unwrap().status, Status::Running, "it cannot be noted yet");
    fs::remove_dir(&in_the_way).unwrap();
    node.jobs.note_again();
    assert_eq!(of.read().unwrap().unwrap().status, Status::Cancelled);
    node.stop();
}

/// Puts a folder in the way when the next thread is started.
struct InTheWay {
    threads: Arc<dyn Spawn>,
    path: Arc<Mutex<Option<PathBuf>>>,
}

impl Spawn for InTheWay {
    fn try_spawn(
        &self,
        name: &str,
        body: Box<dyn FnOnce() + Send>,
    ) -> std::io::Result<Box<dyn Thread>> {
        if let Some(path) = self.path.lock().unwrap().take() {
            fs::create_dir(path).unwrap();
        }
        self.threads.try_spawn(name, body)
    }
}

/// The disk takes the first note, and no other when the job's threads have been started.
#[test]
fn a_job_that_goes_on_and_of_which_that_cannot_be_noted_is_stopped_and_told_of() {
    let folder = TempDir::new().unwrap();
    let path = Arc::new(Mutex::new(None));
    let mut world = World::real();
    world.spawn = Arc::new(InTheWay { threads: Arc::clone(&world.spawn), path: Arc::clone(&path) });
    let node = Node::open_in(world, &folder);
    fill(&node, &folder, 0, 10);
    let text = format!("{DOUBLE}checkpoint: {{every: 1h}}\n");
    node.jobs.submit(submission(&folder, &text)).unwrap();
    node.wait("double", |it| rows(it) == 10);
    let number = node.jobs.keep_checkpoint("double", "kept").unwrap().number;
    node.jobs.cancel("double").unwrap();
    node.wait("double", |it| it.status == Status::Cancelled);
    let of = node.folder_of("double");
    let before = of.read().unwrap().unwrap();

    let in_the_way = of.path().join("job.json.new");
    *path.lock().unwrap() = Some(in_the_way.clone());
    let error = node.jobs.restore("double", number, false, None).unwrap_err();
    assert!(matches!(error, JobsError::NotNoted { .. }), "{error}");
    assert_eq!(node.jobs.get("double").unwrap().status, Status::Cancelled);
    fs::remove_dir(&in_the_way).unwrap();
    node.jobs.note_again();
    assert_eq!(of.read().unwrap().unwrap(), before);

    let restored = node.jobs.restore("double", number, false, None).unwrap();
    assert_eq!(restored.status, Status::Running);
    assert_eq!(of.read().unwrap().unwrap().begins, None, "it is noted when that is answered");
    fill(&node, &folder, 10, 15);
    node.wait("double", |it| rows(it) == 5);
    node.stop();
    assert_eq!(numbers(&folder), (0..15).map(|it| it * 2).collect::<Vec<_>>());
}

/// It was answered that it has begun anew: there is nothing to go back to.
#[test]
fn a_job_that_has_begun_anew_is_not_put_back_though_that_was_not_noted() {
    let folder = TempDir::new().unwrap();
    let (of, before) = has_run(&folder);
    let begins = Some(Begins { resume: false, from: None, life: 7 });
    let mut record = JobRecord {
        status: Status::Running,
        begins,
        before: Some(before.clone().into()),
        ..before
    };
    of.write(&record).unwrap();
    let second = node(&folder);
    second.wait("double", |it| rows(it) == 10);
    second.stop();
    record.text = DOUBLE.replace("stream: numbers", "stream: gone");
    of.write(&record).unwrap();
    let third = node(&folder);
    third.wait("double", |it| matches!(it.status, Status::Failed(_)));
    third.stop();
    assert_eq!(of.read().unwrap().unwrap().text, record.text);
}

/// What has no end is not read to its end first: neither a source that nothing is made of, nor a
/// table that is a stream.
#[test]
fn a_live_source_holds_nobody_back() {
    let folder = TempDir::new().unwrap();
    let node = node(&folder);
    fill(&node, &folder, 0, 10);
    for (name, more) in [
        ("unread", "sinks: {out: {from: lines, file: {path: out.ndjson, format: json}}}"),
        (
            "table",
            "stages: {both: {join: {left: lines, table: numbers, on: [n], kind: left}}}\n\
             sinks: {out: {from: both, file: {path: out.ndjson, format: json}}}",
        ),
    ] {
        let text = format!(
            "name: {name}\nsources:\n  lines: {{stream: numbers, format: json}}\n  numbers: \
             {{stream: numbers, format: json}}\n{more}"
        );
        node.jobs.submit(submission(&folder, &text)).unwrap();
        node.wait(name, |it| it.progress.as_ref().is_some_and(|it| it.sinks[0].rows == 10));
        node.jobs.cancel(name).unwrap();
        node.wait(name, |it| it.status == Status::Cancelled);
    }
    node.stop();
}

/// Whoever sees that a job has ended can go on with it: nothing of it is open any more.
#[test]
fn a_job_that_is_seen_to_have_ended_can_be_resumed_at_once() {
    let folder = TempDir::new().unwrap();
    let node = node(&folder);
    fill(&node, &folder, 0, 30_000);
    let text = "
name: known
checkpoint: {every: 20ms}
sources: {numbers: {stream: numbers, format: json}}
stages: {once: {from: numbers, dedup: {on: [n]}}}
sinks: {out: {from: once, blackhole: {}}}
";
    node.jobs.submit(submission(&folder, text)).unwrap();
    let saved =
        |it: &JobView| it.progress.as_ref().is_some_and(|it| it.checkpoints.made_us.is_some());
    for _ in 0..8 {
        node.wait("known", saved);
        node.jobs.cancel("known").unwrap();
        // Without a rest: it is asked the moment it can be.
        while node.jobs.get("known").unwrap().status == Status::Running {}
        assert!(!node.jobs.checkpoints("known").unwrap().is_empty());
        let again = Submission { resume: true, ..submission(&folder, text) };
        node.jobs.submit(again).unwrap();
    }
    node.stop();
}

/// Of what is to be kept of each key, there must be one.
#[test]
fn a_sink_without_a_key_writes_to_no_compact_stream() {
    let folder = TempDir::new().unwrap();
    let node = node(&folder);
    let settings = [("cleanup.policy".to_owned(), "compact,delete".to_owned())].into();
    let spec = StreamSpec { settings, ..StreamSpec::default() };
    node.streams.log().create("newest", spec).unwrap();
    fs::write(folder.path().join("in.ndjson"), "{\"n\":1}\n").unwrap();
    let to_newest = FILL.replace("name: numbers, key: [n], streamlets: 2", "name: newest");
    let refused = node.jobs.submit(submission(&folder, &to_newest)).expect_err("it has no key");
    assert!(refused.to_string().contains("`newest` is compact"), "{refused}");
    let with_a_key = to_newest.replace("name: newest", "name: newest, key: [n]");
    node.jobs.submit(submission(&folder, &with_a_key)).unwrap();
    node.wait("fill", |it| it.status == Status::Finished);
    node.stop();
}

#[test]
fn a_job_shows_the_doubts_about_it_also_after_a_restart() {
    let folder = TempDir::new().unwrap();
    let first = node(&folder);
    fill(&first, &folder, 0, 10);
    let text = "\
name: doubtful
compression: always
sources:
  numbers: {stream: numbers, format: json}
  seconds: {file: {path: seconds.ndjson, format: json}, time: {field: t}}
sinks: {out: {from: numbers, file: {path: out.ndjson, format: json}}}
";
    fs::write(folder.path().join("seconds.ndjson"), "{\"t\":1700000000}\n").unwrap();
    let begins = [
        "without a `checkpoint` the job reads `numbers` from where it first began",
        "`compression` has no effect",
        "source `seconds`: the times of its first 1 records are all in 1970",
        "no sink takes what comes of the source `seconds`",
    ];
    let warned = |job: &JobView| {
        assert_eq!(job.warnings.len(), begins.len(), "{:?}", job.warnings);
        for (warning, begin) in job.warnings.iter().zip(begins) {
            assert!(warning.starts_with(begin), "{warning}");
        }
    };
    warned(&first.jobs.submit(submission(&folder, text)).unwrap());
    assert_eq!(first.jobs.get("fill").unwrap().warnings, Vec::<String>::new());
    first.stop();
    let second = node(&folder);
    warned(&second.wait("doubtful", |it| it.status == Status::Running));
    second.stop();
}
