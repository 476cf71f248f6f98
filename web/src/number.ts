// How numbers on axes and in charts are written. Same rules as prony's own texts (crates/prony-report/src/number.rs).

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

export const percent = (share: number | null): string => {
  if (share === null) return NONE;
  const value = share * 100;
  return `${grouped(value, value === 0 || Math.abs(value) >= 1 ? 1 : 2).replace(/\.0$/, "")} %`;
};

export const seconds = (s: number | null): string => (s === null ? NONE : micros(s * 1e6));

export const count = (n: number): string => grouped(n, 0);

/** A short number for an axis: `12k`, `500us`. */
export function short(value: number, unit: "rate" | "micros" | "change"): string {
  if (unit === "change") return `${value > 0 ? "+" : ""}${grouped(value * 100, Math.abs(value) < 0.02 && value !== 0 ? 1 : 0)} %`;
  if (unit === "micros") return micros(value).replace(/\.0+ /, " ");
  return value >= 1000 ? `${(value / 1000).toLocaleString("en-US", { maximumFractionDigits: 1 })}k` : String(value);
}
