//! Tests of the whole record: round trip, kills, full disks, damage, size.

use crate::schema::EXTENSION;
use crate::{RecordError, Writer, events, list, outline, read};
use expect_test::{Expect, expect};
use prony_model::run::{Arm, Purpose};
use prony_model::stacks::FoldedStack;
use prony_model::{Event, Gap, LoadPlan, LoadResult, Run, RunEnd, Sample, SeriesKey, Stack, Stacks, Trial, Window};
use prony_stats::Random;
use proptest::collection::vec;
use proptest::prelude::*;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SECOND_NS: u64 = 1_000_000_000;

fn run(id: &str) -> Run {
    Run {
        id: id.to_string(),
        version: "0.1.0".to_string(),
        command: "prony prove stack.toml".to_string(),
        started_unix_ms: 1_795_000_000_000,
        stack: Stack::from_url("http://10.77.0.2:8080/1k"),
        ..Run::default()
    }
}

fn trial(id: u32, good_per_s: f64) -> Trial {
    let plan = LoadPlan {
        connections: 64,
        cpus: vec![1],
        rate: Some(prony_model::Rate(good_per_s)),
        headers: vec![("Accept".to_string(), "*/*".to_string())],
        body: vec![0, 255],
        seed: u64::MAX,
        ..LoadPlan::to("http://10.77.0.2:8080/1k")
    };
    let mut histogram = prony_stats::Histogram::new();
    (1..1000).for_each(|us| histogram.record_ns(us * 1000));
    let result = LoadResult { good_per_s, latency: histogram.to_latency(), ..LoadResult::default() };
    let window = Window { from_ns: 5, to_ns: 10 };
    Trial { id, purpose: Purpose::Proof { block: id / 4, arm: Arm::B }, plan, window, result }
}

/// One sample per second: a counter that grows by 7, a gauge that is there every third time.
fn sample(host: &str, second: u64) -> Sample {
    let mut values = vec![("tcp.active_opens".to_string(), String::new(), (7 * second) as f64)];
    if second.is_multiple_of(3) {
        values.push(("cpu.user".to_string(), "0".to_string(), second as f64 / 100.0));
    }
    Sample { host: host.to_string(), at_ns: second * SECOND_NS, values }
}

fn scratch() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a run.prony");
    (folder, path)
}

/// The message of an error, with the scratch folder left out.
fn check(path: &Path, error: &RecordError, want: Expect) {
    want.assert_eq(&error.to_string().replace(path.parent().unwrap().to_str().unwrap(), "FOLDER"));
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_run_comes_back_as_it_was() {
    let (folder, path) = scratch();
    let mut run = run("20261120-231501-7f3a");
    let mut writer = Writer::create(&path, &run).unwrap();
    for second in 0..300 {
        for host in ["lb", "s1"] {
            let sample = sample(host, second);
            writer.sample(&sample);
            run.series.add(&sample);
        }
        writer.flush().unwrap();
        if second == 250 {
            assert_eq!(read(&path).unwrap(), run, "while it is being written");
            assert_eq!(files(folder.path()), ["a run.prony"]);
        }
    }
    run.trials = vec![trial(0, 0.1 + 0.2), trial(1, 1e300)];
    writer.trial(&run.trials[0]).unwrap();
    writer.event(7, &Event::Note { text: "half \u{221a}".to_string() }).unwrap();
    run.gaps.push(Gap::new("nginx.requests", "lb", "no status page"));
    run.diagnosis = Some(prony_model::Diagnosis::default());
    run.end = RunEnd::Failed { reason: "\"quoted\"\n".to_string() };
    writer.finish(&run).unwrap();
    assert_eq!(read(&path).unwrap(), run);
    assert_eq!(outline(&path).unwrap(), Run { series: prony_model::SeriesSet::default(), ..run });
    assert_eq!(events(&path).unwrap(), [(7, Event::Note { text: "half \u{221a}".to_string() })]);
    assert_eq!(files(folder.path()), ["a run.prony"], "one file is the whole record");
}

#[test]
fn stacks_come_back_and_a_record_without_them_opens() {
    let (folder, path) = scratch();
    let mut run = run("r");
    let mut writer = Writer::create(&path, &run).unwrap();
    let stack = |frames: &[&str], samples| FoldedStack {
        frames: frames.iter().map(|frame| (*frame).to_string()).collect(),
        samples,
    };
    let stacks = vec![stack(&["nginx", "main", "write_[k]"], 40), stack(&["a b", "f(int, char)"], 2)];
    run.stacks.push(Stacks { host: "lb".to_string(), at_ns: 7, samples_per_s: 997, stacks });
    writer.update(&run).unwrap();
    writer.flush().unwrap();
    run.stacks.push(Stacks { host: "s1".to_string(), ..run.stacks[0].clone() });
    writer.finish(&run).unwrap();
    assert_eq!(read(&path).unwrap(), run, "each once, in order");
    let older = folder.path().join("older.prony");
    std::fs::copy(&path, &older).unwrap();
    rusqlite::Connection::open(&older).unwrap().execute("DROP TABLE stacks", []).unwrap();
    assert_eq!(read(&older).unwrap(), Run { stacks: vec![], ..run });
}

#[test]
fn a_trial_is_replaced_by_its_number() {
    let (_folder, path) = scratch();
    let mut writer = Writer::create(&path, &run("r")).unwrap();
    writer.trial(&trial(3, 1.0)).unwrap();
    writer.flush().unwrap();
    writer.trial(&trial(3, 2.0)).unwrap();
    writer.flush().unwrap();
    assert_eq!(read(&path).unwrap().trials, [trial(3, 2.0)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn series_come_back_whatever_the_rhythm(
        samples in vec((0usize..3, 0u64..5, vec((0usize..4, "[a-z]{0,2}", -1e12f64..1e12), 0..5)), 0..400),
        flush_every in 1usize..50,
        finished: bool,
    ) {
        let (_folder, path) = scratch();
        let mut run = run("r");
        let mut writer = Writer::create(&path, &run).unwrap();
        let mut at_ns = 0;
        for (i, (host, step, values)) in samples.into_iter().enumerate() {
            at_ns += step * 100_000_000;
            let metrics = ["cpu.user", "if.rx_bytes", "no.such_metric", "load.1m"];
            let values = values.into_iter().map(|(m, item, v)| (metrics[m].to_string(), item, v)).collect();
            let sample = Sample { host: ["lb", "s1", "\u{fc}"][host].to_string(), at_ns, values };
            writer.sample(&sample);
            run.series.add(&sample);
            if i % flush_every == 0 {
                writer.flush().unwrap();
            }
        }
        if finished { writer.finish(&run).unwrap() } else { writer.flush().unwrap() }
        prop_assert_eq!(read(&path).unwrap(), run);
    }
}

#[test]
fn a_number_that_json_cannot_hold_is_refused_at_once() {
    let (_folder, path) = scratch();
    let mut writer = Writer::create(&path, &run("r")).unwrap();
    let error = writer.trial(&trial(4, f64::INFINITY)).unwrap_err();
    assert!(error.to_string().contains("trial 4 cannot be recorded"), "{error}");
    writer.finish(&run("r")).unwrap();
    assert_eq!(read(&path).unwrap(), run("r"));
}

/// The child of `a_killed_run_can_be_read`: records until it is killed, and says after each flush how far it came.
#[test]
fn child_that_is_killed() {
    let Some(path) = std::env::var_os("PRONY_RECORD_CHILD") else { return };
    let mut writer = Writer::create(Path::new(&path), &run("killed")).unwrap();
    for second in 0.. {
        writer.sample(&sample("lb", second));
        writer.trial(&trial(second as u32 % 50, second as f64)).unwrap();
        writer.flush().unwrap();
        writeln!(std::io::stdout(), "\nflushed {second}").unwrap();
    }
}

#[test]
fn a_killed_run_can_be_read() {
    let mut random = Random::new(5);
    for _ in 0..12 {
        let (folder, path) = scratch();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::child_that_is_killed", "--nocapture"])
            .env("PRONY_RECORD_CHILD", &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut seen = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .filter_map(|line| line.unwrap().strip_prefix("flushed ").map(|second| second.parse::<u64>().unwrap()));
        let kill_after = random.below(400);
        let mut flushed = seen.by_ref().find(|second| *second >= kill_after).expect("the child goes on for ever");
        child.kill().unwrap();
        child.wait().unwrap();
        flushed = seen.last().unwrap_or(flushed);

        let found = read(&path).unwrap();
        assert_eq!((found.id.as_str(), found.end), ("killed", RunEnd::Open));
        let key = SeriesKey { host: "lb".into(), metric: "tcp.active_opens".into(), item: String::new() };
        let points: Vec<_> = found.series.iter().filter(|(k, _)| **k == key).flat_map(|(_, p)| p.to_vec()).collect();
        assert!(points.len() as u64 > flushed, "{} points after {flushed} flushes", points.len());
        assert!(points.iter().zip(0..).all(|((at_ns, value), i)| (*at_ns, *value) == (i * SECOND_NS, (7 * i) as f64)));
        assert!(!found.trials.is_empty());
        // One whose head was not written yet has nothing to roll back, and SQLite leaves it alone (sqlite.org/lockingv3.html).
        let journal = std::fs::read(path.with_extension("prony-journal")).unwrap_or_default();
        assert!(journal.iter().take(8).all(|byte| *byte == 0), "a journal that was left is used up by reading");
        assert!(files(folder.path()).len() <= 2, "{:?}", files(folder.path()));
    }
}

#[test]
fn other_files_are_named_as_such() {
    let (folder, path) = scratch();
    let error = read(&path).unwrap_err();
    check(
        &path,
        &error,
        expect![
            "FOLDER/a run.prony: No such file or directory (os error 2). `prony report` and its like want a file that an earlier run wrote"
        ],
    );
    std::fs::write(&path, "").unwrap();
    check(&path, &read(&path).unwrap_err(), expect!["FOLDER/a run.prony: this is no record of prony: it is empty"]);
    std::fs::write(&path, "a text, long enough to be more than the head of a database file: ".repeat(20)).unwrap();
    check(
        &path,
        &read(&path).unwrap_err(),
        expect!["FOLDER/a run.prony: this is no record of prony: it is not a SQLite file"],
    );
    std::fs::remove_file(&path).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE t (a)").unwrap();
    check(
        &path,
        &read(&path).unwrap_err(),
        expect!["FOLDER/a run.prony: this is no record of prony: it is a SQLite file of another program"],
    );
    other.execute_batch("PRAGMA application_id = 0x50524E59; PRAGMA user_version = 99").unwrap();
    check(
        &path,
        &read(&path).unwrap_err(),
        expect![
            "FOLDER/a run.prony: the record has format 99, and this prony reads formats up to 1: use a newer prony"
        ],
    );
    check(&path, &read(folder.path()).unwrap_err(), expect!["FOLDER: this is no record of prony: it is a folder"]);
    check(
        &path,
        &Writer::create(&path, &run("r")).unwrap_err(),
        expect![
            "FOLDER/a run.prony: the record cannot be made: File exists (os error 17). Records are never overwritten: name another file, or remove this one"
        ],
    );
    check(
        &path,
        &Writer::create(&path.join("a"), &run("r")).unwrap_err(),
        expect!["FOLDER/a run.prony/a: the record cannot be made: Not a directory (os error 20)"],
    );
    check(
        &path,
        &Writer::create(&folder.path().join("no/a"), &run("r")).unwrap_err(),
        expect![
            "FOLDER/no/a: the record cannot be made: No such file or directory (os error 2). Make the folder first, or name a file in another one"
        ],
    );
}

/// A record with trials and blocks, long enough to be worth damaging.
fn long_record(path: &Path) -> Run {
    let mut run = run("long");
    let mut writer = Writer::create(path, &run).unwrap();
    let mut random = Random::new(9);
    for second in 0..600 {
        let value = |i: u32| ("cpu.user".to_string(), i.to_string(), random.uniform());
        writer.sample(&Sample { host: "lb".into(), at_ns: second * SECOND_NS, values: (0..20).map(value).collect() });
    }
    run.trials = (0..20).map(|id| trial(id, 1.0)).collect();
    writer.finish(&run).unwrap();
    run
}

#[test]
fn a_cut_or_damaged_file_is_an_error_or_right() {
    let (_folder, path) = scratch();
    let whole_run = {
        long_record(&path);
        read(&path).unwrap()
    };
    let whole = std::fs::read(&path).unwrap();
    let mut random = Random::new(4);
    let (mut refused, mut cut_refused) = (0, 0);
    for _ in 0..60 {
        std::fs::write(&path, &whole[..random.below(whole.len() as u64) as usize]).unwrap();
        cut_refused += u32::from(read(&path).is_err());
        let mut damaged = whole.clone();
        let at = random.below(whole.len() as u64) as usize;
        damaged[at..].iter_mut().take(64).for_each(|byte| *byte ^= 0x5A);
        std::fs::write(&path, damaged).unwrap();
        refused += u32::from(read(&path).is_err_and(|error| error.to_string().contains("a run.prony")));
    }
    assert_eq!(cut_refused, 60);
    assert!(refused > 40, "{refused}: zlib sums and JSON should notice most damage");
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(read(&path).unwrap(), whole_run);
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    check(
        &path,
        &read(&path).unwrap_err(),
        expect![
            "FOLDER/a run.prony: the file cannot be read: database disk image is malformed. If the file was cut or copied badly, `sqlite3 FILE .recover` may save the rest"
        ],
    );
}

#[test]
fn a_folder_is_listed() {
    let (folder, path) = scratch();
    let ids = ["20261120-1", "20261120-2"];
    for id in ids {
        Writer::create(&folder.path().join(id).with_extension(EXTENSION), &run(id)).unwrap();
    }
    std::fs::write(&path, "no record").unwrap();
    std::fs::write(folder.path().join("report.html"), "").unwrap();
    let listing = list(folder.path()).unwrap();
    assert_eq!(listing.runs.iter().map(|listed| listed.id.as_str()).collect::<Vec<_>>(), ids);
    assert_eq!((listing.runs[0].end.clone(), listing.unreadable.len()), (RunEnd::Open, 1));
    assert!(list(&folder.path().join("none")).is_err());
}

/// The program in docs/record.md, run as it stands there, prints the same points as `read`.
#[test]
fn the_published_description_is_right() {
    let (_folder, path) = scratch();
    let mut writer = Writer::create(&path, &run("r")).unwrap();
    let mut random = Random::new(2);
    let mut state = vec![1e6; 40];
    for second in 0..150 {
        writer.sample(&busy_host(&mut random, &mut state, second, "lb"));
        writer.sample(&sample("s1", second));
        writer.flush().unwrap();
    }
    let page = include_str!("../../../docs/record.md");
    let program = page.split_once("```python\n").and_then(|(_, rest)| rest.split_once("```")).unwrap().0;
    let Ok(output) = Command::new("python3").args(["-c", program]).arg(&path).output() else {
        writeln!(std::io::stderr(), "skipped: there is no python3").unwrap();
        return;
    };
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let point = |line: &str| -> (SeriesKey, u64, f64) {
        let cells: Vec<&str> = line.split('\t').collect();
        let [host, metric, item] = [0, 1, 2].map(|i| cells[i].to_string());
        (SeriesKey { host, metric, item }, cells[3].parse().unwrap(), cells[4].parse().unwrap())
    };
    let mut series = prony_model::SeriesSet::default();
    printed.lines().map(point).for_each(|(key, at_ns, value)| series.push(key, at_ns, value));
    assert!(series == read(&path).unwrap().series, "{printed}");
}

/// A reader that holds the file does not stop the writer; what waited is written when the reader is gone.
#[test]
fn a_reader_in_the_way_only_delays() {
    let (_folder, path) = scratch();
    let mut writer = Writer::create(&path, &run("r")).unwrap();
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM meta").unwrap();
    writer.sample(&sample("lb", 1));
    writer.flush().unwrap();
    assert_eq!(read(&path).unwrap().series.iter().count(), 0);
    reader.execute_batch("COMMIT").unwrap();
    writer.flush().unwrap();
    assert_eq!(read(&path).unwrap().series.iter().count(), 1);
}

/// A file system of 512 KiB; unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<Self> {
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=512k", "prony-test"]).arg(at).status();
        mount.is_ok_and(|status| status.success()).then(|| Self(at.to_path_buf()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg(&self.0).status());
    }
}

#[test]
fn a_full_disk_keeps_what_was_written_needs_root() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(folder.path()) else {
        writeln!(std::io::stderr(), "skipped: mounting a small disk needs root").unwrap();
        return;
    };
    let path = disk.0.join("full.prony");
    let mut writer = Writer::create(&path, &run("full")).unwrap();
    let mut flushed = 0;
    let error = loop {
        writer.trial(&trial(flushed, 1.0)).unwrap();
        match writer.flush() {
            Ok(()) => flushed += 1,
            Err(error) => break error,
        }
    };
    check(
        &path,
        &error,
        expect![
            "FOLDER/full.prony: no space left for the record; what was written before can be read. Free some space, or name a file on another disk"
        ],
    );
    assert!(flushed > 10);
    assert_eq!(read(&path).unwrap().trials.len(), flushed as usize);
    // With room again, the same writer goes on, and nothing that waited is lost.
    let more = Command::new("mount").args(["-o", "remount,size=4m"]).arg(&disk.0).status().unwrap();
    assert!(more.success());
    writer.finish(&run("full")).unwrap();
    assert_eq!(read(&path).unwrap().trials.len(), flushed as usize + 1);
}

#[test]
fn no_room_at_all_leaves_no_file_needs_root() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(folder.path()) else {
        writeln!(std::io::stderr(), "skipped: mounting a small disk needs root").unwrap();
        return;
    };
    std::fs::write(disk.0.join("filler"), vec![0; 510 * 1024]).unwrap();
    let error = Writer::create(&disk.0.join("a.prony"), &run("r")).unwrap_err();
    assert!(matches!(error, RecordError::DiskFull { .. }), "{error}");
    assert_eq!(files(&disk.0), ["filler"]);
}

/// Values as hosts under load show them: a few that stand still, counters with the noise of their rate, gauges.
fn busy_host(random: &mut Random, state: &mut [f64], second: u64, host: &str) -> Sample {
    let mut values = Vec::with_capacity(state.len());
    for (i, value) in state.iter_mut().enumerate() {
        let noisy = |random: &mut Random, mean: f64| random.normal(mean, mean.sqrt()).max(0.0).round();
        let read = match i % 20 {
            0..3 => *value, // settings, limits, counters of rare events
            3..7 => {
                *value += noisy(random, 9_000.0);
                *value
            } // requests, packets, segments
            7..9 => {
                *value += noisy(random, 9_000.0) * 1433.0;
                *value
            } // bytes
            9..11 => {
                *value += noisy(random, 1.0);
                *value
            } // rare events
            11..15 => {
                *value += noisy(random, 40.0);
                *value / 100.0
            } // CPU time in ticks
            15..17 => {
                *value += (random.uniform() * 9e8).round();
                *value / 1e9
            } // CPU time in nanoseconds
            17..19 => noisy(random, 300.0), // sockets, queues
            _ => random.uniform(), // shares: 53 random bits
        };
        values.push((format!("metric.{}", i / 10), format!("{}", i % 10), read));
    }
    Sample { host: host.to_string(), at_ns: second * SECOND_NS + random.below(2_000_000), values }
}

/// Bytes per point of a record with that many hosts and seconds, 300 metrics each.
fn bytes_per_point(hosts: usize, seconds: u64) -> (u64, f64) {
    let (_folder, path) = scratch();
    let mut random = Random::new(1);
    let mut states = vec![vec![1e6; 300]; hosts];
    let mut writer = Writer::create(&path, &run("size")).unwrap();
    for second in 0..seconds {
        for (host, state) in states.iter_mut().enumerate() {
            writer.sample(&busy_host(&mut random, state, second, &format!("host{host}")));
        }
        writer.flush().unwrap();
    }
    writer.finish(&run("size")).unwrap();
    let bytes = std::fs::metadata(&path).unwrap().len();
    let points: usize = read(&path).unwrap().series.iter().map(|(_, points)| points.len()).sum();
    assert_eq!(points as u64, hosts as u64 * seconds * 300);
    (bytes, bytes as f64 / points as f64)
}

/// 50 MB for 10 hosts, 300 metrics, an hour at 1 Hz are 4.6 bytes a point; this is a tenth of that hour with one host.
#[test]
fn an_hour_of_ten_hosts_fits_into_50_mb() {
    let (_, per_point) = bytes_per_point(1, 360);
    assert!(per_point < 50e6 / (10.0 * 300.0 * 3600.0), "{per_point} bytes a point");
}

#[test]
#[ignore = "takes a minute; prints the figure of docs/record.md"]
fn full_hour() {
    let (bytes, per_point) = bytes_per_point(10, 3600);
    writeln!(std::io::stdout(), "10 hosts, 300 metrics, 1 h at 1 Hz: {bytes} bytes, {per_point:.2} a point").unwrap();
    assert!(bytes < 50_000_000);
}
