// Asks the server, as anyone could: the API is documented at /api/openapi.json.

import type { Problem } from "../generated/api";

/** The server said no, and why. */
export class Refused extends Error {}

export const get = <T>(path: string): Promise<T> => answered(fetch(path));

/** A change. The header shows that no page of another site sent it. */
export function send<T>(method: "POST" | "PUT", path: string, body?: unknown): Promise<T> {
  const headers: Record<string, string> = { "X-Prony": "1" };
  if (body === undefined) return answered(fetch(path, { method, headers }));
  headers["Content-Type"] = "application/json";
  return answered(fetch(path, { method, headers, body: JSON.stringify(body) }));
}

async function answered<T>(asked: Promise<Response>): Promise<T> {
  const response = await asked;
  if (response.ok) return (await response.json()) as T;
  const problem = (await response.json().catch(() => null)) as Problem | null;
  throw new Refused(problem?.error ?? `${response.status} ${response.statusText}`);
}

/** A path with what stands behind its question mark; what is empty is left out. */
export function path(base: string, query: Record<string, string | number>): string {
  const pairs = Object.entries(query).filter(([, value]) => value !== "");
  const search = new URLSearchParams(pairs.map(([key, value]) => [key, String(value)])).toString();
  return search ? `${base}?${search}` : base;
}

export const runPath = (id: string): string => `/runs/${encodeURIComponent(id)}`;

/** Shows states as they come; each is the whole. `gone` is called when the stream ends without a last one. */
export function look<T>(from: string, show: (state: T, isLast: boolean) => void, gone: () => void): void {
  const source = new EventSource(from);
  source.addEventListener("now", (event) => show(JSON.parse((event as MessageEvent<string>).data) as T, false));
  source.addEventListener("last", (event) => {
    source.close();
    show(JSON.parse((event as MessageEvent<string>).data) as T, true);
  });
  // The browser tries again by itself, unless the server said no.
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) gone();
  });
}
