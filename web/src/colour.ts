// Colours for canvases and for files that leave the page: what the style sheet says, resolved for the theme that is shown.

/** Asking the browser makes it lay out the page, and a chart asks a dozen times. */
const known = new Map<string, string>();

/** To be called when the theme changes. */
export const forgetColours = (): void => known.clear();

/** The colour that a variable of the style sheet has now. */
export function colour(name: string): string {
  const seen = known.get(name) ?? ask(name);
  known.set(name, seen);
  return seen;
}

function ask(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  probe.hidden = true;
  document.body.append(probe);
  const seen = getComputedStyle(probe).color;
  probe.remove();
  return seen;
}

/** Lines take these in turn. After Okabe and Ito, who chose colours that colour-blind people tell apart. */
const PALETTE = ["line-1", "line-2", "line-3", "line-4", "line-5", "line-6"];

/** Dashes tell apart the lines of the second and the third turn. */
const DASHES: number[][] = [[], [7, 3], [2, 3]];

const OF_CPU = ["user", "nice", "system", "softirq", "irq", "steal", "iowait"];

/** How line number `i` of its chart looks. */
export function look(i: number, name: string, stacked: boolean): { variable: string; dash: number[] } {
  if (stacked && OF_CPU.includes(name)) return { variable: name, dash: [] };
  return { variable: PALETTE[i % PALETTE.length]!, dash: DASHES[Math.floor(i / PALETTE.length) % DASHES.length]! };
}
