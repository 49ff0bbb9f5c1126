//! Requests to HBase's REST gateway, and the meaning of its answers.

use super::message::{COLUMN, CellSet, rows};
use crate::runtime::within;
use bytes::Bytes;
use reqwest::{Client, Method, RequestBuilder, StatusCode, header};
use std::{env, error::Error as _, time::Duration};
use tidemill_checkpoints::BackendError;
use tidemill_types::job::{HbaseSpec, shown};

#[cfg(test)]
mod tests;

/// The time limit of a connection attempt, if a request may take that long.
const CONNECT: Duration = Duration::from_secs(5);
/// The bytes of an answer that a message shows.
const SAID_BYTES_MAX: usize = 300;
const PROTOBUF: &str = "application/x-protobuf";

/// The status, the body, and the location of a created resource.
type GatewayAnswer = (StatusCode, Bytes, Option<String>);

/// The result of a scan.
enum Pages {
    /// The rows of all pages.
    All(Vec<String>),
    /// The connection was closed while a page was under way.
    Lost(reqwest::Error),
}

/// A gateway, and a table behind it.
pub(super) struct Gateway {
    place: String,
    /// Without user, password and a slash at its end.
    url: String,
    table: String,
    user: Option<(String, String)>,
    timeout: Duration,
    client: Client,
}

impl Gateway {
    /// Parses the address.
    pub(super) fn new(spec: &HbaseSpec, job: &str) -> Result<Self, BackendError> {
        let url = shown(&spec.url).trim_end_matches('/').to_owned();
        let place = format!("{url}, table {}, rows {job}.*", spec.table);
        let refuse = |why: String| BackendError::Refused { place: place.clone(), why };
        let parsed = reqwest::Url::parse(&spec.url).ok();
        let parsed = parsed.filter(|it| ["http", "https"].contains(&it.scheme()) && it.has_host());
        let Some(parsed) = parsed else {
            return Err(refuse("an address is `http://HOST:PORT`".to_owned()));
        };
        let timeout = Duration::from_micros(spec.timeout.0.max(1).unsigned_abs());
        let client = Client::builder().connect_timeout(CONNECT.min(timeout)).no_proxy();
        let client = client.build().map_err(|error| refuse(said(&error)))?;
        let (table, user) = (spec.table.clone(), user_of(&parsed));
        Ok(Self { place, url, table, user, timeout, client })
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn table(&self) -> &str {
        &self.table
    }

    /// Returns true if the table exists.
    pub(super) async fn check_table(&self) -> Result<(), BackendError> {
        match self.ask(self.request(Method::GET, "exists")).await? {
            (StatusCode::NOT_FOUND, _) => Err(self.refused(self.how_to_make())),
            (status, answer) => self.done(status, &answer),
        }
    }

    /// Reads the value of a row.
    pub(super) async fn get(&self, row: &str) -> Result<Option<Bytes>, BackendError> {
        let request = self.request(Method::GET, &format!("{row}/{COLUMN}"));
        let request = request.header(header::ACCEPT, "application/octet-stream");
        match self.ask(request).await? {
            (StatusCode::NOT_FOUND, _) => Ok(None),
            (status, answer) => self.done(status, &answer).map(|()| Some(answer)),
        }
    }

    /// Puts rows.
    pub(super) async fn put(&self, cells: CellSet) -> Result<(), BackendError> {
        // The rows are in the message; a name has to stand there all the same.
        let request = self.request(Method::PUT, "rows").header(header::CONTENT_TYPE, PROTOBUF);
        let (status, answer) = self.ask(request.body(cells.into_bytes())).await?;
        self.done(status, &answer)
    }

    /// Puts a row if it has the value that is given last.
    pub(super) async fn put_checked(&self, row: &str, cells: CellSet) -> Result<(), BackendError> {
        let request = self.request(Method::PUT, &format!("{row}?check=put"));
        let request = request.header(header::CONTENT_TYPE, PROTOBUF).body(cells.into_bytes());
        match self.ask(request).await? {
            (StatusCode::NOT_MODIFIED, _) => Ok(()),
            (status, answer) => self.done(status, &answer),
        }
    }

    /// Deletes a row. A missing row is no error.
    pub(super) async fn delete(&self, row: &str) -> Result<(), BackendError> {
        let (status, answer) = self.ask(self.request(Method::DELETE, row)).await?;
        self.done(status, &answer)
    }

    /// Scans rows. Starts again once if a page was lost.
    pub(super) async fn rows(&self, scan: String) -> Result<Vec<String>, BackendError> {
        for is_last in [false, true] {
            match self.rows_of_scanner(scan.clone()).await? {
                Pages::All(rows) => return Ok(rows),
                Pages::Lost(error) if is_last => return Err(self.unreachable(said(&error))),
                Pages::Lost(_) => {}
            }
        }
        unreachable!("the last one says what there is")
    }

    async fn rows_of_scanner(&self, scan: String) -> Result<Pages, BackendError> {
        let request = self.request(Method::PUT, "scanner");
        let request = request.header(header::CONTENT_TYPE, "text/xml").body(scan);
        let (status, answer, location) = self.ask_for_place(request).await?;
        self.done(status, &answer)?;
        // The gateway names itself as it sees itself, which may be behind something.
        let id = location.as_deref().and_then(|it| it.rsplit('/').next()).unwrap_or_default();
        let path = format!("scanner/{id}");
        let mut found = Vec::new();
        loop {
            let request = self.request(Method::GET, &path);
            let request = request.header(header::ACCEPT, "application/json");
            // Never twice: the scanner may have moved on, and the page would be taken for absent.
            let (status, answer, _) = match self.in_time(send(request)).await? {
                Ok(page) => page,
                Err(error) if is_broken(&error) => return Ok(Pages::Lost(error)),
                Err(error) => return Err(self.unreachable(said(&error))),
            };
            if status == StatusCode::NO_CONTENT {
                break;
            }
            self.done(status, &answer)?;
            let strange = || self.refused(format!("an answer that is none: {}", short(&answer)));
            found.extend(rows(&answer).ok_or_else(strange)?);
        }
        // It goes by itself if this does not arrive.
        self.ask(self.request(Method::DELETE, &path)).await.map(|_| Pages::All(found))
    }

    fn request(&self, method: Method, under: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}/{}/{under}", self.url, self.table));
        match &self.user {
            Some((user, password)) => request.basic_auth(user, Some(password)),
            None => request,
        }
    }

    async fn ask(&self, request: RequestBuilder) -> Result<(StatusCode, Bytes), BackendError> {
        self.ask_for_place(request).await.map(|(status, answer, _)| (status, answer))
    }

    /// Sends a request within its time limit. Repeats it once if the connection was closed
    /// meanwhile: all requests here may be sent twice.
    async fn ask_for_place(&self, request: RequestBuilder) -> Result<GatewayAnswer, BackendError> {
        let again = request.try_clone();
        let asked = async {
            match (send(request).await, again) {
                (Err(error), Some(again)) if is_broken(&error) => send(again).await,
                (answer, _) => answer,
            }
        };
        self.in_time(asked).await?.map_err(|error| self.unreachable(said(&error)))
    }

    async fn in_time<T>(&self, asked: impl Future<Output = T>) -> Result<T, BackendError> {
        let late = |_| self.unreachable(format!("no answer within {:?}", self.timeout));
        within(self.timeout, asked).await.map_err(late)
    }

    fn unreachable(&self, why: String) -> BackendError {
        BackendError::Unreachable { place: self.place.clone(), why }
    }

    /// Converts a status other than success into an error.
    fn done(&self, status: StatusCode, answer: &[u8]) -> Result<(), BackendError> {
        let text = short(answer);
        if status.is_success() {
            return Ok(());
        }
        let why = format!("{status}: {text}");
        if text.contains("NoSuchColumnFamily") || text.contains("TableNotFound") {
            return Err(self.refused(self.how_to_make()));
        }
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(self.refused(format!(
                "{why}. Say who this is in the address, `http://USER:PASSWORD@HOST`, or in \
                 HBASE_REST_USERNAME and HBASE_REST_PASSWORD"
            ))),
            StatusCode::NOT_FOUND => Err(self.refused(self.how_to_make())),
            _ if status.is_client_error() => Err(self.refused(why)),
            _ => Err(self.unreachable(why)),
        }
    }

    fn refused(&self, why: String) -> BackendError {
        BackendError::Refused { place: self.place.clone(), why }
    }

    fn how_to_make(&self) -> String {
        let table = &self.table;
        format!(
            "there is no such table, or it has no column family `t`: make it with `create \
             '{table}', 't'` in `hbase shell`"
        )
    }
}

/// One request.
async fn send(request: RequestBuilder) -> Result<GatewayAnswer, reqwest::Error> {
    let answer = request.send().await?;
    let location = answer.headers().get(header::LOCATION);
    let location = location.and_then(|it| it.to_str().ok()).map(str::to_owned);
    Ok((answer.status(), answer.bytes().await?, location))
}

/// Returns true if the connection was closed after a request was sent.
fn is_broken(error: &reqwest::Error) -> bool {
    error.is_request() && !error.is_connect()
}

/// The user and password, from the address or the environment.
fn user_of(url: &reqwest::Url) -> Option<(String, String)> {
    let given = |name: &str| env::var(name).ok().filter(|it| !it.is_empty());
    let user = Some(url.username().to_owned()).filter(|it| !it.is_empty());
    let user = user.or_else(|| given("HBASE_REST_USERNAME"))?;
    let password = url.password().map(str::to_owned);
    let password = password.or_else(|| given("HBASE_REST_PASSWORD"));
    Some((user, password.unwrap_or_default()))
}

/// The first line of an answer, cut to the bytes that a message shows.
fn short(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(&answer[..answer.len().min(SAID_BYTES_MAX)]);
    text.trim().replace(['\r', '\n'], " ")
}

/// An error and its causes, without the address: the place says it.
fn said(error: &reqwest::Error) -> String {
    let mut texts = Vec::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        texts.push(error.to_string());
        cause = error.source();
    }
    texts.dedup();
    match texts.is_empty() {
        true => "the request failed".to_owned(),
        false => texts.join(": "),
    }
}
