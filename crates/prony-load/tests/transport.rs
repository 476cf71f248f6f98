//! Which transport carries a load, and that a kernel without io_uring carries it too.
//!
//! What both must do alike is tested where it is about that: `hostile.rs`, `nginx.rs`, `allocations.rs`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking; clippy sees only the test functions themselves")]

#[path = "server/raw.rs"]
mod raw;

use prony_model::load::Transport;
use prony_model::{LoadPlan, LoadResult, Rate};
use raw::{load, plan_to, server, well};
use std::thread;

mod sys {
    //! A kernel that refuses io_uring.

    /// From now on io_uring_setup(2) fails with EPERM on this thread and on those that it starts, as in most containers.
    pub fn refuse_io_uring() {
        let instruction = |code: u32, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf, k };
        let mut filter = [
            instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
            instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, libc::SYS_io_uring_setup as u32),
            instruction(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
            instruction(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: no pointers.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
        let program = &raw const program;
        // SAFETY: the program and its filter outlive the call, which copies them.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, program) }, 0);
    }
}

fn carried(change: impl FnOnce(&mut LoadPlan)) -> LoadResult {
    let mut plan = plan_to(server(well));
    change(&mut plan);
    let result = load(&plan).unwrap();
    assert!(result.completed > 0 && result.errors.total() == 0, "{result:?}");
    result
}

#[test]
fn a_ring_carries_closed_loops_of_kept_connections() {
    if carried(|plan| plan.transport = Some(Transport::IoUring)).transport == Transport::Epoll {
        eprintln!("not run: this kernel refuses io_uring");
        return;
    }
    assert_eq!(carried(|_| {}).transport, Transport::IoUring);
    assert_eq!(carried(|plan| plan.transport = Some(Transport::Epoll)).transport, Transport::Epoll);
    assert_eq!(carried(|plan| plan.rate = Some(Rate(500.0))).transport, Transport::Epoll);
    assert_eq!(carried(|plan| plan.keepalive = false).transport, Transport::Epoll);
}

#[test]
fn a_thread_that_spins_tells_spinning_from_work() {
    let slow = |spin| carried(|plan| (plan.rate, plan.spin) = (Some(Rate(200.0)), spin)).threads[0];
    let (sleeping, spinning) = (slow(false), slow(true));
    // It wakes up before the next request is due, and looks again and again for what is left, at most a quarter of the time.
    assert!(sleeping.spun_us > 0.0 && sleeping.spun_us < 0.25 * sleeping.wall_us, "{sleeping:?}");
    let ran_us = spinning.user_us + spinning.system_us;
    // Strangers may have had its CPU, but of what it had, 200 requests per second need little.
    assert!(spinning.spun_us > 0.5 * ran_us && spinning.worked_us() >= 0.0, "{spinning:?}");
}

#[test]
fn a_kernel_that_refuses_io_uring_carries_the_load_by_epoll() {
    let result = thread::spawn(|| {
        sys::refuse_io_uring();
        carried(|plan| plan.transport = Some(Transport::IoUring))
    });
    assert_eq!(result.join().unwrap().transport, Transport::Epoll);
}
