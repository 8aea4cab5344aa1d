// SPDX-License-Identifier: GPL-3.0-or-later
// JSON from the server: fetched once, or again and again while the page is seen.
export class Refused extends Error {
  constructor(
    why: string,
    readonly status = 0, // 0: there was no answer
  ) {
    super(why);
  }
}

const PATIENCE_MS = 60000; // the server gives its own sources 20 s each; of a machine that slept no reply comes

export type Parameters = Record<string, string | number>;

export function addressOf(path: string, parameters: Parameters = {}): string {
  const query = new URLSearchParams(Object.entries(parameters).map(([name, value]) => [name, String(value)])).toString();
  return query ? `${path}?${query}` : path;
}

// Raises Refused, with the server's line.
export async function fetchJson<T>(address: string, init: RequestInit = {}): Promise<T> {
  let reply: Response;
  let text: string;
  try {
    const patience = AbortSignal.timeout(PATIENCE_MS);
    reply = await fetch(address, { ...init, signal: init.signal ? AbortSignal.any([init.signal, patience]) : patience });
    text = await reply.text();
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Refused("the dashboard's server does not answer");
  }
  if (!reply.ok) throw new Refused(text.trim() || `status ${reply.status}`, reply.status);
  return JSON.parse(text) as T;
}

export interface Poll<T> {
  address: () => string | null; // null: nothing to ask for now
  everySeconds: number;
  onReply: (reply: T) => void;
  onProblem: (why: string, ageSeconds: number | null) => void; // age of the last reply
}

// Fetches again and again; a hidden page rests, and is fresh when it is seen again.
export function poll<T>({ address, everySeconds, onReply, onProblem }: Poll<T>): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let repliedAt: number | null = null;
  let asking = false;

  async function ask(): Promise<void> {
    clearTimeout(timer);
    const at = address();
    if (at !== null && !document.hidden && !asking) {
      asking = true;
      try {
        onReply(await fetchJson<T>(at));
        repliedAt = performance.now();
      } catch (error) {
        if (!(error instanceof Refused)) console.error(error);
        onProblem(error instanceof Error ? error.message : String(error), repliedAt === null ? null : (performance.now() - repliedAt) / 1000);
      }
      asking = false;
    }
    timer = setTimeout(() => void ask(), everySeconds * 1000);
  }
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) void ask();
  });
  void ask();
  return () => void ask();
}
