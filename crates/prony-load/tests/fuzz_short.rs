//! The fuzz targets without a fuzzer: every seed, and some thousand mutations of them, the same ones each time.
//!
//! The long run is `cargo xtask bench fuzz`. A failure shows its input; kept as a file in `fuzz/corpus/TARGET/`, it stays tested.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking; clippy sees only the test functions themselves")]

#[path = "../../../fuzz/src/course.rs"]
mod course;
#[path = "server/frames.rs"]
mod frames;
#[path = "fuzz/h2_seeds.rs"]
mod h2_seeds;
#[path = "../../../fuzz/src/memory.rs"]
mod memory;
#[path = "../../../fuzz/src/pointer.rs"]
mod pointer;
#[path = "../../../fuzz/src/talk.rs"]
mod talk;
#[path = "../../../fuzz/src/targets.rs"]
mod targets;

use course::Random;
use std::path::{Path, PathBuf};
use std::thread;

/// Mutations of each target. A guess: a few seconds in a debug build.
const MUTATIONS: usize = 4000;
/// Most bytes of a mutated input; as the long run has it.
const INPUT_BYTES_MAX: usize = 4096;

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

/// The seeds of a target by name.
fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = corpus(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut seeds: Vec<_> = entries
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).unwrap()))
        .collect();
    seeds.sort();
    assert!(!seeds.is_empty(), "{} has no seeds", folder.display());
    seeds
}

/// Shows the input when the target panics on it.
struct Tried<'a> {
    what: &'a str,
    input: &'a [u8],
}

impl Drop for Tried<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{} failed on b\"{}\"", self.what, self.input.escape_ascii());
        }
    }
}

fn try_one(target: targets::Target, what: &str, input: &[u8]) {
    let tried = Tried { what, input };
    target(tried.input);
}

/// One input made from others by a few of the steps that fuzzers take.
fn mutate(random: &mut Random, seeds: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut input = seeds[random.below(seeds.len())].1.clone();
    for _ in 0..=random.below(4) {
        let at = random.below(input.len() + 1);
        let end = at + random.below(input.len() - at + 1).min(64);
        match random.below(8) {
            0 if at < input.len() => input[at] ^= 1 << random.below(8),
            1 if at < input.len() => input[at] = [0, 1, 0x7f, 0x80, 0xff, b'\r', b'\n', b'0'][random.below(8)],
            2 => input.insert(at, random.draw() as u8),
            3 => drop(input.drain(at..end)),
            4 => input.truncate(at),
            5 => {
                let part = input[at..end].to_vec();
                let again = part.repeat(1 + random.below(8));
                input.splice(at..at, again);
            }
            6 => {
                let other = &seeds[random.below(seeds.len())].1;
                let from = random.below(other.len() + 1);
                let part = other[from..].to_vec();
                input.splice(at..end, part);
            }
            _ => {
                // Numbers at their borders: lengths, sizes, weights.
                let number = ["0", "-1", "18446744073709551616", "1e999", "fffffffffffffff", "65536"][random.below(6)];
                input.splice(at..end.min(at + 4), number.bytes());
            }
        }
        input.truncate(INPUT_BYTES_MAX);
    }
    input
}

#[test]
fn every_target_takes_its_seeds_and_their_mutations() {
    thread::scope(|scope| {
        for (name, target) in targets::TARGETS {
            let work = move || {
                let seeds = seeds(name);
                for (seed, input) in &seeds {
                    try_one(*target, &format!("{name} of the seed {seed}"), input);
                }
                let mut random = Random::new(1);
                for number in 0..MUTATIONS {
                    try_one(*target, &format!("{name} of the mutation {number}"), &mutate(&mut random, &seeds));
                }
            };
            // A name, so that a panic tells whose it was.
            thread::Builder::new().name((*name).to_string()).spawn_scoped(scope, work).unwrap();
        }
    });
}

/// Each target has its folder of seeds and its program, and there are no others.
#[test]
fn targets_seeds_and_programs_belong_together() {
    let names = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
        let mut names: Vec<String> = entries.map(|p| p.file_stem().unwrap().to_string_lossy().into_owned()).collect();
        names.retain(|name| !name.starts_with('.'));
        names.sort();
        names
    };
    let mut targets: Vec<&str> = targets::TARGETS.iter().map(|(name, _)| *name).collect();
    targets.sort_unstable();
    assert_eq!(names(corpus("")), targets);
    assert_eq!(names(corpus("../fuzz_targets")), targets);
    let manifest = std::fs::read_to_string(corpus("../Cargo.toml")).unwrap();
    assert!(targets.iter().all(|name| manifest.contains(&format!("name = \"{name}\""))));
}

/// Bytes are hard to read in a file, so the seeds of HTTP/2 have a recipe. `UPDATE_EXPECT=1` writes them.
#[test]
fn the_seeds_of_http2_are_those_of_their_recipe() {
    let folder = corpus("h2_frames");
    for (name, bytes) in h2_seeds::seeds() {
        let path = folder.join(name);
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&path, &bytes).unwrap();
        }
        assert!(
            std::fs::read(&path).is_ok_and(|b| b == bytes),
            "{} is stale: run with UPDATE_EXPECT=1",
            path.display()
        );
    }
}
