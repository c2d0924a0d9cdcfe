/** The keys of a chart: it is a slider over its places, so that each is reached and read without a pointer. */
import type { KeyboardEvent } from "react";

const LEAP = 0.1;

interface Stops {
  label: string;
  count: number;
  at: number;
  /** What the place says, for those who hear it. */
  text: string;
  go: (at: number) => void;
}

/** The attributes of the element that takes the focus. */
export function stops({ label, count, at, text, go }: Stops) {
  const leap = Math.max(2, Math.round(count * LEAP));
  const moves: Record<string, number> = {
    ArrowLeft: at - 1,
    ArrowDown: at - 1,
    ArrowRight: at + 1,
    ArrowUp: at + 1,
    PageDown: at - leap,
    PageUp: at + leap,
    Home: 0,
    End: count - 1,
  };
  return {
    role: "slider",
    tabIndex: 0,
    "aria-label": label,
    "aria-valuemin": 1,
    "aria-valuemax": count,
    "aria-valuenow": at + 1,
    "aria-valuetext": text,
    onKeyDown: (event: KeyboardEvent) => {
      const next = moves[event.key];
      if (next === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      go(Math.max(0, Math.min(count - 1, next)));
    },
  } as const;
}
