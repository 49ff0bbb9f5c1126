//! Scans of a gateway whose connections break.

use super::*;
use crate::runtime::Runtime;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
};
use tidemill_env::World;
use tidemill_types::Span;

/// `a`, `b` and `c`, as JSON has them.
const PAGES: [&str; 3] = ["YQ==", "Yg==", "Yw=="];

/// A gateway that closes the connection in place of an answer for some pages, counted from the first
/// of the first scanner: its scanner has moved on.
struct Fake {
    breaks_at: Vec<usize>,
    asked: usize,
    scanners: usize,
    at: usize,
}

impl Fake {
    /// Begins to answer; gives back its address.
    fn start(breaks_at: &[usize]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut fake = Self { breaks_at: breaks_at.to_vec(), asked: 0, scanners: 0, at: 0 };
        let serve = move || listener.incoming().for_each(|it| fake.answer_all(&it.unwrap()));
        drop(World::real().spawn.spawn("gateway", Box::new(serve)));
        format!("http://{address}")
    }

    fn answer_all(&mut self, mut connection: &TcpStream) {
        let mut requests = BufReader::new(connection);
        loop {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                if requests.read_until(b'\n', &mut head).unwrap_or(0) == 0 {
                    return;
                }
            }
            let head = String::from_utf8(head).unwrap().to_lowercase();
            let bytes = head.lines().find_map(|it| it.strip_prefix("content-length: "));
            let mut body = vec![0; bytes.map_or(0, |it| it.parse().unwrap())];
            requests.read_exact(&mut body).unwrap();
            let Some(answer) = self.answer(&head) else { return };
            connection.write_all(answer.as_bytes()).unwrap();
        }
    }

    /// None: the connection is closed.
    fn answer(&mut self, head: &str) -> Option<String> {
        if head.starts_with("put") {
            (self.scanners, self.at) = (self.scanners + 1, 0);
            let location = format!("Location: http://inside/t/scanner/{}", self.scanners);
            return Some(format!(
                "HTTP/1.1 201 Created\r\n{location}\r\nContent-Length: 0\r\n\r\n"
            ));
        }
        if head.starts_with("delete") {
            return Some("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned());
        }
        assert!(head.starts_with(&format!("get /t/scanner/{} ", self.scanners)), "{head}");
        let page = PAGES.get(self.at);
        (self.asked, self.at) = (self.asked + 1, self.at + 1);
        if self.breaks_at.contains(&(self.asked - 1)) {
            return None;
        }
        let Some(key) = page else { return Some("HTTP/1.1 204 No Content\r\n\r\n".to_owned()) };
        let body = format!("{{\"Row\":[{{\"key\":\"{key}\"}}]}}");
        let bytes = body.len();
        Some(format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n{body}"))
    }
}

fn scan(breaks_at: &[usize]) -> Result<Vec<String>, BackendError> {
    let url = Fake::start(breaks_at);
    let spec = HbaseSpec { url, table: "t".to_owned(), timeout: Span(10_000_000) };
    let gateway = Gateway::new(&spec, "job").unwrap();
    Runtime::new().unwrap().run(gateway.rows("<Scanner/>".to_owned()))
}

#[test]
fn a_page_that_is_lost_on_the_way_is_not_taken_for_absent() {
    assert_eq!(scan(&[]).unwrap(), ["a", "b", "c"]);
    for lost in 0..4 {
        assert_eq!(scan(&[lost]).unwrap(), ["a", "b", "c"], "page {lost}");
    }
    let error = scan(&[1, 3]).unwrap_err();
    assert!(matches!(error, BackendError::Unreachable { .. }), "{error}");
}
