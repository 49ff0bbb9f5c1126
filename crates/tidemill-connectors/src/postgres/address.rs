//! The address of a database, and connections to it.
//!
//! A server may take a connection and then say nothing: its process hangs, or something before it
//! does, or nobody knows the address of its name. So connections are made on threads of their
//! own, which are not waited for longer than [`Address::patience`]; one that is given up ends when
//! the server answers or its connection does, and only so many of them wait for one address.
//!
//! Invariant: the password is nowhere but in the connection's settings; messages show
//! [`Address::shown`].

use super::connection::PostgresConnection;
use super::tls::{self, Trust};
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError, mpsc::sync_channel},
    time::Duration,
};
use tidemill_env::World;
use tidemill_flow::SinkError;
use tidemill_types::{address, job::PostgresSinkSpec};
use tokio_postgres::{
    Client, Config, Error,
    config::{Host, SslMode},
};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Longest time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Most threads that wait for the word of one address.
const WAITING_MAX: usize = 32;
/// The number of threads that wait for each address.
static WAITING: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());
/// Longest time without a byte or an acknowledgement from the server.
const SILENCE: Duration = Duration::from_secs(30);
const KEEPALIVE: Duration = Duration::from_secs(5);
/// The variable that holds the password if the job names none.
const PASSWORD_ENV: &str = "PGPASSWORD";

/// See the module.
#[derive(Clone)]
pub(super) struct Address {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    pub(super) shown: String,
}

impl Address {
    /// Reads the URL of a job.
    ///
    /// # Errors
    /// The fault, without the password.
    pub(super) fn new(world: &World, spec: &PostgresSinkSpec) -> Result<Self, String> {
        const FORM: &str = "`url` is written `postgresql://USER@HOST:PORT/DATABASE`";
        let url = spec.url.0.as_str();
        if !["postgresql://", "postgres://"].iter().any(|it| url.starts_with(it)) {
            return Err(FORM.to_owned());
        }
        let (plain, trust, roots) = split(url)?;
        let mut config: Config = plain.parse().map_err(|error: Error| {
            format!("`url` cannot be read: {}; {FORM}", super::fault::said(&error))
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(format!("`url` names no host; {FORM}"));
        }
        if config.get_password().is_none() {
            let name = spec.password_env.as_deref();
            match (std::env::var(name.unwrap_or(PASSWORD_ENV)), name) {
                (Ok(password), _) => drop(config.password(password)),
                (Err(_), Some(name)) => {
                    return Err(format!(
                        "`password_env` is `{name}`, and there is no such environment variable"
                    ));
                }
                (Err(_), None) => {}
            }
        }
        settle(&mut config, trust);
        let tls = match trust {
            Trust::Off => None,
            trust => Some(tls::connector(world, trust, roots.as_deref())?),
        };
        let shown = shown(&config);
        Ok(Self { config, tls, shown })
    }

    /// Connects, and does something first; not longer than the patience.
    pub(super) fn connect<T: Send + 'static>(
        &self,
        world: &World,
        first: impl AsyncFnOnce(&Client) -> Result<T, Error> + Send + 'static,
    ) -> Result<(PostgresConnection, T), SinkError> {
        let Some(waits) = Waits::begin(&self.shown) else {
            let error = format!("{WAITING_MAX} connections wait for its answer already");
            return Err(SinkError::retry(error));
        };
        let (address, patience) = (self.clone(), self.patience());
        let (tell, told) = sync_channel(1);
        let body = move || {
            let outcome = PostgresConnection::new(&address.config, address.tls.as_ref(), first);
            drop(waits);
            // Who asked may have given up.
            let _given_up = tell.send(outcome);
        };
        drop(world.spawn.spawn("postgres", Box::new(body)));
        match told.recv_timeout(patience) {
            Ok(outcome) => outcome,
            Err(_) => {
                let seconds = patience.as_secs();
                Err(SinkError::retry(format!("it does not answer within {seconds} s")))
            }
        }
    }

    /// Longest time for a login: the URL's `connect_timeout`, for each host.
    fn patience(&self) -> Duration {
        let hosts = self.config.get_hosts().len().max(self.config.get_hostaddrs().len());
        let each = self.config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
        each.saturating_mul(u32::try_from(hosts.max(1)).unwrap_or(u32::MAX))
    }
}

/// One thread that waits for an address.
struct Waits(String);

impl Waits {
    fn begin(shown: &str) -> Option<Self> {
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        let count = waiting.entry(shown.to_owned()).or_default();
        if *count >= WAITING_MAX {
            return None;
        }
        *count += 1;
        Some(Self(shown.to_owned()))
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = waiting.get_mut(&self.0) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.0);
            }
        }
    }
}

/// Settings that the URL leaves open.
fn settle(config: &mut Config, trust: Trust) {
    config.ssl_mode(match trust {
        Trust::Off => SslMode::Disable,
        Trust::AnyIfOffered => SslMode::Prefer,
        Trust::Any | Trust::Authority | Trust::Full => SslMode::Require,
    });
    if config.get_application_name().is_none() {
        config.application_name("tidemill");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENCE);
    }
    // A peer that is gone without a word is noticed.
    config.keepalives_idle(SILENCE).keepalives_interval(KEEPALIVE).keepalives_retries(3);
}

fn shown(config: &Config) -> String {
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    let mut hosts: Vec<String> = hosts.collect();
    if hosts.is_empty() {
        hosts = config.get_hostaddrs().iter().map(ToString::to_string).collect();
    }
    let ports = config.get_ports();
    for (index, host) in hosts.iter_mut().enumerate() {
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        *host = address::join(host, port);
    }
    let user = config.get_user().map_or(String::new(), |it| format!("{it}@"));
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgresql://{user}{}/{database}", hosts.join(","))
}

/// The URL without its TLS parameters, the trust, and the file of authorities.
fn split(url: &str) -> Result<(String, Trust, Option<String>), String> {
    let Some((base, query)) = url.split_once('?') else {
        return Ok((url.to_owned(), Trust::AnyIfOffered, None));
    };
    let (mut trust, mut roots, mut rest) = (None, None, Vec::new());
    for pair in query.split('&').filter(|it| !it.is_empty()) {
        match pair.split_once('=') {
            Some(("sslmode", mode)) => trust = Some(Trust::of(mode)?),
            Some(("sslrootcert", file)) => roots = Some(decoded(file)?),
            Some(("sslcert" | "sslkey" | "sslcrl" | "sslpassword" | "passfile" | "service", _)) => {
                let name = pair.split('=').next().unwrap_or_default();
                return Err(format!("`url` has `{name}`, which is not supported"));
            }
            _ => rest.push(pair),
        }
    }
    let trust = match (trust, &roots) {
        (None, None) => Trust::AnyIfOffered,
        // With a file of authorities nobody means a connection that any server may answer.
        (None, Some(_)) => Trust::Full,
        (Some(Trust::Any), Some(_)) => Trust::Authority,
        (Some(trust), _) => trust,
    };
    let url = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
    Ok((url, trust, roots))
}

/// A value of a URL's parameter.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let hex = rest.get(..2).and_then(|it| std::str::from_utf8(it).ok());
        let byte = hex.and_then(|it| u8::from_str_radix(it, 16).ok());
        bytes.push(byte.ok_or("`url` has a `%` that is no `%XX`")?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).map_err(|_| "`url` is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    //! URLs as people write them.

    use super::*;
    use tidemill_types::job::DatabaseUrl;

    fn spec(url: &str) -> PostgresSinkSpec {
        PostgresSinkSpec {
            url: DatabaseUrl(url.to_owned()),
            table: "t".to_owned(),
            create: true,
            key: Vec::new(),
            password_env: None,
        }
    }

    #[test]
    fn an_ipv6_address_keeps_its_brackets() {
        for url in [
            "postgresql://u@[::1]:5433/d",
            "postgresql://u@[2001:db8::7]:5432,db.example.org:5432/d",
            "postgresql://u@db.example.org:5432/d",
            "postgresql://u@192.0.2.1:5432/d",
        ] {
            let config: Config = url.parse().expect("a URL");
            assert_eq!(shown(&config), url);
        }
    }

    #[test]
    fn an_address_is_shown_without_its_password() {
        let shown = |url: &str| Address::new(&World::real(), &spec(url)).map(|it| it.shown);
        let check = |url: &str, expected: &str| assert_eq!(shown(url), Ok(expected.to_owned()));
        check("postgresql://u:hunter2@h/db", "postgresql://u@h:5432/db");
        check("postgres://u:p%40@h:6/db?sslmode=disable", "postgresql://u@h:6/db");
        check("postgresql://u@a:1,b:2/db", "postgresql://u@a:1,b:2/db");
        check("postgresql://u@h/db?password=hunter2", "postgresql://u@h:5432/db");
        check("postgresql://u@/db?host=/run/postgresql", "postgresql://u@/run/postgresql:5432/db");
    }

    #[test]
    fn a_server_that_says_nothing_is_not_waited_for_without_end() {
        let world = World::real();
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = silent.local_addr().expect("it listens").port();
        let url = format!("postgresql://u:hunter2@127.0.0.1:{port}/db?connect_timeout=1");
        let address = Address::new(&world, &spec(&url)).expect("an address");
        assert_eq!(address.patience(), Duration::from_secs(1));
        let (tell, told) = std::sync::mpsc::channel();
        let connect = move || {
            let connected = address.connect(&World::real(), async |_| Ok(()));
            tell.send(connected.err().expect("nobody answers")).expect("it is waited for");
        };
        drop(world.spawn.spawn("connects", Box::new(connect)));
        let fault = told.recv_timeout(Duration::from_secs(60)).expect("an end");
        assert!(fault.is_retry(), "{fault:?}");
        assert_eq!(fault.message, "it does not answer within 1 s");
        // The thread that was given up ends with its connection.
        drop(silent);
    }

    #[test]
    fn so_many_wait_for_one_address_and_not_more() {
        let of = |shown: &str| (0..WAITING_MAX).map_while(|_| Waits::begin(shown)).collect();
        let waits: Vec<Waits> = of("postgresql://u@full/db");
        assert_eq!(waits.len(), WAITING_MAX);
        assert!(Waits::begin("postgresql://u@full/db").is_none());
        assert!(Waits::begin("postgresql://u@other/db").is_some());
        drop(waits);
        assert!(Waits::begin("postgresql://u@full/db").is_some());
    }

    #[test]
    fn a_bad_address_is_refused_without_its_password() {
        let world = World::real();
        for (url, expected) in [
            ("mysql://u:hunter2@h/db", "postgresql://USER@HOST:PORT/DATABASE"),
            ("postgresql://u:hunter2@", "names no host"),
            ("postgresql://u:hunter2@h:many/db", "port"),
            ("postgresql://u:hunter2@h/db?sslmode=maybe", "verify-full"),
            ("postgresql://u:hunter2@h/db?colour=red", "colour"),
            ("postgresql://u:hunter2@h/db?sslkey=x", "sslkey"),
            ("postgresql://u:hunter2@h/db?sslmode=verify-full", "sslrootcert"),
            ("postgresql://u:hunter2@h/db?sslrootcert=%2Fno%2Ffile", "/no/file"),
        ] {
            let error = Address::new(&world, &spec(url)).err().expect("it is refused");
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let unset = PostgresSinkSpec {
            password_env: Some("TIDEMILL_NO_SUCH".to_owned()),
            ..spec("postgresql://u@h/db")
        };
        let error = Address::new(&world, &unset).err().expect("it is refused");
        assert!(error.contains("TIDEMILL_NO_SUCH"), "{error}");
    }
}
