// CPU of every host at every level, split as the kernel counts it.

import { figure, legend } from "../chart";
import { h, s, section, table, type Child } from "../dom";
import type { CpuLevel, HostCpu, ReportData } from "../generated/types";
import { micros, percent, NONE } from "../number";
import { said, t } from "../text";

type Part = "user" | "nice" | "system" | "softirq" | "irq" | "steal" | "iowait" | "idle";
/** Short names as in top(1). */
const PARTS: [key: Part, short: string][] = [
  ["user", "us"],
  ["nice", "ni"],
  ["system", "sy"],
  ["softirq", "si"],
  ["irq", "hi"],
  ["steal", "st"],
  ["iowait", "wa"],
  ["idle", "id"],
];

/** Waiting for a disk is idleness with a reason. */
const busy = (level: CpuLevel) => percent(1 - level.idle - level.iowait);
const own = (level: CpuLevel) => (level.hop_cpus === null ? NONE : t.cpu.cpus(level.hop_cpus.toFixed(2)));

export function cpu(data: ReportData): HTMLElement | null {
  if (data.cpu.length === 0) return null;
  const used = PARTS.filter(([key]) => data.cpu.some((host) => host.levels.some((level) => level[key] > 0.0005)));
  return section(
    "cpu",
    "CPU",
    t.cpu.lead,
    legend(used.map(([key, short]) => [`cpu-${key}`, `${t.cpu.parts[key]} (${short})`])),
    h("div", { class: "hosts" }, data.cpu.map((host) => drawn(host))),
    table(
      t.cpu.ofEach,
      [t.words.host, t.words.level, ...used.map(([, short]) => `>${short}`), `>${t.cpu.own}`, `>${t.cpu.ownPerRequest}`],
      data.cpu.flatMap((host) => host.levels.map((level) => [host.host, said(level.label), ...used.map(([key]) => percent(level[key])), own(level), micros(level.hop_us_per_request)])),
    ),
  );
}

function drawn(host: HostCpu): HTMLElement {
  const cpus = host.cpus ? `CPU ${host.cpus}` : t.cpu.cpus(String(host.cpu_count));
  const label = `${host.host}: ${host.levels.map((l) => `${said(l.label)} ${t.cpu.busy(busy(l))}`).join(", ")}`;
  return h(
    "div",
    { class: "part" },
    h("h3", {}, host.host, h("small", {}, ` ${cpus}`)),
    figure(label, (width) => ({ height: host.levels.length * 44, parts: host.levels.map((level, i) => row(level, i * 44, width)) })),
  );
}

function row(level: CpuLevel, top: number, width: number): Child {
  let x = 0;
  const parts = PARTS.map(([key, short]) => {
    const w = level[key] * width;
    const rect = s("rect", { class: `cpu-${key}`, x: x.toFixed(2), y: top + 18, width: Math.max(0, w).toFixed(2), height: 18 }, s("title", {}, `${short} ${percent(level[key])}`));
    const room = w > 54 && key !== "idle";
    const text = room ? s("text", { class: "inside", x: x + 6, y: top + 31 }, `${short} ${percent(level[key])}`) : null;
    x += w;
    return [rect, text];
  });
  const right = level.hop_cpus === null ? t.cpu.busy(busy(level)) : t.cpu.busyOwn(busy(level), level.hop_cpus.toFixed(2));
  return [s("text", { class: "row", x: 1, y: top + 13 }, said(level.label)), s("text", { class: "row value", x: width - 1, y: top + 13, "text-anchor": "end" }, right), parts];
}
