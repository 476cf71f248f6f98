//! A cable that takes its time, for kernels without netem: a process between the host's interface and the switch.
//!
//! Both ends are TAP devices; every frame is read at one end and written to the other when it is due. It drops nothing on
//! purpose: loss is the switch's. Frames of one direction keep their order under jitter, as on a real cable, and only those
//! that `reorder` names overtake others. Invariant: a frame never leaves before it is due.

use crate::error::file;
use crate::network::INTERFACE;
use crate::plan::PlannedHost;
use crate::server::run_to_daemon;
use crate::state::{State, Thing};
use crate::sys::{self, Seat};
use crate::traces::{Ground, SWITCH, port_name};
use crate::{LabError, LabId, cgroup};
use prony_model::Nanos;
use prony_model::lab::Direction;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Frames under way at once; more are lost, as in a full queue. A guess: 100 MB of large ones, or 1 Gbit/s over 700 ms.
const HELD_MAX: usize = 1 << 16;
/// Frames that are taken from one end before the other is looked at. A guess.
const TURN: usize = 64;
/// Largest frame: an IP packet of 64 KiB with its Ethernet head.
const FRAME_BYTES_MAX: usize = (1 << 16) + 18;

/// What one wire does; a file, so that a list of processes shows which lab and host it belongs to.
#[derive(Debug, Serialize, Deserialize)]
struct WirePlan {
    sending: Direction,
    receiving: Direction,
    seed: u64,
}

/// Makes both devices and starts the process between them.
///
/// # Errors
/// There are no TAP devices here, or the process does not start.
pub(crate) fn start(ground: &Ground, id: &LabId, host: &PlannedHost, state: &mut State) -> Result<(), LabError> {
    let own = tap(ground, id, &host.name, INTERFACE)?;
    let port = tap(ground, id, SWITCH, &port_name(&host.name))?;
    let group = cgroup::wire(&host.name);
    state.add(Thing::Cgroup(cgroup::reference(id, &group)))?;
    cgroup::make(ground, id, &group)?;
    let link = &host.lab.link;
    let seed = u64::from(u32::from(host.addr));
    let plan = WirePlan { sending: link.sending(), receiving: link.receiving(), seed };
    let path = ground.lab(id).join(format!("wire-{}.json", host.name));
    let text = serde_json::to_string(&plan).expect("numbers and texts always have a JSON form");
    file("write", &path, std::fs::write(&path, text))?;
    let log = path.with_extension("log");
    let complaints = file("create", &log, File::create(&log))?;
    // This program again, whatever has become of its file meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("prony").args(["lab", "wire"]).arg(&path);
    command.stdin(Stdio::from(own)).stdout(Stdio::from(port)).stderr(complaints);
    let netns = ground.netns_path(id, SWITCH);
    let netns = file("open", &netns, File::open(&netns))?;
    let cpus = sys::allowed_cpus().unwrap_or_else(|_| host.cpus.clone());
    sys::seat(&mut command, Seat { netns, cgroup_procs: cgroup::doors(ground, id, &group)?, cpus });
    run_to_daemon(command).map_err(|reason| LabError::ServerFailed {
        host: host.name.clone(),
        server: "the wire".to_string(),
        reason,
        log: std::fs::read_to_string(&log).unwrap_or_default(),
    })
}

fn tap(ground: &Ground, id: &LabId, host: &str, interface: &str) -> Result<File, LabError> {
    let netns = ground.netns_path(id, host);
    let made = file("enter", &netns, sys::in_netns(&netns, || sys::tap(interface)))?;
    file("make a TAP device (a link with a delay needs it, as this kernel has no netem) by", Path::new(sys::TUN), made)
}

/// Is the wire that a file describes, between standard input and standard output. It leaves whoever started it, and returns
/// when an end is gone.
///
/// # Errors
/// The file is none of a wire, or the ends are no TAP devices.
pub fn run(path: &Path) -> Result<(), LabError> {
    let text = file("read", path, std::fs::read_to_string(path))?;
    let plan: WirePlan = file("read", path, serde_json::from_str(&text).map_err(io::Error::other))?;
    let ends = file("open the ends of the wire of", path, sys::standard_ends())?;
    file("leave the parent of the wire of", path, sys::leave_parent())?;
    let lanes = [Lane::new(plan.sending, plan.seed), Lane::new(plan.receiving, !plan.seed)];
    file("carry frames by", path, carry(&ends, lanes))
}

/// One direction.
struct Lane {
    direction: Direction,
    last_due_ns: u64,
    random: u64,
}

impl Lane {
    fn new(direction: Direction, seed: u64) -> Self {
        Self { direction, last_due_ns: 0, random: seed }
    }

    /// A number from 0 to `most`. SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators").
    fn draw(&mut self, most: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % (most + 1)
    }

    /// When a frame that comes now leaves.
    fn due_ns(&mut self, now_ns: u64) -> u64 {
        const MILLION: u64 = 1_000_000;
        let Some(delay) = self.direction.delay else { return now_ns };
        let overtakers = self.direction.reorder.map_or(0, |share| (share.0 * MILLION as f64).round() as u64);
        if overtakers > 0 && self.draw(MILLION - 1) < overtakers {
            return now_ns;
        }
        let Nanos(jitter) = self.direction.jitter.unwrap_or_default();
        let due_ns = now_ns + delay.0.saturating_sub(jitter) + self.draw(2 * jitter);
        self.last_due_ns = self.last_due_ns.max(due_ns);
        self.last_due_ns
    }
}

/// A frame under way. Sorted by when it is due, then by when it came.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    due_ns: u64,
    number: u64,
    lane: usize,
    frame: Vec<u8>,
}

/// Carries frames until an end is gone.
fn carry(ends: &[File; 2], mut lanes: [Lane; 2]) -> io::Result<()> {
    sys::precise_timers();
    let mut held: BinaryHeap<Reverse<Held>> = BinaryHeap::new();
    let mut room = vec![0; FRAME_BYTES_MAX];
    let mut number = 0;
    loop {
        let now_ns = sys::monotonic_ns();
        while held.peek().is_some_and(|Reverse(first)| first.due_ns <= now_ns) {
            let Some(Reverse(first)) = held.pop() else { break };
            // A full queue at the other end, or one that is down, loses the frame as a switch would.
            let _lost = (&ends[1 - first.lane]).write(&first.frame);
        }
        let wait_ns = held.peek().map(|Reverse(first)| first.due_ns.saturating_sub(now_ns));
        sys::wait_readable(ends, wait_ns)?;
        for (at, lane) in lanes.iter_mut().enumerate() {
            for _ in 0..TURN {
                match (&ends[at]).read(&mut room) {
                    Ok(0) => break,
                    Ok(bytes) if held.len() < HELD_MAX => {
                        let due_ns = lane.due_ns(sys::monotonic_ns());
                        number += 1;
                        held.push(Reverse(Held { due_ns, number, lane: at, frame: room[..bytes].to_vec() }));
                    }
                    Ok(_) => {}
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    Err(e) => return Err(e),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::Share;

    fn lane(delay_ms: u64, jitter_ms: u64, reorder: f64) -> Lane {
        let time = |ms| Some(Nanos::from_millis(ms));
        let direction = Direction {
            delay: time(delay_ms),
            jitter: time(jitter_ms),
            reorder: Some(Share(reorder)),
            ..Direction::default()
        };
        Lane::new(direction, 7)
    }

    #[test]
    fn frames_keep_their_order_under_jitter() {
        let mut lane = lane(10, 5, 0.0);
        let due: Vec<u64> = (0..1000).map(|i| lane.due_ns(i * 10_000_000)).collect();
        assert!(due.is_sorted());
        let late_ms: Vec<f64> = due.iter().enumerate().map(|(i, due)| *due as f64 / 1e6 - i as f64 * 10.0).collect();
        assert!(late_ms.iter().all(|late| (5.0..=15.0).contains(late)), "{late_ms:?}");
        let mean_ms = late_ms.iter().sum::<f64>() / 1000.0;
        assert!((9.5..10.8).contains(&mean_ms), "{mean_ms}");
    }

    #[test]
    fn a_share_of_frames_overtakes_others() {
        let mut lane = lane(10, 0, 0.02);
        let overtakers = (0..100_000u64).filter(|now_ns| lane.due_ns(*now_ns) == *now_ns).count();
        assert!((1_800..2_200).contains(&overtakers), "{overtakers}");
    }

    #[test]
    fn a_direction_without_a_delay_holds_nothing_up() {
        assert_eq!(Lane::new(Direction::default(), 1).due_ns(5), 5);
    }

    #[test]
    fn what_is_due_first_leaves_first() {
        let held = |due_ns, number| Reverse(Held { due_ns, number, lane: 0, frame: Vec::new() });
        let mut heap = BinaryHeap::from([held(5, 1), held(3, 2), held(5, 0), held(4, 3)]);
        let order: Vec<u64> = std::iter::from_fn(|| heap.pop()).map(|Reverse(held)| held.number).collect();
        assert_eq!(order, [2, 3, 0, 1]);
    }
}
