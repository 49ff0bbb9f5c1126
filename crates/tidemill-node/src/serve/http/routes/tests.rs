//! The document that is served describes the routes, all of them and nothing else.

use super::*;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Parameters in the query string of an operation.
fn parameters(document: &Value, operation: &Value) -> BTreeSet<String> {
    let all = operation["parameters"].as_array().cloned().unwrap_or_default();
    let resolved = all.iter().map(|it| match it["$ref"].as_str() {
        Some(place) => document.pointer(place.strip_prefix('#').unwrap()).unwrap(),
        None => it,
    });
    let query = resolved.filter(|it| it["in"] == "query");
    query.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_document_has_the_routes_with_their_parameters() {
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let mut described = BTreeMap::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            assert!(operation["summary"].is_string(), "{method} {path}");
            let answers = operation["responses"].as_object().unwrap();
            assert!(answers.keys().any(|it| it.starts_with('2')), "{method} {path}");
            let path_names = path.matches('{').count();
            let is_of_path = |it: &&Value| {
                let name = it["$ref"].as_str().and_then(|it| it.rsplit('/').next());
                name.is_some_and(|name| path.contains(&format!("{{{name}}}")))
            };
            let of_path = operation["parameters"]
                .as_array()
                .map_or(0, |all| all.iter().filter(is_of_path).count());
            assert_eq!(of_path, path_names, "{method} {path}: names in the path");
            described.insert((method.clone(), path.clone()), parameters(&document, operation));
        }
    }
    let routes: BTreeMap<_, BTreeSet<String>> = ROUTES
        .iter()
        .map(|it| {
            let names = it.parameters.iter().map(|it| (*it).to_owned()).collect();
            ((it.method.to_owned(), it.path.to_owned()), names)
        })
        .collect();
    assert_eq!(described, routes);
}

/// Every `$ref` leads somewhere.
#[test]
fn the_document_is_whole() {
    fn walk(document: &Value, at: &Value) {
        match at {
            Value::Object(fields) => {
                if let Some(place) = at["$ref"].as_str() {
                    assert!(document.pointer(&place[1..]).is_some(), "{place}");
                }
                fields.values().for_each(|it| walk(document, it));
            }
            Value::Array(entries) => entries.iter().for_each(|it| walk(document, it)),
            _ => {}
        }
    }
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    walk(&document, &document);
}
