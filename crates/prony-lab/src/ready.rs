//! Whether a server answers, asked from where its callers are.
//!
//! One plain HTTP request per attempt; a redirect or an error status is no good answer.

use crate::plan::{PORT, Plan, PlannedHost, port, software_name};
use crate::server::log_tail;
use crate::traces::Ground;
use crate::{LabError, LabId, sys};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long a server may take until it answers. A guess; seen: the first attempt succeeds.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(10);

/// How long one attempt may take. Longer than one SYN retransmission (1 s), because a lab may lose packets on purpose.
const ATTEMPT_MAX: Duration = Duration::from_millis(1500);

/// Waits until the server of `host` answers a caller.
///
/// # Errors
/// It does not in time: the error holds the last answer and the end of its logs.
pub(crate) fn wait(
    ground: &Ground,
    id: &LabId,
    plan: &Plan,
    host: &PlannedHost,
    within: Duration,
) -> Result<(), LabError> {
    let Some((server, software)) = host.server() else { return Ok(()) };
    if port(server.kind) != PORT {
        // Not the web; who starts it waited until it takes connections.
        return Ok(());
    }
    let path = if host.name == plan.entry_host { plan.entry_path.as_str() } else { "/" };
    let netns = ground.netns_path(id, &host.asked_from);
    let answered = sys::in_netns(&netns, || wait_here(host.addr, path, within));
    let last = match crate::error::file("enter", &netns, answered)? {
        Ok(()) => return Ok(()),
        Err(last) => last,
    };
    Err(LabError::NoAnswer {
        host: host.name.clone(),
        server: software_name(software).to_string(),
        asked: format!("http://{}{path} from `{}`", host.addr, host.asked_from),
        last: format!("{last} after {} ms", within.as_millis()),
        log: log_tail(ground, id, &host.name),
    })
}

fn wait_here(addr: Ipv4Addr, path: &str, within: Duration) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        match ask(addr, path) {
            Ok(status) if (200..300).contains(&status) => return Ok(()),
            Ok(status) if begun.elapsed() > within => return Err(format!("status {status}")),
            Err(e) if begun.elapsed() > within => return Err(e.to_string()),
            Ok(_) | Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Asks once and returns the status.
fn ask(addr: Ipv4Addr, path: &str) -> std::io::Result<u16> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((addr, PORT)), ATTEMPT_MAX)?;
    stream.set_read_timeout(Some(ATTEMPT_MAX))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n")?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    let status = std::str::from_utf8(&head).ok().and_then(|h| h.strip_prefix("HTTP/1.1 ")).and_then(|s| s.parse().ok());
    // The rest is read, so that the server's log has no complaint about a reset.
    std::io::copy(&mut stream, &mut std::io::sink())?;
    status.ok_or_else(|| std::io::Error::other(format!("no HTTP answer: {:?}", String::from_utf8_lossy(&head))))
}
