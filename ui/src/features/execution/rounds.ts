/** Rounds of an execution: from its start, and from each redrive. */
import { toMillis } from "../../design/time";
import type { HistoryEvent } from "./queries";

export interface Round {
  number: number;
  /** When it began. */
  at: string;
  from: string;
  by: string;
  reason: string;
  /** How long the execution was over before. */
  idleMs: number;
  /** The moment of time travel at which it began; the first round has none. */
  moment: string | undefined;
}

/** What the events of redrives say, as rounds after the first one. */
export function roundsOf(events: HistoryEvent[]): Round[] {
  return events.map((event, index) => {
    const { step = "", reason = "", principal = "", idle = 0, arrivals = [], with_output: skipped = false } = event.payload as Redriven;
    const { seq } = event.meta as { seq?: number };
    const place = event.event_id.split(":").pop();
    return {
      number: index + 2,
      at: event.timestamp,
      from: step ? `step ${step}${skipped ? ", with a result that was given" : ""}` : `where it ended: ${stepsOf(arrivals)}`,
      by: principal,
      reason,
      idleMs: Math.max(0, idle * 1000),
      moment: seq === undefined ? undefined : `${seq}:${place}`,
    };
  });
}

interface Span {
  started_at: string;
  ended_at: string | null;
  duration_ms: number;
}

/** Milliseconds from the start of an execution to its end, or to now. Both moments are cut to milliseconds: it is no less than the time at work. */
export function elapsedMs({ started_at, ended_at, duration_ms }: Span, now: number): number {
  return Math.max(duration_ms, (ended_at === null ? now : toMillis(ended_at)) - toMillis(started_at));
}

/** Names that a cell has room for. */
const NAMED = 3;

interface Redriven {
  step?: string;
  reason?: string;
  principal?: string;
  idle?: number;
  arrivals?: { step: string }[];
  with_output?: boolean;
}

function stepsOf(arrivals: { step: string }[]): string {
  const names = [...new Set(arrivals.map(({ step }) => step))];
  const left = names.length - NAMED;
  return left > 0 ? `${names.slice(0, NAMED).join(", ")} and ${left} more` : names.join(", ") || "its end";
}
