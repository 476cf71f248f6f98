//! The list of causes: one file each, one line each. The order is that of the catalogue.
//!
//! Nothing is judged here.

mod accept_queue_full;
mod access_log_lock;
mod access_log_unbuffered;
mod bandwidth_bound;
mod client_connections_short;
mod cpu_quota_throttled;
mod cpu_saturated_kernel;
mod cpu_saturated_user;
mod ephemeral_ports_exhausted;
mod file_descriptors_exhausted;
mod generator_saturated;
mod overlay_encapsulation;
mod packet_loss;
mod packet_steering_overspread;
mod slow_upstream;
mod syn_queue_full;
mod too_few_workers;
mod traced_process;
mod upstream_keepalive_off;
mod worker_connections_exhausted;

use crate::cause::Cause;

/// Every cause that prony knows.
pub const CAUSES: &[&Cause] = &[
    &access_log_lock::CAUSE,
    &access_log_unbuffered::CAUSE,
    &upstream_keepalive_off::CAUSE,
    &ephemeral_ports_exhausted::CAUSE,
    &accept_queue_full::CAUSE,
    &syn_queue_full::CAUSE,
    &worker_connections_exhausted::CAUSE,
    &file_descriptors_exhausted::CAUSE,
    &client_connections_short::CAUSE,
    &packet_steering_overspread::CAUSE,
    &bandwidth_bound::CAUSE,
    &overlay_encapsulation::CAUSE,
    &packet_loss::CAUSE,
    &too_few_workers::CAUSE,
    &cpu_quota_throttled::CAUSE,
    &traced_process::CAUSE,
    &slow_upstream::CAUSE,
    &cpu_saturated_user::CAUSE,
    &cpu_saturated_kernel::CAUSE,
    &generator_saturated::CAUSE,
];
