//! The journal survives being cut at any byte, tells dead runs from living ones, and never lets two runs clobber.

use super::*;
use crate::step::{Form, KernelFile, Root, Step};
use crate::{Context, Disruption, apply, keep, knobs, undo};
use prony_model::knob::ChangeState;
use prony_model::{Host, KnobId};
use proptest::prelude::*;

/// A machine made of files: undo of `sysctl.net.core.somaxconn` is tested on it without root.
struct Machine {
    dir: tempfile::TempDir,
    roots: Roots,
    host: Host,
}

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let proc = dir.path().join("proc");
        for (name, text) in [
            ("sys/net/core/somaxconn", "4096\n"),
            ("sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
            ("sys/kernel/random/boot_id", "boot-1\n"),
        ] {
            fs::create_dir_all(proc.join(name).parent().unwrap()).unwrap();
            fs::write(proc.join(name), text).unwrap();
        }
        let roots = Roots { proc, sys: dir.path().join("sys"), cgroup: dir.path().join("cgroup") };
        Self { dir, roots, host: Host::default() }
    }

    fn ctx(&self) -> Context<'_> {
        Context { name: "lb", host: &self.host, roots: self.roots.clone(), pids: vec![], place: Place::Local }
    }

    fn journal(&self) -> Journal {
        Journal::open(&self.journals()).unwrap()
    }

    fn journals(&self) -> PathBuf {
        self.dir.path().join("journal")
    }

    fn somaxconn(&self) -> String {
        fs::read_to_string(self.roots.proc.join("sys/net/core/somaxconn")).unwrap().trim().to_string()
    }

    fn set(&self, value: &str) {
        fs::write(self.roots.proc.join("sys/net/core/somaxconn"), value).unwrap();
    }

    fn apply(&self, journal: &Journal, value: &str) -> Result<crate::Applied, TuneError> {
        apply(&self.ctx(), &somaxconn(value), journal)
    }

    fn journal_files(&self) -> usize {
        files(&self.journals()).unwrap().len()
    }
}

fn somaxconn(value: &str) -> Knob {
    Knob { host: "lb".to_string(), id: KnobId::Sysctl("net.core.somaxconn".to_string()), value: value.to_string() }
}

#[test]
fn apply_then_undo_is_identity() {
    let machine = Machine::new();
    let journal = machine.journal();
    let applied = machine.apply(&journal, "128").unwrap();
    assert_eq!((machine.somaxconn().as_str(), applied.change.before.as_str()), ("128", "4096"));
    assert_eq!(applied.change.diff, "sys/net/core/somaxconn: 4096 -> 128\n");
    assert_eq!(journal.unsettled(), [(applied.id, Place::Local)]);
    let undone = undo(&journal, applied.id).unwrap();
    assert_eq!((machine.somaxconn().as_str(), undone.state), ("4096", ChangeState::Undone));
    assert!(undo(&journal, applied.id).is_err(), "once is enough");
    drop(journal);
    assert_eq!(machine.journal_files(), 0);
}

#[test]
fn what_someone_else_changed_is_left_alone() {
    let machine = Machine::new();
    let journal = machine.journal();
    let applied = machine.apply(&journal, "128").unwrap();
    machine.set("777");
    let undone = undo(&journal, applied.id).unwrap();
    assert_eq!((machine.somaxconn().as_str(), undone.state), ("777", ChangeState::Conflict));
    assert!(undone.notes[0].contains("somaxconn is `777` now"), "{:?}", undone.notes);
}

#[test]
fn kept_changes_stay() {
    let machine = Machine::new();
    let journal = machine.journal();
    let applied = machine.apply(&journal, "128").unwrap();
    keep(&journal, applied.id).unwrap();
    drop(journal);
    assert_eq!(machine.somaxconn(), "128");
    assert!(pending(&machine.journals()).unwrap().is_empty());
}

#[test]
fn two_runs_do_not_clobber() {
    let machine = Machine::new();
    let (first, second) = (machine.journal(), machine.journal());
    let applied = machine.apply(&first, "128").unwrap();
    let error = machine.apply(&second, "256").unwrap_err();
    assert!(matches!(error, TuneError::Busy { alive: true, .. }), "{error}");
    assert_eq!(machine.somaxconn(), "128");
    assert!(pending(&machine.journals()).unwrap().is_empty(), "both runs live");
    undo(&first, applied.id).unwrap();
    let again = machine.apply(&second, "256").unwrap();
    std::mem::forget(again);
    drop(second);
    let error = machine.apply(&first, "512").unwrap_err();
    assert!(error.to_string().ends_with("it was killed: run `prony undo` first"), "{error}");
    let left = pending(&machine.journals()).unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].undo(&machine.roots).unwrap().state, ChangeState::Undone);
    assert_eq!(machine.somaxconn(), "4096");
    assert_eq!(machine.journal_files(), 1, "only that of the living run is left");
}

#[test]
fn changes_on_top_of_each_other_are_undone_in_reverse() {
    let machine = Machine::new();
    let journal = machine.journal();
    machine.apply(&journal, "128").unwrap();
    machine.apply(&journal, "256").unwrap();
    drop(journal);
    for entry in pending(&machine.journals()).unwrap() {
        assert_eq!(entry.undo(&machine.roots).unwrap().state, ChangeState::Undone);
    }
    assert_eq!(machine.somaxconn(), "4096");
}

#[test]
fn a_journal_cut_at_any_byte_restores_all_that_was_done() {
    let machine = Machine::new();
    let journal = machine.journal();
    machine.apply(&journal, "128").unwrap();
    let whole = fs::read(&journal.book().path).unwrap();
    drop(journal);
    fs::remove_file(&files(&machine.journals()).unwrap()[0]).unwrap();
    let path = machine.journals().join("0-1-0.jsonl");
    let begin_ends = whole.iter().enumerate().filter(|(_, b)| **b == b'\n').nth(1).unwrap().0 + 1;
    for cut in 0..=whole.len() {
        // The change is made only after its record is complete.
        machine.set(if cut >= begin_ends { "128" } else { "4096" });
        fs::write(&path, &whole[..cut]).unwrap();
        for entry in pending(&machine.journals()).unwrap() {
            entry.undo(&machine.roots).unwrap();
        }
        assert_eq!(machine.somaxconn(), "4096", "cut at {cut}");
        assert_eq!(machine.journal_files(), 0, "cut at {cut}");
    }
}

#[test]
fn a_lock_that_outlives_its_run_is_waited_for() {
    let machine = Machine::new();
    let journal = machine.journal();
    machine.apply(&journal, "128").unwrap();
    let path = journal.book().path.clone();
    drop(journal);
    // The owner is nobody: no process has this pid.
    let text = fs::read_to_string(&path).unwrap();
    let pid = format!("\"pid\":{}", std::process::id());
    fs::write(&path, text.replacen(&pid, &format!("\"pid\":{}", u32::MAX), 1)).unwrap();
    let child = File::open(&path).unwrap();
    child.lock().unwrap();
    let held = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        drop(child);
    });
    let left = pending(&machine.journals()).unwrap();
    held.join().unwrap();
    assert_eq!(left.len(), 1);
    left[0].undo(&machine.roots).unwrap();
    assert_eq!(machine.somaxconn(), "4096");
}

#[test]
fn a_damaged_line_in_the_middle_is_told() {
    let machine = Machine::new();
    fs::create_dir_all(machine.journals()).unwrap();
    fs::write(machine.journals().join("1-1-1.jsonl"), "{\"record\":\"applied\",\"id\":1}\nrubbish\n").unwrap();
    let error = pending(&machine.journals()).unwrap_err().to_string();
    assert!(error.contains("1-1-1.jsonl:2: this is no journal entry"), "{error}");
}

#[test]
fn a_reboot_undoes_what_is_volatile() {
    let machine = Machine::new();
    let journal = machine.journal();
    machine.apply(&journal, "128").unwrap();
    drop(journal);
    fs::write(machine.roots.proc.join("sys/kernel/random/boot_id"), "boot-2\n").unwrap();
    let undone = pending(&machine.journals()).unwrap()[0].undo(&machine.roots).unwrap();
    assert_eq!(undone.notes, ["the machine was restarted since, which undid it"]);
    assert_eq!(machine.somaxconn(), "128", "whatever has that value now, it is not ours");
}

#[test]
fn a_step_without_effect_is_an_error_and_undone_at_once() {
    let machine = Machine::new();
    let journal = machine.journal();
    let step = |name: &str, old: &str| {
        let path = format!("sys/net/{name}");
        Step::KernelFile(KernelFile { root: Root::Proc, path, old: old.into(), new: "9".into(), form: Form::Words })
    };
    let plan = crate::knob::Plan {
        before: String::new(),
        steps: vec![step("core/somaxconn", "4096"), step("ipv4/ip_local_port_range", "not what is there")],
        reload: None,
        permanent: String::new(),
    };
    let error = crate::carry_out(&machine.ctx(), &somaxconn("9"), plan, &journal, || Ok(())).unwrap_err();
    assert!(matches!(error, TuneError::NoEffect { .. }), "{error}");
    assert_eq!(machine.somaxconn(), "4096");
    assert!(journal.unsettled().is_empty());
}

#[test]
fn the_same_value_is_nothing_to_turn() {
    let machine = Machine::new();
    let journal = machine.journal();
    assert!(matches!(machine.apply(&journal, "4096"), Err(TuneError::Unchanged { .. })));
    assert!(matches!(machine.apply(&journal, "x"), Err(TuneError::Value { .. })));
    assert!(journal.unsettled().is_empty());
}

#[test]
fn the_catalogue_reads_well() {
    for info in knobs() {
        assert!(info.doc.ends_with('.') && info.risk.ends_with('.'), "{}", info.name);
        assert!(info.name.starts_with("nginx.") == (info.disruption == Disruption::Reload), "{}", info.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    #[test]
    fn any_series_of_changes_is_undone(values in proptest::collection::vec(1u32..65_000, 1..6), undo_now in 0usize..6) {
        let machine = Machine::new();
        let journal = machine.journal();
        for value in &values {
            // The same value twice is refused, and that is all.
            machine.apply(&journal, &value.to_string()).ok();
        }
        for (id, _) in journal.unsettled().into_iter().take(undo_now) {
            undo(&journal, id).unwrap();
        }
        drop(journal);
        for entry in pending(&machine.journals()).unwrap() {
            prop_assert_eq!(entry.undo(&machine.roots).unwrap().state, ChangeState::Undone);
        }
        prop_assert_eq!(machine.somaxconn(), "4096");
    }
}
