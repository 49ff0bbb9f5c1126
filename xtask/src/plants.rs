//! Planted bugs: each is put into a copy of the code, and the tests that must catch it are run.
//!
//! ```text
//! copy of the repository ─▶ tests pass ─▶ [plant ─▶ build ─▶ tests fail ─▶ take it out] …
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

/// Building and running may take so long, in seconds: a planted bug may make a test hang.
const PATIENCE_S: u32 = 900;

/// Plants the bugs of these names, or all; says which were caught.
pub(crate) fn run(names: &[String]) -> ExitCode {
    let known = |name: &&String| plants().any(|it| it.name == name.as_str());
    if let Some(unknown) = names.iter().find(|it| !known(it)) {
        let all: Vec<&str> = plants().map(|it| it.name).collect();
        eprintln!("there is no plant `{unknown}`; there are: {}", all.join(", "));
        return ExitCode::from(2);
    }
    let wanted = |it: &&Plant| names.is_empty() || names.iter().any(|name| name == it.name);
    let wanted: Vec<&Plant> = plants().filter(wanted).collect();
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

/// How many were not caught.
fn plant_all(plants: &[&Plant]) -> io::Result<usize> {
    let root = &root();
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root.join("target"), PathBuf::from).join("plants");
    let copy = Copy { root: target.join("tree"), target: target.join("target") };
    copy.make(root)?;
    for package in plants.iter().map(|it| it.package).collect::<BTreeSet<_>>() {
        let of_package = plants.iter().filter(|it| it.package == package);
        let tests: BTreeSet<&str> = of_package.flat_map(|it| it.caught_by).copied().collect();
        let outcomes = copy.test(package, &tests)?;
        if let Some(test) = tests.iter().find(|it| outcomes.get(**it) != Some(&true)) {
            let why = format!("{package}: `{test}` does not pass as the code is");
            return Err(io::Error::other(why));
        }
    }
    let mut missed = 0;
    for plant in plants {
        let tests: BTreeSet<&str> = plant.caught_by.iter().copied().collect();
        let path = copy.root.join(plant.file);
        let healthy = fs::read_to_string(&path)?;
        let sick = plant.planted(&healthy).map_err(io::Error::other)?;
        fs::write(&path, sick)?;
        let outcomes = copy.test(plant.package, &tests);
        fs::write(&path, healthy)?;
        let outcomes = outcomes?;
        println!("{}: {}", plant.name, plant.what);
        let passed: Vec<&str> =
            tests.iter().copied().filter(|it| outcomes.get(*it) == Some(&true)).collect();
        if passed.is_empty() {
            println!("    caught by {}", plant.caught_by.join(", "));
        } else {
            println!("    NOT CAUGHT: {} passed", passed.join(", "));
            missed += 1;
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
    /// Copies what is not ignored, with what was changed since; files that are the same stay as they
    /// are, so that little is built again.
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

    /// Runs tests of a package: which ended, and whether they passed. An error if it cannot be
    /// built.
    fn test(&self, package: &str, tests: &BTreeSet<&str>) -> io::Result<BTreeMap<String, bool>> {
        let mut command = Command::new("timeout");
        command.arg(PATIENCE_S.to_string());
        command
            .args(["cargo", "test", "--locked", "--package", package, "--lib", "--"])
            .args(tests);
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        let output = command.output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        if !said.lines().any(|it| it.starts_with("running ")) {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!("{package} cannot be built:\n{why}")));
        }
        let outcome = |line: &str| {
            let (path, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
            let name = path.rsplit("::").next()?.to_owned();
            Some((name, outcome == "ok"))
        };
        Ok(said.lines().filter_map(outcome).collect())
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
        let mut names = BTreeSet::new();
        for plant in plants() {
            assert!(names.insert(plant.name), "{} is there twice", plant.name);
            let text = fs::read_to_string(root.join(plant.file)).unwrap();
            assert_ne!(plant.planted(&text).unwrap(), text, "{} changes nothing", plant.name);
            // Whole jobs see what the crates below do.
            let is_of_jobs = plant.package == "tidemill-sim";
            assert!(is_of_jobs || plant.file.starts_with(&format!("crates/{}/", plant.package)));
            assert!(!plant.caught_by.is_empty(), "{} is caught by nothing", plant.name);
            for test in plant.caught_by {
                assert!(functions.contains(*test), "{}: there is no test `{test}`", plant.name);
            }
        }
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
