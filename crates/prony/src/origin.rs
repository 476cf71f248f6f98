//! Where the figures of a page come from: this program, this machine, now.

use crate::calibrate::Machine;
use crate::measure;
use prony_model::Utc;
use prony_report::origin::Origin;

/// What is measured by `command` here and now.
pub(crate) fn of(command: String) -> Origin {
    let Machine { cpu, cpus, kernel, prony } = Machine::this();
    Origin {
        command,
        machine: format!("{cpus} CPUs of {cpu}, Linux {kernel}"),
        by: format!("prony {prony}"),
        at: Utc::from_unix_ms(measure::now_ms()).to_string(),
    }
}
