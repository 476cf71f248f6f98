//! The list of causes: one file each, one line each. The order is that of the catalogue.
//!
//! Nothing is judged here.

mod accept_queue_full;
mod access_log_lock;
mod access_log_unbuffered;
mod bad_upstream;
mod bandwidth_bound;
mod chatty_queries;
mod client_connections_short;
mod commit_disk_wait;
mod connection_limit;
mod connection_per_query;
mod connection_pool_exhausted;
mod cpu_quota_throttled;
mod cpu_saturated_kernel;
mod cpu_saturated_user;
mod ephemeral_ports_exhausted;
mod event_loop_blocked;
mod file_descriptors_exhausted;
mod generator_saturated;
mod overlay_encapsulation;
mod packet_loss;
mod packet_steering_overspread;
mod retry_storm;
mod row_lock_contention;
mod slow_query;
mod slow_upstream;
mod stop_the_world_pauses;
mod syn_queue_full;
mod thread_pool_exhausted;
mod too_few_workers;
mod traced_process;
mod upstream_keepalive_off;
mod worker_connections_exhausted;

// What the deep look tells.
mod application_lock;
mod compression_cpu;
mod listener_lock;
mod packet_filter_tax;
mod rule_set_cost;
mod tls_handshakes;
// Kernel, network and host.
mod coalescing_too_high;
mod coalescing_too_low;
mod conntrack_full;
mod cpu_stolen;
mod delayed_ack_stall;
mod disk_saturated;
mod flow_hash_skew;
mod frequency_capped;
mod interrupts_on_one_cpu;
mod log_disk_sync;
mod log_flood;
mod memory_pressure;
mod name_lookup_per_request;
mod nic_ring_overrun;
mod numa_remote;
mod observer_overhead;
mod offloads_off;
mod out_of_memory_kills;
mod packet_capture_tax;
mod packet_rate_bound;
mod partial_packets;
mod path_delay;
mod path_mtu_blackhole;
mod proxy_temp_files;
mod rate_limited;
mod run_queue_wait;
mod socket_buffer_limited;
mod softirq_budget_squeezed;
mod softnet_backlog_drops;
mod too_few_nic_queues;
mod transmit_queue_drops;
mod worker_imbalance;
mod workers_misplaced;

pub use cpu_quota_throttled::THROTTLED;

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
    &connection_pool_exhausted::CAUSE,
    &slow_query::CAUSE,
    &event_loop_blocked::CAUSE,
    &thread_pool_exhausted::CAUSE,
    &connection_per_query::CAUSE,
    &chatty_queries::CAUSE,
    &row_lock_contention::CAUSE,
    &connection_limit::CAUSE,
    &commit_disk_wait::CAUSE,
    &bad_upstream::CAUSE,
    &retry_storm::CAUSE,
    &stop_the_world_pauses::CAUSE,
    // Kernel, network and host.
    &run_queue_wait::CAUSE,
    &workers_misplaced::CAUSE,
    &worker_imbalance::CAUSE,
    &memory_pressure::CAUSE,
    &out_of_memory_kills::CAUSE,
    &log_flood::CAUSE,
    &proxy_temp_files::CAUSE,
    &log_disk_sync::CAUSE,
    &disk_saturated::CAUSE,
    &rate_limited::CAUSE,
    &packet_capture_tax::CAUSE,
    &offloads_off::CAUSE,
    &path_delay::CAUSE,
    &path_mtu_blackhole::CAUSE,
    &socket_buffer_limited::CAUSE,
    &delayed_ack_stall::CAUSE,
    &partial_packets::CAUSE,
    &name_lookup_per_request::CAUSE,
    &conntrack_full::CAUSE,
    &transmit_queue_drops::CAUSE,
    &softnet_backlog_drops::CAUSE,
    &softirq_budget_squeezed::CAUSE,
    &cpu_stolen::CAUSE,
    &observer_overhead::CAUSE,
    &nic_ring_overrun::CAUSE,
    &interrupts_on_one_cpu::CAUSE,
    &too_few_nic_queues::CAUSE,
    &flow_hash_skew::CAUSE,
    &coalescing_too_low::CAUSE,
    &coalescing_too_high::CAUSE,
    &numa_remote::CAUSE,
    &frequency_capped::CAUSE,
    &packet_rate_bound::CAUSE,
    &cpu_saturated_user::CAUSE,
    &cpu_saturated_kernel::CAUSE,
    &generator_saturated::CAUSE,
    // What the deep look tells.
    &tls_handshakes::CAUSE,
    &compression_cpu::CAUSE,
    &rule_set_cost::CAUSE,
    &packet_filter_tax::CAUSE,
    &listener_lock::CAUSE,
    &application_lock::CAUSE,
];
