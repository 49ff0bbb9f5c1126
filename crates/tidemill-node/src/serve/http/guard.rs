//! The host and the origin of a request: a web page must not reach a node through
//! its visitor's browser.
//!
//! A page of `evil.example` can let that name lead to 127.0.0.1, and then its requests are sent to a
//! node there; but they say `Host: evil.example`. A page can also send a form to 127.0.0.1 itself;
//! but then `Origin` says where the page is from. So requests are refused by a name that is not the
//! node's, and changes from pages of another origin. Programs send no `Origin`.

use super::{problem::Problem, state::HttpState};
use axum::{
    extract::{Request, State as Shared},
    http::{HeaderMap, Method, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use std::{
    net::IpAddr,
    sync::{Arc, atomic::Ordering},
};

#[cfg(test)]
mod tests;

/// Asked for by machines that know the node by a name of their own, and harmless to know.
const OPEN_PATHS: &[&str] = &["/health", "/metrics", "/ping"];

/// Lets a request through, or refuses it.
pub(super) async fn check(
    Shared(state): Shared<Arc<HttpState>>,
    request: Request,
    next: Next,
) -> Response {
    match decide(request.method(), request.uri(), request.headers(), &state.settings.hosts) {
        Ok(()) => next.run(request).await,
        Err(why) => {
            state.counts.foreign.fetch_add(1, Ordering::Relaxed);
            Problem::new(StatusCode::FORBIDDEN, why).into_response()
        }
    }
}

/// Why a request is refused, if it is.
fn decide(method: &Method, uri: &Uri, headers: &HeaderMap, hosts: &[String]) -> Result<(), String> {
    let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    if reads && OPEN_PATHS.contains(&uri.path()) {
        return Ok(());
    }
    let text = |name: header::HeaderName| match headers.get(&name) {
        None => Ok(None),
        Some(value) => value.to_str().map(Some).map_err(|_| format!("{name} is not text")),
    };
    let mut said = headers.get_all(header::HOST).iter();
    if said.nth(1).is_some() {
        return Err("there are two hosts".to_owned());
    }
    let host = match uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => text(header::HOST)?,
    };
    if let Some(host) = host {
        let name = name_of(host);
        if !is_ours(name, hosts) {
            let shown: String = name.chars().take(100).collect();
            return Err(format!(
                "`{shown}` is not a name of this node: use its IP address, or start it with \
                 --http-hosts {shown}"
            ));
        }
    }
    if reads {
        return Ok(());
    }
    let Some(origin) = text(header::ORIGIN)? else { return Ok(()) };
    let from = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    match (from, host) {
        (Some(from), Some(host)) if from.eq_ignore_ascii_case(host) => Ok(()),
        _ => Err("requests from pages of another origin are refused".to_owned()),
    }
}

/// The name of an authority, without its port.
fn name_of(host: &str) -> &str {
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    if let Some(address) = host.strip_prefix('[') {
        return address.split(']').next().unwrap_or(address);
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

/// True if the node answers to a name. An address cannot be made to lead elsewhere, a name can.
fn is_ours(name: &str, hosts: &[String]) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    name.parse::<IpAddr>().is_ok()
        || name == "localhost"
        || name.ends_with(".localhost")
        || hosts.iter().any(|it| it == "*" || *it == name)
}
