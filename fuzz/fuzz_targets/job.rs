//! Any text as a job file: a job, which is checked, or a refusal.

#![no_main]

use tidemill_node::{Registry, check, descriptor};

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(job) = descriptor::parse(text, "job.yaml") {
        for problem in check::check(&job.spec, &Registry::default()) {
            assert!(!job.locate(problem).to_string().is_empty());
        }
    }
});
