// From a fact to its chart over time: which chart shows it, and how a reader gets there.

import { h } from "./dom";
import type { ChartKind, ReportData } from "./generated/types";
import { t } from "./text";

/** Charts by the beginning of a fact's name; the first that fits. */
export const CHARTS: [beginning: string, kind: ChartKind][] = [
  ["cpu.context_switches", "switches"],
  ["cpu.forks", "switches"],
  ["cpu.", "cpu"],
  ["busy share of the hop's CPUs", "cpu"],
  ["kernel share of busy time", "cpu"],
  ["share of its CPUs", "cpu"],
  ["if.rx_packets", "packets"],
  ["if.tx_packets", "packets"],
  ["if.rx_bytes", "bytes"],
  ["if.tx_bytes", "bytes"],
  ["if.rx_drops", "drops"],
  ["if.tx_drops", "drops"],
  ["qdisc.backlog", "backlog"],
  ["qdisc.drops", "drops"],
  ["softnet.dropped", "drops"],
  ["softnet.squeezed", "drops"],
  ["conntrack.drops", "drops"],
  ["nic.overruns", "drops"],
  ["tcp.listen_", "drops"],
  ["tcp.syn_queue_drops", "drops"],
  ["tcp.backlog_drops", "drops"],
  ["tcp.receive_queue_drops", "drops"],
  ["tcp.retransmits", "retransmits"],
  ["tcp.syn_retransmits", "retransmits"],
  ["tcp.fast_retransmits", "retransmits"],
  ["tcp.timeouts", "retransmits"],
  ["tcp.loss_probes", "retransmits"],
  ["tcp.active_opens", "openings"],
  ["tcp.passive_opens", "openings"],
  ["tcp.estab_resets", "openings"],
  ["tcp.out_resets", "openings"],
  ["listen.queue", "queues"],
  ["conn.in_unaccepted", "queues"],
  ["conn.in_unread", "queues"],
  ["unix.queue", "queues"],
  ["haproxy.queue", "queues"],
  ["proc.switches_", "switches"],
  ["proc.run_delay", "waits"],
  ["cgroup.throttled_time", "waits"],
  ["pg.locks_awaited", "locks"],
  ["pg.waits", "locks"],
  ["redis.blocked", "locks"],
  ["proc.count", "processes"],
  ["proc.threads", "processes"],
  ["conn.in", "connections"],
  ["conn.out", "connections"],
  ["sock.time_wait", "connections"],
  ["pg.connections", "connections"],
  ["redis.clients", "connections"],
];

/** The kind of chart that shows a fact; none when no chart does. */
export const chartOf = (metric: string): ChartKind | null => CHARTS.find(([beginning]) => metric.startsWith(beginning))?.[1] ?? null;

/** A button that leads to the chart of a fact; none where there is none. */
export function overTime(data: ReportData, host: string, metric: string): HTMLElement | null {
  const kind = chartOf(metric);
  const drawn = data.timeline.charts.some((chart) => chart.host === host && chart.kind === kind && chart.lines.length > 0);
  if (kind === null || !drawn) return null;
  const button = h("button", { type: "button", class: "plain over-time" }, t.walk.overTime);
  button.addEventListener("click", () => {
    const details = document.querySelector<HTMLDetailsElement>(`.time-host[data-host="${CSS.escape(host)}"]`);
    if (!details) return;
    if (details.open) return show(details, kind);
    details.addEventListener("toggle", () => show(details, kind), { once: true });
    details.open = true;
  });
  return button;
}

/** The charts of a host are made when it is opened, so they are there a moment later. */
function show(details: HTMLElement, kind: ChartKind): void {
  const chart = details.querySelector(`.time-chart[data-kind="${kind}"]`);
  chart?.scrollIntoView({ block: "center" });
  chart?.querySelector<HTMLElement>(".time-drawing")?.focus({ preventScroll: true });
}
