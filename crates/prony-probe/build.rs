//! Compiles the eBPF programs of the deep look by clang. They ask nothing of the machine but clang: the few declarations
//! of the kernel that they need stand in `src/bpf/kernel.h`, and libbpf fits them to the running kernel when it loads them.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Each is `src/bpf/NAME.bpf.c`, loaded by `src/deep/NAME.rs`; `nothing` by `costs.rs`.
const PROGRAMS: [&str; 8] = ["profile", "locks", "threads", "packets", "softirqs", "interrupts", "split", "nothing"];

fn main() -> ExitCode {
    println!("cargo:rerun-if-changed=src/bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
    for name in PROGRAMS {
        if let Err(reason) = compile(name, &out) {
            eprintln!("prony-probe: {reason}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn compile(name: &str, out: &Path) -> Result<(), String> {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_string());
    // -g makes the type information by which libbpf relocates; the byte order is that of the machine prony runs on.
    let endian = if std::env::var("CARGO_CFG_TARGET_ENDIAN").as_deref() == Ok("big") { "bpfeb" } else { "bpfel" };
    let mut command = Command::new(&clang);
    command.args(["-target", endian, "-g", "-O2", "-Wall", "-Werror", "-nostdinc", "-c"]);
    // Registers have other names on other processors.
    if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64") {
        command.arg("-DTARGET_X86_64");
    }
    command.arg(format!("src/bpf/{name}.bpf.c")).arg("-o").arg(out.join(format!("{name}.bpf.o")));
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{clang} could not compile src/bpf/{name}.bpf.c ({status}): its message is above")),
        Err(e) => Err(format!(
            "cannot run `{clang}`: {e}. prony's eBPF programs are compiled by clang 14 or newer: run \
             `scripts/setup.sh build`, or `apt-get install clang libelf-dev zlib1g-dev pkg-config`, \
             or set CLANG to its path"
        )),
    }
}
