//! The durability of a Redis server's acknowledgements.
//!
//! `appendfsync always` syncs before it answers. With `everysec`, servers from 7.2 on can wait for
//! the sync (`WAITAOF`). All other settings lose the last second or more in a power cut. The job
//! warns of that and goes on: the mark of [`super::RedisStore`] shows such a loss.

use redis::{Connection, ErrorKind, RedisError, ServerErrorKind};

/// The step that makes acknowledged writes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// Nothing: an answer is durable, or the server cannot make it so.
    Answered,
    /// Asks the server to wait for its sync.
    Wait,
}

/// Reads the server's settings, and warns if they lose writes.
pub(super) fn of(connection: &mut Connection) -> Result<(Durability, Vec<String>), RedisError> {
    let info: Option<String> = granted(redis::cmd("INFO").query(connection))?;
    let ask = redis::cmd("CONFIG").arg("GET").arg("appendfsync").query(connection);
    let setting: Option<Vec<String>> = granted(ask)?;
    let fsync = setting.and_then(|pair| pair.into_iter().nth(1));
    let cannot_tell = || {
        let warning = "Redis does not say whether it syncs what it is given (`INFO` is refused): \
                       a crash of the server may lose checkpoints; see that it has `appendonly \
                       yes` and `appendfsync always`";
        (Durability::Answered, vec![warning.to_owned()])
    };
    Ok(info.map_or_else(cannot_tell, |info| judge(&info, fsync.as_deref())))
}

/// Reads a setting; none if the user may not, or the server has no such command, as some hosted
/// ones.
fn granted<T>(answer: Result<T, RedisError>) -> Result<Option<T>, RedisError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) => match error.kind() {
            ErrorKind::Server(ServerErrorKind::BusyLoading | ServerErrorKind::MasterDown) => {
                Err(error)
            }
            // Who has not said who it is may ask nothing: what it wants to ask next says why.
            ErrorKind::Server(_) | ErrorKind::Extension => Ok(None),
            _ => Err(error),
        },
    }
}

fn judge(info: &str, fsync: Option<&str>) -> (Durability, Vec<String>) {
    let field = |name: &str| {
        let named = |line: &str| line.strip_prefix(name)?.strip_prefix(':').map(str::to_owned);
        info.lines().find_map(named)
    };
    let mut warnings = Vec::new();
    let to_do = "set `appendonly yes` and `appendfsync always` on the server";
    let waits = field("redis_version").is_some_and(|it| can_wait(&it));
    let mut durability = Durability::Answered;
    if field("aof_enabled").as_deref() != Some("1") {
        warnings.push(format!(
            "Redis does not write what it is given to its disk: a crash of the server loses \
             checkpoints; {to_do}"
        ));
    } else {
        match fsync {
            Some("always") => {}
            Some("everysec") | None if waits => durability = Durability::Wait,
            other => warnings.push(format!(
                "Redis answers before it has synced its disk (`appendfsync {}`): a power cut \
                 there loses the last checkpoint; {to_do}",
                other.unwrap_or("is not known")
            )),
        }
    }
    let policy = field("maxmemory_policy").unwrap_or_default();
    if policy.starts_with("allkeys") {
        warnings.push(format!(
            "Redis drops any key when its memory is full (`maxmemory-policy {policy}`), also \
             those of checkpoints; set `maxmemory-policy noeviction`"
        ));
    }
    (durability, warnings)
}

/// `WAITAOF` is there from 7.2 on.
fn can_wait(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (7, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(version: &str, aof: u8, fsync: Option<&str>, policy: &str) -> (Durability, usize) {
        let info = format!(
            "# Server\r\nredis_version:{version}\r\naof_enabled:{aof}\r\n\
             maxmemory_policy:{policy}\r\n"
        );
        let (durability, warnings) = judge(&info, fsync);
        (durability, warnings.len())
    }

    #[test]
    fn a_server_that_may_forget_is_told_of() {
        use Durability::{Answered, Wait};
        assert_eq!(check("7.0.15", 1, Some("always"), "noeviction"), (Answered, 0));
        assert_eq!(check("7.0.15", 1, Some("everysec"), "noeviction"), (Answered, 1));
        assert_eq!(check("7.2.4", 1, Some("everysec"), "noeviction"), (Wait, 0));
        assert_eq!(check("8.0.0", 1, None, "volatile-lru"), (Wait, 0));
        assert_eq!(check("8.0.0", 1, Some("no"), "noeviction"), (Answered, 1));
        assert_eq!(check("6.2.1", 1, None, "noeviction"), (Answered, 1));
        assert_eq!(check("8.0.0", 0, Some("always"), "allkeys-lru"), (Answered, 2));
    }
}
