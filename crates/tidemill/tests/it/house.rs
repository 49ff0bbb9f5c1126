//! A folder with a job and its input, and the binary run in it.

use serde_json::Value;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// A folder of its own for one test; removed at its end.
pub(crate) struct House(tempfile::TempDir);

impl House {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder can be made"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("a file can be written");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// All files in the folder and below it.
    pub(crate) fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let (mut files, mut folders) = (BTreeMap::new(), vec![self.0.path().to_owned()]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("a folder can be read") {
                let path = entry.expect("it is there").path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let bytes = std::fs::read(&path).expect("a file can be read");
                let name = path.strip_prefix(self.0.path()).expect("it is in the folder");
                files.insert(name.to_owned(), bytes);
            }
        }
        files
    }

    /// The binary, in this folder.
    pub(crate) fn tidemill(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidemill"));
        command.args(arguments).current_dir(self.0.path()).env_remove("TIDEMILL_LOG");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran(self.tidemill(arguments).output().expect("the binary can be run"))
    }
}

/// What came of a run.
pub(crate) struct Ran(Output);

impl Ran {
    #[track_caller]
    pub(crate) fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.0.status.code(), Some(code), "{}\n{}", self.stdout(), self.stderr());
        self
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).expect("output is UTF-8")
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).expect("output is UTF-8")
    }

    /// The last object on standard output.
    pub(crate) fn summary(&self) -> Value {
        let stdout = self.stdout();
        let last = stdout.lines().last().expect("a summary");
        serde_json::from_str(last).expect("the summary is JSON")
    }
}

/// Rows of flights, `carrier,delay,ts`, one a minute.
pub(crate) fn flights(count: usize) -> String {
    let carriers = ["AA", "DL", "UA"];
    let mut text = "carrier,delay,ts\n".to_owned();
    for n in 0..count {
        let (carrier, delay, ts) = (carriers[n % 3], n % 50, 1_000_000_000_000 + n * 60_000);
        text.push_str(&format!("{carrier},{delay},{ts}\n"));
    }
    text
}

/// The examples of the repository.
pub(crate) fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}
