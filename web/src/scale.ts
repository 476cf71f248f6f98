// From values to pixels, with ticks at round numbers.

export interface Scale {
  (value: number): number;
  ticks: number[];
  domain: [number, number];
}

/** A linear scale over [low, high], which it widens to round ticks. */
export function linear(low: number, high: number, from: number, to: number, wanted = 5): Scale {
  const span = high - low || Math.abs(high) || 1;
  const raw = span / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((candidate) => candidate >= raw * 0.999) ?? raw;
  const first = Math.floor(low / step + 1e-9) * step;
  const last = Math.max(Math.ceil(high / step - 1e-9) * step, first + step);
  const ticks: number[] = [];
  for (let i = 0; first + i * step <= last + step / 1e6; i++) ticks.push(Number((first + i * step).toPrecision(12)));
  const scale = (value: number) => from + ((value - first) / (last - first)) * (to - from);
  return Object.assign(scale, { ticks, domain: [first, last] as [number, number] });
}

/** A logarithmic scale over [low, high] with ticks at 1, 2 and 5 (at powers of ten when there are many). */
export function logarithmic(low: number, high: number, from: number, to: number): Scale {
  const bottom = Math.log10(low) - 0.04;
  const top = Math.log10(high) + 0.04;
  const many = top - bottom > 2.5;
  const ticks: number[] = [];
  for (let power = Math.floor(bottom); power <= Math.ceil(top); power++) {
    for (const m of many ? [1] : [1, 2, 5]) {
      const tick = m * 10 ** power;
      if (Math.log10(tick) >= bottom && Math.log10(tick) <= top) ticks.push(tick);
    }
  }
  const scale = (value: number) => from + ((Math.log10(value) - bottom) / (top - bottom)) * (to - from);
  return Object.assign(scale, { ticks, domain: [low, high] as [number, number] });
}
