//! Any text as a node's config file, and as the value of each of its settings: settings, or refusals
//! that say where.

#![no_main]

use tidemill_node::serve::settings::{Given, resolve};

fn given(text: &str) {
    let none = |_: &str| None;
    let file = Some(("tidemill.yaml", text));
    if let Err(refused) = resolve(Given { flag: &none, variable: &none, file }) {
        assert!(!refused.to_string().is_empty());
    }
    let said = |_: &str| Some(text.to_owned());
    let _any = resolve(Given { flag: &said, variable: &none, file: None });
}

fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "data: /tmp/x\nkafka_listen: 127.0.0.1:0\nhttp_listen: '[::1]:0'\nlog_level: debug\n",
        "{\"retention_every\": \"10s\", \"threads\": 2, \"insecure\": true}",
        "http_hosts: a,b\nlog_format: json\nhttp_body_bytes: 16MiB\n",
        "10s",
        "16MiB",
        "127.0.0.1:9092",
        "true",
        "zstd",
        "1.5",
    ];
    texts.iter().map(|it| it.as_bytes().to_vec()).collect()
}

libfuzzer_sys::fuzz_target!(
    init: tidemill_fuzz::begin("settings", seeds()),
    |text: &str| tidemill_fuzz::within((16 << 20) + 1000 * text.len(), || given(text))
);
