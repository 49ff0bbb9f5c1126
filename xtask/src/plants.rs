//! Planted bugs: each is put into a copy of the code, and the tests that must catch it are run.
//!
//! ```text
//! copy of the repository ─▶ a crate's tests pass ─▶ [plant ─▶ build ─▶ tests fail ─▶ take it out] …
//! ```
//!
//! A rig that has never failed proves nothing. The list is `table`; `docs/robustness.md` has it for
//! readers, and a test keeps the two the same.

mod table;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};
use table::{Plant, plants};

/// The tests of one plant may take so long, in seconds: a planted bug may make a test hang.
const PATIENCE_S: u32 = 240;

/// Plants the bugs of these names and of these packages, or all; says which were caught.
pub(crate) fn run(names: &[String]) -> ExitCode {
    let is_named = |it: &Plant, name: &str| name == it.name || name == it.package;
    if let Some(unknown) = names.iter().find(|name| !plants().any(|it| is_named(it, name))) {
        let all: Vec<&str> = plants().map(|it| it.name).collect();
        let packages: BTreeSet<&str> = plants().map(|it| it.package).collect();
        let packages: Vec<&str> = packages.into_iter().collect();
        eprintln!(
            "there is neither a plant `{unknown}` nor a package with plants; there are: {}; in: {}",
            all.join(", "),
            packages.join(", ")
        );
        return ExitCode::from(2);
    }
    let wanted = |it: &&Plant| names.is_empty() || names.iter().any(|name| is_named(it, name));
    let mut wanted: Vec<&Plant> = plants().filter(wanted).collect();
    // The sort is stable: those of a package stay in the order of the table.
    wanted.sort_by_key(|it| it.package);
    match plant_all(&wanted) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(missed) => {
            eprintln!("{missed} of {} were not caught", wanted.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("plants: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of the repository.
fn root() -> PathBuf {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").expect("run through cargo");
    Path::new(&folder).parent().expect("xtask sits in the root").to_path_buf()
}

/// Plants each bug in a copy of the repository and runs its tests. Returns the number of bugs that no
/// test caught.
fn plant_all(plants: &[&Plant]) -> io::Result<usize> {
    let root = &root();
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root.join("target"), PathBuf::from).join("plants");
    let copy = Copy { root: target.join("tree"), target: target.join("target") };
    copy.make(root)?;
    let mut missed = 0;
    for plants in plants.chunk_by(|one, other| one.package == other.package) {
        let package = plants[0].package;
        let tests: BTreeSet<&str> = plants.iter().flat_map(|it| it.caught_by).copied().collect();
        copy.build(package)?;
        let outcomes = copy.test(package, &tests)?;
        if let Some(test) = tests.iter().find(|it| outcomes.get(**it) != Some(&true)) {
            let why = format!("{package}: `{test}` does not pass as the code is");
            return Err(io::Error::other(why));
        }
        for plant in plants {
            missed += usize::from(!copy.catches(plant)?);
        }
    }
    Ok(missed)
}

/// A copy of the repository that may be changed.
struct Copy {
    root: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Copies every file that git does not ignore, uncommitted changes included. Files that are the same
    /// stay untouched, so that little is built again.
    fn make(&self, from: &Path) -> io::Result<()> {
        let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let listed = Command::new("git").args(list).current_dir(from).output()?;
        if !listed.status.success() {
            return Err(io::Error::other("git cannot list the files of the repository"));
        }
        for name in String::from_utf8_lossy(&listed.stdout).split_terminator('\0') {
            let Ok(bytes) = fs::read(from.join(name)) else { continue };
            let to = self.root.join(name);
            if fs::read(&to).is_ok_and(|it| it == bytes) {
                continue;
            }
            fs::create_dir_all(to.parent().expect("it is in a folder"))?;
            fs::write(to, bytes)?;
        }
        Ok(())
    }

    /// Plants a bug, runs its tests, takes it out again, and says whether all of them failed.
    fn catches(&self, plant: &Plant) -> io::Result<bool> {
        let tests: BTreeSet<&str> = plant.caught_by.iter().copied().collect();
        let path = self.root.join(plant.file);
        let healthy = fs::read_to_string(&path)?;
        let sick = plant.planted(&healthy).map_err(io::Error::other)?;
        fs::write(&path, sick)?;
        let built = self.build(plant.package);
        let outcomes = built.and_then(|()| self.test(plant.package, &tests));
        fs::write(&path, healthy)?;
        println!("{}: {}", plant.name, plant.what);
        let outcomes = match outcomes {
            Ok(outcomes) => outcomes,
            Err(error) => {
                println!("    NOT TRIED: {error}");
                return Ok(false);
            }
        };
        let passed: Vec<&str> =
            tests.iter().copied().filter(|it| outcomes.get(*it) == Some(&true)).collect();
        if passed.is_empty() {
            println!("    caught by {}", plant.caught_by.join(", "));
        } else {
            println!("    NOT CAUGHT: {} passed", passed.join(", "));
        }
        Ok(passed.is_empty())
    }

    /// Cargo, on the tests of a package.
    fn cargo(package: &str) -> [&str; 6] {
        ["cargo", "test", "--locked", "--lib", "--package", package]
    }

    /// Builds the tests of a package.
    fn build(&self, package: &str) -> io::Result<()> {
        let [cargo, arguments @ ..] = Self::cargo(package);
        let mut command = Command::new(cargo);
        command.args(arguments).arg("--no-run");
        let output = self.in_copy(&mut command).output()?;
        if output.status.success() {
            return Ok(());
        }
        let why = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("{package} cannot be built:\n{why}")))
    }

    /// Runs tests of a package that is built: which ended in time, and whether they passed.
    fn test(&self, package: &str, tests: &BTreeSet<&str>) -> io::Result<BTreeMap<String, bool>> {
        let mut command = Command::new("timeout");
        command.arg(PATIENCE_S.to_string()).args(Self::cargo(package)).arg("--").args(tests);
        let output = self.in_copy(&mut command).output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        if !said.lines().any(|it| it.starts_with("running ")) {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!("{package}: no test ran:\n{why}")));
        }
        let outcome = |line: &str| {
            let (path, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
            let name = path.rsplit("::").next()?.to_owned();
            Some((name, outcome == "ok"))
        };
        Ok(said.lines().filter_map(outcome).collect())
    }

    /// Each build differs from the one before by a few lines: it is an incremental one, whatever the
    /// rest of the machine builds with.
    fn in_copy<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        command.env("CARGO_INCREMENTAL", "1")
    }
}

impl Plant {
    /// The text of its file with the bug in it.
    fn planted(&self, text: &str) -> Result<String, String> {
        let mut planted = text.to_owned();
        for (healthy, sick) in self.changes {
            let count = planted.matches(healthy).count();
            if count != 1 {
                let name = self.name;
                return Err(format!("{name}: {} has this {count} times: {healthy}", self.file));
            }
            planted = planted.replacen(healthy, sick, 1);
        }
        Ok(planted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{functions_of_the_tests, robustness_page};

    #[test]
    fn each_plant_still_fits_the_code() {
        let root = root();
        let functions = functions_of_the_tests();
        let (mut names, mut misfits) = (BTreeSet::new(), Vec::new());
        for plant in plants() {
            assert!(names.insert(plant.name), "{} is there twice", plant.name);
            let text = fs::read_to_string(root.join(plant.file)).unwrap_or_default();
            match plant.planted(&text) {
                Ok(planted) => assert_ne!(planted, text, "{} changes nothing", plant.name),
                Err(misfit) => misfits.push(misfit),
            }
            // Whole jobs see what the crates below do.
            let is_of_jobs = plant.package == "tidemill-sim";
            assert!(is_of_jobs || plant.file.starts_with(&format!("crates/{}/", plant.package)));
            assert!(!plant.caught_by.is_empty(), "{} is caught by nothing", plant.name);
            for test in plant.caught_by {
                assert!(functions.contains(*test), "{}: there is no test `{test}`", plant.name);
            }
        }
        assert!(misfits.is_empty(), "{}", misfits.join("\n"));
    }

    #[test]
    fn the_page_has_the_plants() {
        let row = |it: &Plant| {
            let tests: Vec<String> = it.caught_by.iter().map(|it| format!("`{it}`")).collect();
            format!("| `{}` | {} | {} |\n", it.name, it.what, tests.join(", "))
        };
        let rows: String = plants().map(row).collect();
        let page = robustness_page();
        assert!(
            page.contains(&rows),
            "docs/robustness.md must hold this, word for word:\n\n{rows}"
        );
    }
}
