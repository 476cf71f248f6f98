// How a page goes to paper.

import { printSeries, repaintSeries } from "./sections/series";

/** Paper shows everything but the charts and the facts of hosts that are folded, and is light. */
export function onPaper(): void {
  const root = document.documentElement;
  let theme: string | undefined;
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll<HTMLDetailsElement>("details:not(.time-host, .chart-figures, .host-facts)")) details.open = true;
    theme = root.dataset["theme"];
    root.dataset["theme"] = "light";
    printSeries();
  });
  window.addEventListener("afterprint", () => {
    if (theme === undefined) delete root.dataset["theme"];
    else root.dataset["theme"] = theme;
    repaintSeries();
  });
}
