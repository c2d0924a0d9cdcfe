/** Keeps what is typed in this browser: when typing pauses, and when the page is left. */
import { useEffect, useRef } from "react";

import { type Draft, keepDraft } from "./drafts";

const KEEP_AFTER_MS = 400;

/** Keep `draft` under `name`; null: there is nothing to keep. */
export function useKeptDraft(name: string, draft: Draft | null): void {
  // Written again when the page is left: another tab of this browser may have dropped it, or kept its own.
  const latest = useRef<Draft | null>(null);
  const text = draft?.text;
  const version = draft?.version ?? null;
  useEffect(() => {
    latest.current = text === undefined ? null : { text, version };
    if (text === undefined) return;
    const timer = setTimeout(() => keep(name, latest), KEEP_AFTER_MS);
    return () => clearTimeout(timer);
  }, [name, text, version]);
  useEffect(() => () => keep(name, latest), [name]);
}

function keep(name: string, { current: draft }: { current: Draft | null }): void {
  if (draft) void keepDraft(name, draft).catch(() => undefined);
}
