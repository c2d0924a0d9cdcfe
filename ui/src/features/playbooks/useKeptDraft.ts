/** Keeps what is typed in this browser: when typing pauses, and when the page is left. */
import { useEffect, useRef } from "react";

import { type Draft, keepDraft } from "./drafts";

const KEEP_AFTER_MS = 400;

/** Keep `draft` under `name`; null: there is nothing to keep. */
export function useKeptDraft(name: string, draft: Draft | null): void {
  const unkept = useRef<Draft | null>(null);
  const text = draft?.text;
  const version = draft?.version ?? null;
  useEffect(() => {
    unkept.current = text === undefined ? null : { text, version };
    if (text === undefined) return;
    const timer = setTimeout(() => keep(name, unkept), KEEP_AFTER_MS);
    return () => clearTimeout(timer);
  }, [name, text, version]);
  useEffect(() => () => keep(name, unkept), [name]);
}

function keep(name: string, unkept: { current: Draft | null }): void {
  const draft = unkept.current;
  unkept.current = null;
  if (draft) void keepDraft(name, draft).catch(() => undefined);
}
