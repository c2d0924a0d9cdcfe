/** Until when this browser's user has seen failures: what failed since then needs attention. */
import { useSyncExternalStore } from "react";

const KEY = "noetl-failures-seen";
const DAY_MS = 86_400_000;
const LONGEST_MS = 30 * DAY_MS;
const listeners = new Set<() => void>();

/** The moment as text; a day ago before anything was marked, and a month ago at most. On a whole minute: one minute asks the same. */
export function seenUntil(stored: string | null, now: number): string {
  const marked = stored === null ? Number.NaN : Date.parse(stored);
  const from = Number.isNaN(marked) || marked > now ? now - DAY_MS : Math.max(marked, now - LONGEST_MS);
  return Number.isNaN(marked) ? new Date(Math.floor(from / 60_000) * 60_000).toISOString() : new Date(from).toISOString();
}

export function markSeen(now: number): void {
  localStorage.setItem(KEY, new Date(now).toISOString());
  for (const listener of listeners) listener();
}

/** When the user has marked failures as seen; null: never. */
export function useSeen(): string | null {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => localStorage.getItem(KEY),
  );
}
