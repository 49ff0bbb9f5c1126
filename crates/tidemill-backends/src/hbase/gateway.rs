//! Requests to HBase's REST gateway, and what its answers mean.

use super::message::{COLUMN, CellSet, rows};
use crate::runtime::within;
use bytes::Bytes;
use reqwest::{Client, Method, RequestBuilder, StatusCode, header};
use std::{env, error::Error as _, time::Duration};
use tidemill_state::StateError;
use tidemill_types::job::{HbaseSpec, shown};

/// How long making a connection may take, if a request may take that long.
const CONNECT: Duration = Duration::from_secs(5);
/// What is shown of an answer, in bytes.
const SAID_BYTES_MAX: usize = 300;
const PROTOBUF: &str = "application/x-protobuf";

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
    /// Looks at the address.
    pub(super) fn new(spec: &HbaseSpec, job: &str) -> Result<Self, StateError> {
        let url = shown(&spec.url).trim_end_matches('/').to_owned();
        let place = format!("{url}, table {}, rows {job}.*", spec.table);
        let refuse = |why: String| StateError::Refused { place: place.clone(), why };
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

    /// Whether the table is there.
    pub(super) async fn check_table(&self) -> Result<(), StateError> {
        match self.ask(self.request(Method::GET, "exists")).await? {
            (StatusCode::NOT_FOUND, _) => Err(self.refused(self.how_to_make())),
            (status, answer) => self.done(status, &answer),
        }
    }

    /// The value of a row.
    pub(super) async fn get(&self, row: &str) -> Result<Option<Bytes>, StateError> {
        let request = self.request(Method::GET, &format!("{row}/{COLUMN}"));
        let request = request.header(header::ACCEPT, "application/octet-stream");
        match self.ask(request).await? {
            (StatusCode::NOT_FOUND, _) => Ok(None),
            (status, answer) => self.done(status, &answer).map(|()| Some(answer)),
        }
    }

    /// Puts rows.
    pub(super) async fn put(&self, cells: CellSet) -> Result<(), StateError> {
        // The rows are in the message; a name has to stand there all the same.
        let request = self.request(Method::PUT, "rows").header(header::CONTENT_TYPE, PROTOBUF);
        let (status, answer) = self.ask(request.body(cells.into_bytes())).await?;
        self.done(status, &answer)
    }

    /// Puts a row if it has the value that stands last.
    pub(super) async fn put_checked(&self, row: &str, cells: CellSet) -> Result<(), StateError> {
        let request = self.request(Method::PUT, &format!("{row}?check=put"));
        let request = request.header(header::CONTENT_TYPE, PROTOBUF).body(cells.into_bytes());
        match self.ask(request).await? {
            (StatusCode::NOT_MODIFIED, _) => Ok(()),
            (status, answer) => self.done(status, &answer),
        }
    }

    /// Deletes a row. One that is not there stays so.
    pub(super) async fn delete(&self, row: &str) -> Result<(), StateError> {
        let (status, answer) = self.ask(self.request(Method::DELETE, row)).await?;
        self.done(status, &answer)
    }

    /// The rows of a scan.
    pub(super) async fn rows(&self, scan: String) -> Result<Vec<String>, StateError> {
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
            let page = self.ask(request.header(header::ACCEPT, "application/json")).await?;
            let (status, answer) = page;
            if status == StatusCode::NO_CONTENT {
                break;
            }
            self.done(status, &answer)?;
            let strange = || self.refused(format!("an answer that is none: {}", short(&answer)));
            found.extend(rows(&answer).ok_or_else(strange)?);
        }
        // It goes by itself if this does not arrive.
        self.ask(self.request(Method::DELETE, &path)).await.map(|_| found)
    }

    fn request(&self, method: Method, under: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}/{}/{under}", self.url, self.table));
        match &self.user {
            Some((user, password)) => request.basic_auth(user, Some(password)),
            None => request,
        }
    }

    async fn ask(&self, request: RequestBuilder) -> Result<(StatusCode, Bytes), StateError> {
        self.ask_for_place(request).await.map(|(status, answer, _)| (status, answer))
    }

    /// One request within its time: the status, the answer, and where what it made is. Repeated
    /// once if the connection was closed meanwhile: all that is asked here may be asked twice.
    async fn ask_for_place(
        &self,
        request: RequestBuilder,
    ) -> Result<(StatusCode, Bytes, Option<String>), StateError> {
        let unreachable = |why| StateError::Unreachable { place: self.place.clone(), why };
        let again = request.try_clone();
        let send = async {
            let answer = match (request.send().await, again) {
                (Err(error), Some(again)) if error.is_request() && !error.is_connect() => {
                    again.send().await?
                }
                (answer, _) => answer?,
            };
            let location = answer.headers().get(header::LOCATION);
            let location = location.and_then(|it| it.to_str().ok()).map(str::to_owned);
            Ok::<_, reqwest::Error>((answer.status(), location, answer.bytes().await?))
        };
        match within(self.timeout, send).await {
            Ok(Ok((status, location, answer))) => Ok((status, answer, location)),
            Ok(Err(error)) => Err(unreachable(said(&error))),
            Err(_) => Err(unreachable(format!("no answer within {:?}", self.timeout))),
        }
    }

    /// What a status says, for requests that are to be done.
    fn done(&self, status: StatusCode, answer: &[u8]) -> Result<(), StateError> {
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
            _ => Err(StateError::Unreachable { place: self.place.clone(), why }),
        }
    }

    fn refused(&self, why: String) -> StateError {
        StateError::Refused { place: self.place.clone(), why }
    }

    fn how_to_make(&self) -> String {
        let table = &self.table;
        format!(
            "there is no such table, or it has no column family `t`: make it with `create \
             '{table}', 't'` in `hbase shell`"
        )
    }
}

/// Who this is: as the address says, or the environment.
fn user_of(url: &reqwest::Url) -> Option<(String, String)> {
    let given = |name: &str| env::var(name).ok().filter(|it| !it.is_empty());
    let user = Some(url.username().to_owned()).filter(|it| !it.is_empty());
    let user = user.or_else(|| given("HBASE_REST_USERNAME"))?;
    let password = url.password().map(str::to_owned);
    let password = password.or_else(|| given("HBASE_REST_PASSWORD"));
    Some((user, password.unwrap_or_default()))
}

/// The first line of an answer, or as much as is shown.
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
