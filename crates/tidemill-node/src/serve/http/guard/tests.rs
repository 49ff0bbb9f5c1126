//! Which requests are let through.

use super::*;
use axum::http::HeaderValue;

/// A request in a line: method, path, host, origin; `-` for none.
fn passes(line: &str, hosts: &[&str]) -> bool {
    let parts: Vec<&str> = line.split(' ').collect();
    let mut headers = HeaderMap::new();
    for (name, value) in [(header::HOST, parts[2]), (header::ORIGIN, parts[3])] {
        if value != "-" {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
    }
    let hosts: Vec<String> = hosts.iter().map(|it| (*it).to_owned()).collect();
    let method = Method::from_bytes(parts[0].as_bytes()).unwrap();
    decide(&method, &parts[1].parse().unwrap(), &headers, &hosts).is_ok()
}

#[test]
fn names_of_the_node_pass_and_others_do_not() {
    for host in [
        "127.0.0.1:8080",
        "127.0.0.1",
        "[::1]:8080",
        "[::1]",
        "192.168.7.9:80",
        "localhost:8080",
        "LocalHost",
        "localhost.",
        "a.localhost:1",
        "-",
    ] {
        for method in ["GET", "POST", "DELETE"] {
            assert!(passes(&format!("{method} /streams {host} -"), &[]), "{method} {host}");
        }
    }
    for host in [
        "evil.example",
        "evil.example:8080",
        "127.0.0.1.evil.example",
        "localhost.evil",
        "evil",
        "",
    ] {
        for method in ["GET", "POST", "PUT", "DELETE", "HEAD"] {
            assert!(!passes(&format!("{method} /streams {host} -"), &[]), "{method} {host}");
        }
        assert!(passes(&format!("GET /health {host} -"), &[]), "{host}");
        assert!(passes(&format!("GET /metrics {host} -"), &[]), "{host}");
        assert!(!passes(&format!("POST /health {host} -"), &[]), "{host}");
    }
}

#[test]
fn names_can_be_added() {
    assert!(passes("POST /streams Tidemill:8080 -", &["tidemill"]));
    assert!(!passes("POST /streams other:8080 -", &["tidemill"]));
    assert!(passes("POST /streams other:8080 -", &["*"]));
}

#[test]
fn changes_from_pages_of_another_origin_do_not_pass() {
    let host = "127.0.0.1:8080";
    assert!(passes(&format!("POST /streams {host} http://127.0.0.1:8080"), &[]));
    for origin in ["http://evil.example", "null", "http://127.0.0.1:81", "file://", "https://"] {
        assert!(!passes(&format!("POST /streams {host} {origin}"), &[]), "{origin}");
        assert!(!passes(&format!("DELETE /streams {host} {origin}"), &[]), "{origin}");
        assert!(passes(&format!("GET /streams {host} {origin}"), &[]), "{origin}");
    }
    assert!(!passes("POST /streams - http://evil.example", &[]));
}

#[test]
fn a_request_says_one_host() {
    assert!(!passes("GET http://evil.example/streams 127.0.0.1 -", &[]), "the target counts");
    let mut headers = HeaderMap::new();
    headers.append(header::HOST, HeaderValue::from_static("127.0.0.1"));
    headers.append(header::HOST, HeaderValue::from_static("evil.example"));
    assert!(decide(&Method::GET, &"/streams".parse().unwrap(), &headers, &[]).is_err());
}
