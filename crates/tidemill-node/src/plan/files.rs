//! No sink writes into a file that something else of the job reads or writes.
//!
//! Files are compared, and not their paths: one file has many of those. A sink has its file and all
//! stands beside that: `PATH.tidemill` with its marks, or `PATH.partial`. The job has its data
//! folder: the ledger, notes, dead letters and checkpoints in it. Its node has the streams, and all
//! it keeps beside them. And there is the file that the job was read from.
//!
//! Nothing is opened here.

use super::{Planner, sinks::DEAD_LETTER_FILE};
use crate::diagnostic::Problem;
use std::path::{Path, PathBuf};
use tidemill_env::FileIdentity;
use tidemill_types::job::{DEAD_LETTER, FileSinkSpec, Format};

/// Most folders above a path that are looked at.
const FOLDERS_MAX: usize = 256;

/// The names in a job's data folder besides notes and later files of the ledger.
const OF_THE_JOB: [&str; 9] = [
    "lock",
    "ledger",
    "ledger.new",
    "ledger.stages",
    "ledger.stages.new",
    "job.json",
    "job.json.new",
    "deleted.json",
    "checkpoints",
];

/// The names in the folder of a node besides its streams and its jobs.
const OF_THE_NODE: [&str; 6] = [
    "log",
    "broker.redb",
    "broker.redb.lock",
    "broker.redb.new",
    "cluster.json",
    "cluster.json.new",
];

/// A file, and whose it is.
struct Owned {
    file: FileIdentity,
    owner: String,
}

impl Planner<'_> {
    /// Says which sinks would write into the file of another, and which sources would be read from
    /// a file that the job itself writes.
    pub(super) fn files(&mut self) {
        let mut owned: Vec<Owned> = Vec::new();
        for path in self.letter_files() {
            self.own(&mut owned, &path, "the file of the job's dead letters");
        }
        let of_sources = self.spec.sources.iter();
        let of_sources = of_sources.filter_map(|(name, it)| Some((name, &it.file.as_ref()?.path)));
        let sources: Vec<(&String, &String)> = of_sources.collect();
        for (name, path) in &sources {
            let file = self.world.disk.identity(&self.path(path));
            if let Some(by) = file.ok().and_then(|it| by(&owned, &it)) {
                let place = ["sources", name, "file", "path"];
                let problem = Problem::new(place, format!("`{path}` is {by}"));
                self.problem(problem.expected("another file, or a sink that reads `dead_letter`"));
            }
        }
        for (name, path) in &sources {
            self.own(&mut owned, &self.path(path), &format!("the file of the source `{name}`"));
        }
        if let Some(path) = &self.options.job_file {
            self.own(&mut owned, path, "the job file");
        }
        for (name, sink) in &self.spec.sinks {
            if let Some(file) = &sink.file {
                self.sink_files(&mut owned, name, file);
            }
        }
    }

    fn sink_files(&mut self, owned: &mut Vec<Owned>, name: &str, sink: &FileSinkSpec) {
        let path = self.path(&sink.path);
        let written = written(&path, sink.format);
        let taken = written.iter().find_map(|it| self.taken(owned, it).map(|by| (it, by)));
        if let Some((taken, by)) = taken {
            let message = if *taken == path {
                format!("`{}` is {by} too", sink.path)
            } else {
                format!("`{}`, which is written with it, is {by}", taken.display())
            };
            self.problem(Problem::new(["sinks", name, "file", "path"], message));
        }
        for it in &written {
            let owner = if *it == path {
                format!("the file of the sink `{name}`")
            } else {
                format!("a file that the sink `{name}` writes beside its own")
            };
            self.own(owned, it, &owner);
        }
    }

    /// Dead letters are a file of the data folder, if no sink takes them.
    fn letter_files(&self) -> Vec<PathBuf> {
        let is_taken =
            self.spec.sinks.values().any(|it| it.from.iter().any(|it| it == DEAD_LETTER));
        match &self.options.data {
            Some(data) if !is_taken => written(&data.join(DEAD_LETTER_FILE), Format::Json),
            _ => Vec::new(),
        }
    }

    /// A file that cannot be looked at cannot be opened: the error comes with the opening.
    fn own(&self, owned: &mut Vec<Owned>, path: &Path, owner: &str) {
        if let Ok(file) = self.world.disk.identity(path) {
            owned.push(Owned { file, owner: owner.to_owned() });
        }
    }

    /// Whose file this is, if it is anybody's.
    fn taken(&self, owned: &[Owned], path: &Path) -> Option<String> {
        let file = self.world.disk.identity(path).ok()?;
        let of_the_job = || "a file of the job itself".to_owned();
        let of_the_node = || "a file of the node itself".to_owned();
        by(owned, &file)
            .or_else(|| self.is_of_the_job(path, &file).then(of_the_job))
            .or_else(|| self.is_of_the_node(path, &file).then(of_the_node))
    }

    fn is(&self, path: &Path, file: &FileIdentity) -> bool {
        self.world.disk.identity(path).is_ok_and(|it| it == *file)
    }

    /// True if a path leads into a folder.
    fn is_within(&self, path: &Path, folder: &Path) -> bool {
        let folder = self.world.disk.identity(folder);
        folder.is_ok_and(|folder| path.ancestors().skip(1).any(|it| self.is(it, &folder)))
    }

    fn is_of_the_node(&self, path: &Path, file: &FileIdentity) -> bool {
        let folder = self.options.node.as_ref().or(self.options.data.as_ref());
        let Some(folder) = folder else { return false };
        let of_another_job =
            || self.options.node.is_some() && self.is_of_another_job(path, &folder.join("jobs"));
        OF_THE_NODE.iter().any(|it| self.is(&folder.join(it), file))
            || self.is_within(path, &folder.join("log"))
            || of_another_job()
    }

    /// True if a path leads into the folder of jobs, but not into that of this one: whatever it says,
    /// `..` and links included.
    fn is_of_another_job(&self, path: &Path, jobs: &Path) -> bool {
        let disk = &self.world.disk;
        let Ok(jobs) = disk.identity(jobs) else { return false };
        let own = self.options.data.as_ref().and_then(|it| disk.identity(it).ok());
        // The folder that it is in, or will be made in; and from there up, wherever that leads.
        let Some(folder) = path.ancestors().skip(1).find(|it| disk.identity(it).is_ok()) else {
            return false;
        };
        let (mut folder, mut below) = (folder.to_owned(), None);
        for _ in 0..FOLDERS_MAX {
            let Ok(it) = disk.identity(&folder) else { return false };
            if it == jobs {
                return true;
            }
            if Some(&it) == own.as_ref() || Some(&it) == below.as_ref() {
                return false;
            }
            (folder, below) = (folder.join(".."), Some(it));
        }
        false
    }

    fn is_of_the_job(&self, path: &Path, file: &FileIdentity) -> bool {
        let Some(data) = &self.options.data else { return false };
        let fixed = OF_THE_JOB.iter().map(|it| (*it).to_owned());
        let sources = self.spec.sources.keys().map(|it| format!("source-{it}.json"));
        let sinks = self.spec.sinks.keys().map(|it| format!("sink-{it}.json"));
        if fixed.chain(sources).chain(sinks).any(|it| self.is(&data.join(it), file)) {
            return true;
        }
        let Ok(folder) = self.world.disk.identity(data) else { return false };
        let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
        let above = |it: &Path| it.parent().is_some_and(|it| self.is(it, &folder));
        // Later files of the ledger, which are not there yet.
        let number = name.strip_prefix("ledger-").is_some_and(|it| it.parse::<u64>().is_ok());
        (number && above(path)) || self.is_within(path, &data.join("checkpoints"))
    }
}

/// Whose file this is.
fn by(owned: &[Owned], file: &FileIdentity) -> Option<String> {
    owned.iter().find(|it| it.file == *file).map(|it| it.owner.clone())
}

/// The file of a sink, and those beside it.
fn written(path: &Path, format: Format) -> Vec<PathBuf> {
    let beside = |end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    match format {
        Format::Arrow | Format::Parquet => vec![path.to_owned(), beside(".partial")],
        _ => vec![path.to_owned(), beside(".tidemill"), beside(".tidemill.new")],
    }
}
