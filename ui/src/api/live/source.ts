/** Changes of topics from the server: a stream, or polling where a proxy keeps the stream to itself. */
import { serverFetch, serverRoot } from "../client";
import { parseJson } from "../json";
import { frames } from "./frames";
import { POLL_MS } from "./pace";

export interface Change {
  topic: string;
  version?: number | string;
  seq?: number | string;
  status?: string;
  loops?: { done: number; failed: number; total: number }[];
}

export type LiveState = "connecting" | "streaming" | "polling" | "off";

const SILENCE_MS = 3_000;
const HEARTBEAT_MS = 60_000;
const RETRY_MS = [500, 1_000, 2_000, 5_000, 10_000];

interface Stream extends Pick<Listener, "change"> {
  opened: () => void;
  seen: (id: string) => void;
  signal: AbortSignal;
}

interface Listener {
  change: (change: Change) => void;
  state: (state: LiveState) => void;
}

/** What a browser knows of its topics, in the server's words; it outlives a connection. */
export interface Cursor {
  last: string;
}

/** Follow topics until the signal aborts. The server answers first what the cursor does not know. */
export async function follow(topics: string[], cursor: Cursor, listener: Listener, signal: AbortSignal): Promise<void> {
  const asked = encodeURIComponent(topics.join(","));
  let failures = 0;
  let buffered = false;
  while (!signal.aborted) {
    try {
      if (buffered) {
        cursor.last = await poll(asked, cursor.last, listener, signal);
        listener.state("polling");
        await pause(POLL_MS, signal);
      } else {
        buffered = await stream(asked, cursor.last, {
          ...listener,
          opened: () => listener.state("streaming"),
          seen: (id) => (cursor.last = id),
          signal,
        });
      }
      failures = 0;
    } catch {
      if (signal.aborted) return;
      listener.state("off");
      await pause(RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)] ?? 0, signal);
      buffered = false;
    }
  }
}

/** Read one stream to its end; true when nothing arrived in time, so that polling is better. */
async function stream(asked: string, last: string, { opened, seen, change, signal }: Stream): Promise<boolean> {
  const silence = new AbortController();
  let timer = setTimeout(() => silence.abort(), SILENCE_MS);
  let arrived = false;
  try {
    const answer = await serverFetch(`${serverRoot}/api/stream?topics=${asked}`, {
      headers: last ? { Accept: "text/event-stream", "Last-Event-ID": last } : { Accept: "text/event-stream" },
      signal: AbortSignal.any([signal, silence.signal]),
    });
    // A deployment behind a gateway has no streams.
    if (answer.status === 404) return true;
    if (!answer.ok || !answer.body) throw new Error(`The stream answered ${answer.status}.`);
    for await (const frame of frames(answer.body)) {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), HEARTBEAT_MS);
      if (!arrived) opened();
      arrived = true;
      if (frame?.id) seen(frame.id);
      if (frame?.event === "change") change(parseJson(frame.data) as unknown as Change);
    }
    if (!arrived) throw new Error("The stream ended at once.");
    return false;
  } catch (failure) {
    if (silence.signal.aborted && !signal.aborted) return !arrived;
    throw failure;
  } finally {
    clearTimeout(timer);
  }
}

async function poll(asked: string, since: string, listener: Listener, signal: AbortSignal): Promise<string> {
  const address = `${serverRoot}/api/changes?topics=${asked}${since ? `&since=${encodeURIComponent(since)}` : ""}`;
  const answer = await serverFetch(address, { signal });
  if (!answer.ok) throw new Error(`Polling answered ${answer.status}.`);
  const page = parseJson(await answer.text()) as unknown as { changes: Change[]; next: string };
  for (const change of page.changes) listener.change(change);
  return String(page.next);
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
