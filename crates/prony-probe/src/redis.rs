//! What Redis knows of itself: `INFO` once per second on a kept connection.
//!
//! Speaks two commands and reads their two kinds of answer, no more of the protocol. prony's own connection and
//! commands are subtracted. Invariant: a reading ends within [`ANSWER_MAX`], and no message holds the password.

use crate::aside::Asker;
use crate::facts::Facts;
use prony_model::Metric;
use prony_model::metric as m;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A server that does not answer within this time is left alone until the next second. A guess: it does one command at a time, and behind
/// twenty that take 60 ms each it answers after 1.2 s.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// INFO with the statistics of all commands takes some 10 KiB.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Commands that are told one by one.
const COMMANDS_MAX: usize = 40;

/// Fields of INFO and the metric that each is.
const FIELDS: &[(&str, &Metric)] = &[
    ("connected_clients", &m::REDIS_CLIENTS),
    ("maxclients", &m::REDIS_CLIENTS_MAX),
    ("blocked_clients", &m::REDIS_BLOCKED),
    ("total_commands_processed", &m::REDIS_COMMANDS),
    ("total_connections_received", &m::REDIS_CONNECTIONS),
    ("rejected_connections", &m::REDIS_REJECTED),
    ("keyspace_hits", &m::REDIS_HITS),
    ("keyspace_misses", &m::REDIS_MISSES),
    ("evicted_keys", &m::REDIS_EVICTED),
    ("used_memory", &m::REDIS_MEMORY),
];

/// Reader of one Redis server.
pub(crate) struct Redis {
    place: Result<Place, String>,
    connection: Option<BufReader<TcpStream>>,
    own_commands: f64,
    own_connections: f64,
}

/// The parts of `redis://USER:PASSWORD@ADDRESS:PORT`.
#[derive(Clone, PartialEq)]
struct Place {
    address: SocketAddr,
    /// Words of AUTH.
    auth: Vec<String>,
}

impl Redis {
    pub(crate) fn new(dsn: &str) -> Self {
        Self { place: place(dsn), connection: None, own_commands: 0.0, own_connections: 0.0 }
    }

    fn info(&mut self) -> Result<(String, f64), String> {
        let place = self.place.clone()?;
        let told = |e: io::Error| format!("redis at {}: {e}", place.address);
        let mut connection = match self.connection.take() {
            Some(kept) => kept,
            None => self.connect(&place).map_err(told)?,
        };
        let mut ask = |words: &[&str]| -> io::Result<String> {
            self.own_commands += 1.0;
            command(&mut connection, words)
        };
        let info = ask(&["INFO", "everything"]).map_err(told)?;
        let slow = ask(&["SLOWLOG", "LEN"]).map_err(told)?.parse().unwrap_or(0.0);
        self.connection = Some(connection);
        Ok((info, slow))
    }

    fn connect(&mut self, place: &Place) -> io::Result<BufReader<TcpStream>> {
        let stream = TcpStream::connect_timeout(&place.address, ANSWER_MAX)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.set_write_timeout(Some(ANSWER_MAX))?;
        stream.set_nodelay(true)?;
        self.own_connections += 1.0;
        let mut connection = BufReader::new(stream);
        if !place.auth.is_empty() {
            self.own_commands += 1.0;
            let words: Vec<&str> = std::iter::once("AUTH").chain(place.auth.iter().map(String::as_str)).collect();
            command(&mut connection, &words)?;
        }
        Ok(connection)
    }
}

impl Asker for Redis {
    fn ask(&mut self, facts: &mut Facts) {
        match self.info() {
            Ok((info, slow)) => {
                put(facts, &info, (self.own_commands, self.own_connections));
                facts.put(&m::REDIS_SLOW_LOG, "", slow);
            }
            Err(reason) => {
                facts
                    .miss("redis", format_args!("{reason}; `dsn` is used from inside the host: try it with redis-cli"));
            }
        }
    }
}

fn put(facts: &mut Facts, info: &str, (own_commands, own_connections): (f64, f64)) {
    for (name, metric) in FIELDS {
        let own = match *name {
            "connected_clients" => 1.0,
            "total_commands_processed" => own_commands,
            "total_connections_received" => own_connections,
            _ => 0.0,
        };
        facts.put_some(metric, "", field(info, name).map(|value| (value - own).max(0.0)));
    }
    facts.put_if_any(&m::REDIS_MEMORY_MAX, "", field(info, "maxmemory").filter(|bytes| *bytes > 0.0));
    let commands = info.lines().filter_map(|line| line.strip_prefix("cmdstat_")).filter_map(command_line);
    for (name, calls, micros) in commands.filter(|(name, _, _)| *name != "info").take(COMMANDS_MAX) {
        facts.put(&m::REDIS_COMMAND_CALLS, name, calls);
        facts.put(&m::REDIS_COMMAND_TIME, name, micros / 1e6);
    }
}

/// `name:value` of INFO.
fn field(info: &str, name: &str) -> Option<f64> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).and_then(|v| v.trim().parse().ok())
}

/// `get:calls=12,usec=30,...`: name, calls, microseconds.
fn command_line(line: &str) -> Option<(&str, f64, f64)> {
    let (name, values) = line.split_once(':')?;
    let value = |key: &str| values.split(',').find_map(|v| v.strip_prefix(key)?.parse().ok());
    Some((name, value("calls=")?, value("usec=")?))
}

/// Sends a command and reads a text, a number or a block of bytes; anything else is an error.
fn command(connection: &mut BufReader<TcpStream>, words: &[&str]) -> io::Result<String> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    connection.get_mut().write_all(bytes.as_bytes())?;
    answer(connection)
}

fn answer(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.by_ref().take(1 << 10).read_line(&mut line)?;
    let line = line.trim_end();
    let strange = |what: &str| Err(io::Error::other(format!("answers `{what}`")));
    match line.split_at_checked(1) {
        Some(("+" | ":", rest)) => Ok(rest.to_string()),
        Some(("$", length)) => {
            let length = length.parse().ok().filter(|n: &usize| *n <= ANSWER_BYTES_MAX);
            let Some(length) = length else { return strange(line) };
            let mut body = vec![0; length + 2];
            from.read_exact(&mut body)?;
            Ok(String::from_utf8_lossy(&body[..length]).into_owned())
        }
        Some(_) => strange(&line.chars().take(60).collect::<String>()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Addresses only: a name would ask DNS, and that can hang.
fn place(dsn: &str) -> Result<Place, String> {
    let wrong = || "`dsn` of this host cannot be read: write it like redis://127.0.0.1:6379".to_string();
    let rest = dsn.strip_prefix("redis://").ok_or_else(wrong)?;
    let rest = rest.split('/').next().unwrap_or_default();
    let (auth, host) = rest.rsplit_once('@').map_or((None, rest), |(auth, host)| (Some(auth), host));
    let host = host.replace("localhost", "127.0.0.1");
    let with_port = if host.contains(':') { host } else { format!("{host}:6379") };
    let auth = auth.map(|a| a.split(':').filter(|w| !w.is_empty()).map(str::to_string).collect());
    Ok(Place { address: with_port.parse().map_err(|_| wrong())?, auth: auth.unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;

    const INFO: &str = "# Clients\r\nconnected_clients:3\r\nmaxclients:10000\r\nblocked_clients:0\r\n# Stats\r\n\
        total_connections_received:9\r\ntotal_commands_processed:107\r\nrejected_connections:2\r\nkeyspace_hits:50\r\n\
        keyspace_misses:5\r\nevicted_keys:0\r\nused_memory:1048576\r\nmaxmemory:0\r\n# Commandstats\r\n\
        cmdstat_get:calls=90,usec=180,usec_per_call=2.00,rejected_calls=0,failed_calls=0\r\ncmdstat_info:calls=7,usec=70\r\n";

    #[test]
    fn its_own_client_and_commands_are_subtracted() {
        Facts::check(
            |facts, info| put(facts, info, (7.0, 1.0)),
            INFO,
            expect![[r#"
                redis.clients [] 2
                redis.clients_max [] 10000
                redis.blocked [] 0
                redis.commands [] 100
                redis.connections [] 8
                redis.rejected [] 2
                redis.hits [] 50
                redis.misses [] 5
                redis.evicted [] 0
                redis.memory [] 1048576
                redis.command_calls [get] 90
                redis.command_time [get] 0.00018
            "#]],
        );
    }

    #[test]
    fn strings_are_read_and_passwords_are_not_told() {
        let good = place("redis://user:secret@127.0.0.1:7000/0").ok().unwrap();
        assert_eq!((good.address.port(), good.auth), (7000, vec!["user".to_string(), "secret".to_string()]));
        assert_eq!(place("redis://localhost").ok().unwrap().address.port(), 6379);
        assert_eq!(place("redis://:secret@127.0.0.1").ok().unwrap().auth, ["secret"]);
        for wrong in ["http://x", "redis://:secret@name:1"] {
            assert!(!place(wrong).err().unwrap().contains("secret"));
        }
    }

    #[test]
    fn answers_end_where_they_say() {
        let told = |bytes: &str| answer(&mut bytes.as_bytes()).map_err(|e| e.to_string());
        assert_eq!(told("$3\r\nabc\r\nrest"), Ok("abc".to_string()));
        assert_eq!(told(":12\r\n"), Ok("12".to_string()));
        assert_eq!(
            told("-NOAUTH Authentication required.\r\n"),
            Err("answers `-NOAUTH Authentication required.`".into())
        );
        assert!(told("$3\r\na").is_err() && told("").is_err() && told("$99999999\r\n").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in "([+:$*0-9-]|\\PC|\r\n){0,60}") {
            let _ = answer(&mut bytes.as_bytes());
            let _ = (command_line(&bytes), field(&bytes, "a"), place(&bytes).is_ok());
        }
    }
}
