//! Prices: what a connection, a log write and the opening of a log cost in CPU time on this host, measured with no
//! load of ours.
//!
//! Together well under a second. Invariant: nothing stays behind, no file and no TIME_WAIT socket, and no table is filled.

use crate::fact_file::read_once;
use crate::facts::Facts;
use crate::roots::Roots;
use crate::sys;
use crate::text::count;
use prony_model::metric as m;
use prony_model::{Gap, Sample};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Batches of which the cheaper ones are believed: strangers and interrupts only ever add.
const BATCHES: usize = 50;
/// Connections per batch: 500 in all, about 20 ms.
const CONNECTIONS: u32 = 10;
/// Room in the firewall's table of connections below which none are opened: each stays in it for 10 s after its reset
/// (`nf_conntrack_tcp_timeout_close`). A guess: then they take a tenth.
const TABLE_ROOM_MIN: f64 = 10.0 * (BATCHES as u32 * CONNECTIONS) as f64;
/// Writes, and openings, one at a time: with the walks between them about 50 ms in all.
const WRITES: usize = 150;
/// What is walked over between two of them where the kernel does not tell the size of the second cache. A guess: a usual one.
const L2_BYTES: usize = 1 << 20;
/// A larger second cache is not walked over whole: it would take too long.
const L2_BYTES_MAX: usize = 8 << 20;
/// A line of a cache on every CPU that Linux commonly runs on; where it is longer, some are walked over twice.
const CACHE_LINE: usize = 64;
/// An access log line of nginx's `combined` format is about 200 bytes (seen with a browser's user agent).
const LINE: [u8; 200] = [b'x'; 200];
/// Give up measuring after this time: a slow disk must not hold up the session.
const TIME_MAX: Duration = Duration::from_millis(300);

/// Measures the prices of this host: metrics `price.*`.
///
/// `price.connect` is the whole of one connection on loopback, both ends: connect, accept, close, and every packet
/// between, whose softirq work runs in the same thread. It is wall time of undisturbed batches, not thread CPU time,
/// because a kernel with IRQ time accounting takes softirqs out of the latter. It ends by a reset from the server's
/// end, so that no TIME_WAIT stays; a normal close has one more packet. It leaves 500 in `tcp.out_resets` and opens of
/// this namespace.
pub fn prices(name: &str, roots: Roots, at_ns: u64) -> (Sample, Vec<Gap>) {
    let mut facts = Facts::new(name, at_ns);
    if let Some(room) = table_room(&roots).filter(|room| *room < TABLE_ROOM_MIN) {
        facts.miss(
            m::PRICE_CONNECT.name,
            format_args!(
                "not tried: the firewall's table of connections has room for {room:.0} only (nf_conntrack_max)"
            ),
        );
    } else if roots.live() {
        match connect_us() {
            Ok(us) => facts.put(&m::PRICE_CONNECT, "", us),
            Err(e) => facts.miss(
                m::PRICE_CONNECT.name,
                format_args!("connecting on loopback: {e}: is `lo` up in this namespace?"),
            ),
        }
    } else {
        facts.miss(m::PRICE_CONNECT.name, crate::roots::NO_LIVE_KERNEL);
    }
    match log_prices_us(&roots) {
        Ok((write_us, open_us)) => {
            facts.put(&m::PRICE_LOG_WRITE, "", write_us);
            facts.put(&m::PRICE_LOG_OPEN, "", open_us);
        }
        Err(e) => facts.miss("price.log", format_args!("a file in {}: {e}", roots.scratch.display())),
    }
    facts.finish()
}

/// Connections that the firewall's table takes before it is full; none where there is no table, or no limit.
fn table_room(roots: &Roots) -> Option<f64> {
    let value = |name: &str| read_once(&roots.sysctl(name)).ok().as_deref().map(str::trim).and_then(count);
    let most = value("net.netfilter.nf_conntrack_max").filter(|most| *most > 0.0)?;
    Some(most - value("net.netfilter.nf_conntrack_count")?)
}

fn connect_us() -> io::Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let wall = Instant::now();
    batches(
        CONNECTIONS,
        || wall.elapsed().as_nanos() as u64,
        || {
            let client = TcpStream::connect_timeout(&address, TIME_MAX)?;
            let (server, _) = listener.accept()?;
            client.shutdown(Shutdown::Write)?;
            sys::reset_on_close(&server)
        },
    )
}

/// Removes its file however the measurement ends.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing can be done about a file that cannot be removed; its name says whose it is.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Time of a write() and of an open() with close(), each as a server finds it that comes back to its log after a request: what
/// they need has left the first caches and the second one meanwhile. Measured against the CPU time per request that buffering
/// saved on a proxy with eight workers: 0.65 us; this way 0.64 us, in a bare loop of writes 0.32 us.
fn log_prices_us(roots: &Roots) -> io::Result<(f64, f64)> {
    let thread = std::thread::current().id();
    let scratch = Scratch(roots.scratch.join(format!("prony-price-{}-{thread:?}", std::process::id())));
    let open = || -> io::Result<File> { OpenOptions::new().create(true).append(true).open(&scratch.0) };
    let mut file = open()?;
    let mut cache = vec![0u8; l2_bytes(&roots.sys)];
    let write_us = cold(&mut cache, || file.write_all(&LINE))?;
    let open_us = cold(&mut cache, || open().map(drop))?;
    Ok((write_us, open_us))
}

/// Size of a CPU's second cache (`Documentation/ABI/testing/sysfs-devices-system-cpu`).
fn l2_bytes(sys: &Path) -> usize {
    let text = std::fs::read_to_string(sys.join("devices/system/cpu/cpu0/cache/index2/size")).unwrap_or_default();
    let kib: Option<usize> = text.trim().strip_suffix('K').and_then(|kib| kib.parse().ok());
    kib.map_or(L2_BYTES, |kib| kib << 10).min(L2_BYTES_MAX)
}

/// Lower quartile of the time of one `work`, in microseconds, with all of `cache` walked over before each.
fn cold(cache: &mut [u8], mut work: impl FnMut() -> io::Result<()>) -> io::Result<f64> {
    let started = Instant::now();
    let mut times_ns = Vec::with_capacity(WRITES);
    while times_ns.len() < WRITES && (started.elapsed() < TIME_MAX || times_ns.is_empty()) {
        cache.iter_mut().step_by(CACHE_LINE).for_each(|byte| *byte = byte.wrapping_add(1));
        std::hint::black_box(&mut *cache);
        // The first reading brings the clock's own code and data back.
        std::hint::black_box(Instant::now());
        let before = Instant::now();
        work()?;
        times_ns.push(before.elapsed().as_nanos() as u64);
    }
    Ok(quartile_ns(&mut times_ns) / 1e3)
}

/// Lower quartile over batches of the time of one `work`, in microseconds.
fn batches(per_batch: u32, clock_ns: impl Fn() -> u64, mut work: impl FnMut() -> io::Result<()>) -> io::Result<f64> {
    let started = Instant::now();
    let mut times_ns = Vec::with_capacity(BATCHES);
    while times_ns.len() < BATCHES && (started.elapsed() < TIME_MAX || times_ns.is_empty()) {
        let before = clock_ns();
        for _ in 0..per_batch {
            work()?;
        }
        times_ns.push(clock_ns().saturating_sub(before));
    }
    Ok(quartile_ns(&mut times_ns) / f64::from(per_batch) / 1e3)
}

/// The lower quartile of some times.
fn quartile_ns(times_ns: &mut [u64]) -> f64 {
    times_ns.sort_unstable();
    times_ns.get(times_ns.len() / 4).copied().unwrap_or_default() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_found_and_nothing_stays() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots { scratch: dir.path().to_path_buf(), ..Roots::here() };
        let (sample, gaps) = prices("lb", roots, 5);
        assert_eq!(gaps, []);
        let names: Vec<&str> = sample.values.iter().map(|(metric, _, _)| metric.as_str()).collect();
        assert_eq!(names, ["price.connect", "price.log_write", "price.log_open"]);
        assert!(sample.values.iter().all(|(_, _, us)| *us > 0.0), "{sample:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_is_not_there_is_a_gap() {
        let roots = Roots { scratch: "/none/such".into(), proc: "/recorded".into(), ..Roots::here() };
        let (sample, gaps) = prices("lb", roots, 0);
        assert_eq!(sample.values, []);
        let facts: Vec<String> = gaps.into_iter().map(|g| g.fact).collect();
        assert_eq!(facts, ["price.connect", "price.log"]);
    }

    #[test]
    fn a_small_table_of_connections_is_not_filled() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("sys/net/netfilter");
        std::fs::create_dir_all(&folder).unwrap();
        let roots = Roots { proc: dir.path().to_path_buf(), ..Roots::here() };
        assert_eq!(table_room(&roots), None, "no table");
        for (most, used, room) in [("262144\n", "6\n", Some(262_138.0)), ("0\n", "6\n", None)] {
            std::fs::write(folder.join("nf_conntrack_max"), most).unwrap();
            std::fs::write(folder.join("nf_conntrack_count"), used).unwrap();
            assert_eq!(table_room(&roots), room);
        }
        std::fs::write(folder.join("nf_conntrack_max"), "4000\n").unwrap();
        let (_, gaps) = prices("lb", roots, 0);
        assert!(gaps[0].reason.contains("has room for 3994 only"), "{gaps:?}");
    }

    #[test]
    fn the_second_cache_tells_its_size() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(l2_bytes(dir.path()), L2_BYTES, "it does not tell");
        let index = dir.path().join("devices/system/cpu/cpu0/cache/index2");
        std::fs::create_dir_all(&index).unwrap();
        for (text, bytes) in [("2048K\n", 2 << 20), ("99999K\n", L2_BYTES_MAX), ("many\n", L2_BYTES)] {
            std::fs::write(index.join("size"), text).unwrap();
            assert_eq!(l2_bytes(dir.path()), bytes);
        }
    }

    #[test]
    fn the_quartile_ignores_disturbed_batches() {
        use std::cell::Cell;
        let (clock, calls) = (Cell::new(0u64), Cell::new(0u64));
        let work = || {
            calls.set(calls.get() + 1);
            clock.set(clock.get() + if calls.get() % 3 == 0 { 90_000 } else { 2_000 });
            Ok(())
        };
        assert_eq!(batches(1, || clock.get(), work).unwrap(), 2.0);
    }
}
