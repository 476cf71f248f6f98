// How numbers on axes and in charts are written. Same rules as prony's own texts (crates/prony-report/src/number.rs).

import type { ChartUnit } from "./generated/types";

export const NONE = "\u2013";

function grouped(value: number, decimals: number): string {
  return value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

function scaled(value: number, units: [number, string][]): string {
  const [factor, name] = units.find(([factor]) => Math.abs(value) >= factor * 0.9995) ?? units[units.length - 1]!;
  const amount = value / factor;
  const size = Math.abs(amount);
  const decimals = size >= 100 || (factor === 1 && Number.isInteger(amount)) ? 0 : size >= 10 ? 1 : 2;
  return `${grouped(amount, decimals)} ${name}`;
}

export const micros = (us: number | null): string =>
  us === null ? NONE : scaled(us, [[1e6, "s"], [1e3, "ms"], [1, "us"]]);

export const rate = (perSecond: number | null): string =>
  perSecond === null ? NONE : grouped(perSecond, Math.abs(perSecond) < 100 && perSecond !== 0 ? 1 : 0);

export const change = (relative: number | null): string => {
  if (relative === null) return NONE;
  const percent = Math.abs(relative * 100) < 0.05 ? 0 : relative * 100;
  return `${percent > 0 ? "+" : ""}${grouped(percent, 1)} %`;
};

/** How far a share moved, in percentage points. */
export const points = (difference: number): string => {
  const moved = Number((difference * 100).toFixed(1));
  return `${moved > 0 ? "+" : ""}${grouped(moved === 0 ? 0 : moved, 1)}`;
};

export const percent = (share: number | null): string => {
  if (share === null) return NONE;
  const value = share * 100;
  return `${grouped(value, value === 0 || Math.abs(value) >= 1 ? 1 : 2).replace(/\.0$/, "")} %`;
};

export const seconds = (s: number | null): string => (s === null ? NONE : micros(s * 1e6));

export const count = (n: number): string => grouped(n, 0);

const bytes = (size: number): string => scaled(size, [[1073741824, "GiB"], [1048576, "MiB"], [1024, "KiB"], [1, "B"]]);

/** A value with its unit, for reading. */
export function inUnit(value: number, unit: ChartUnit): string {
  if (unit === "share") return percent(value);
  if (unit === "us") return micros(value);
  if (unit === "bytes") return bytes(value);
  if (unit === "bytes_per_s") return `${bytes(value)}/s`;
  const decimals = Number.isInteger(value) || Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 1 ? 1 : 3;
  return unit === "per_s" ? `${grouped(value, decimals)}/s` : grouped(value, decimals);
}

/** The same for an axis: short, and without what its title says. */
export function onAxis(value: number, unit: ChartUnit): string {
  if (unit === "share") return `${grouped(value * 100, 0)} %`;
  if (unit === "us") return micros(value).replace(/\.0+ /, " ");
  if (unit === "bytes" || unit === "bytes_per_s") return bytes(value).replace(/\.0+ /, " ");
  const [factor, name] = ([[1e9, "G"], [1e6, "M"], [1e3, "k"]] as const).find(([factor]) => Math.abs(value) >= factor) ?? [1, ""];
  return `${(value / factor).toLocaleString("en-US", { maximumFractionDigits: 3 })}${name}`;
}

/** A moment for an axis of time: `0 s`, `2.5 s`, `1:30`, `1:02:30`. */
export function clock(at: number): string {
  if (Math.abs(at) < 60) return `${Number(at.toFixed(3))} s`;
  const [whole, sign] = [Math.abs(at), at < 0 ? "-" : ""];
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  const rest = whole % 60;
  const last = Number.isInteger(rest) ? String(rest).padStart(2, "0") : rest.toFixed(1).padStart(4, "0");
  return parts[0]! > 0 ? `${sign}${parts[0]}:${String(parts[1]).padStart(2, "0")}:${last}` : `${sign}${parts[1]}:${last}`;
}

/** A short number for an axis: `12k`, `500us`. */
export function short(value: number, unit: "rate" | "micros" | "change"): string {
  if (unit === "change") return `${value > 0 ? "+" : ""}${grouped(value * 100, Math.abs(value) < 0.02 && value !== 0 ? 1 : 0)} %`;
  if (unit === "micros") return micros(value).replace(/\.0+ /, " ");
  return value >= 1000 ? `${(value / 1000).toLocaleString("en-US", { maximumFractionDigits: 1 })}k` : String(value);
}
