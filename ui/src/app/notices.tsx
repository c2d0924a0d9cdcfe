/** Short messages about what was done, read out by screen readers. */
import { useEffect, useSyncExternalStore } from "react";

let notice = "";
const listeners = new Set<() => void>();

/** Show one message; the next one replaces it. */
export function notify(text: string): void {
  notice = text;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const SHOWN_MS = 6_000;

export function Notices() {
  const text = useSyncExternalStore(subscribe, () => notice);
  useEffect(() => {
    if (!text) return;
    const timer = setTimeout(() => notify(""), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <div className="notices" role="status">
      {text ? <p>{text}</p> : null}
    </div>
  );
}
