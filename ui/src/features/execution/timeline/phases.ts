/** What a step run did and waited for, as segments of its bar and as words. */
import { durationText, toMillis } from "../../../design/time";
import { stateText } from "../../graph/overlay";
import type { StepRun } from "../queries";
import type { Span } from "./scale";

export interface Segment {
  kind: string;
  from: number;
  to: number;
}

const WORDS: Record<string, string> = {
  join: "waiting at a join",
  admission: "waiting for admission",
  lock: "waiting for a lock",
  limit: "waiting for a slot or a worker",
  queued: "waiting for a worker",
  running: "running",
  timer: "waiting for a time",
  callback: "waiting for a callback",
  external: "waiting for work in another system",
  waiting: "waiting",
  retrying: "until a retry",
  child: "waiting for a child",
  compensating: "compensating",
};

/** Phases in which nothing is under way (those of `rest_until` in the engine). */
const IDLE = new Set(["join", "admission", "lock", "timer", "callback", "waiting", "paused"]);

export function phaseWord(kind: string): string {
  return WORDS[kind] ?? kind;
}

/** The segments of a run, in order; one that says its status where phases are not known. */
export function segmentsOf(step: StepRun): Segment[] {
  const from = toMillis(step.started_at);
  const end = from + step.duration_ms;
  const phases = step.phases ?? [];
  if (phases.length === 0) return [{ kind: step.status, from, to: end }];
  return phases
    .map(({ kind, at }, index) => {
      const begin = toMillis(at);
      const next = phases[index + 1];
      return { kind, from: begin, to: Math.max(begin, next ? toMillis(next.at) : end) };
    })
    .filter(({ from: begin, to }, index) => to > begin || index === phases.length - 1);
}

/** When a run is drawn from: its first token may have waited at a join before the run began. */
export function beginOf(step: StepRun): number {
  const [first] = step.phases ?? [];
  return Math.min(toMillis(step.started_at), first ? toMillis(first.at) : Infinity);
}

/** When work was under way in a run, and, as moments, where it begins and ends. */
export function spansOf(step: StepRun): Span[] {
  const begin = beginOf(step);
  const end = toMillis(step.started_at) + step.duration_ms;
  const busy = segmentsOf(step).filter(({ kind }) => !IDLE.has(kind));
  return [{ from: begin, to: begin + 1 }, ...busy.map(({ from, to }) => ({ from, to: Math.max(to, from + 1) })), { from: end, to: end + 1 }];
}

/** The kinds of phases that runs have, in the order of the words. */
export function kindsOf(steps: StepRun[]): string[] {
  const found = new Set<string>(steps.flatMap(({ phases = [] }) => phases.map(({ kind }) => kind)));
  return Object.keys(WORDS).filter((kind) => found.has(kind));
}

export function segmentText({ kind, from, to }: Segment): string {
  return `${phaseWord(kind)} ${durationText(to - from)}`;
}

/** A run in words: its state, the items of its loop, and how long it did what. */
export function runText(step: StepRun): string {
  const state = stateText({ latest: step, runs: 1 });
  const running = step.loop ? itemsRunning(step) : 0;
  const items = running > 0 ? ` · ${running} items running` : "";
  return step.phases && step.phases.length > 1 ? `${state}${items}: ${segmentsOf(step).map(segmentText).join(", ")}` : state + items;
}

/** How long a run did and waited for what, added up, in the order in which each began. */
export function sumsText(step: StepRun): string {
  const sums = new Map<string, number>();
  for (const { kind, from, to } of segmentsOf(step)) sums.set(kind, (sums.get(kind) ?? 0) + to - from);
  return [...sums].map(([kind, length]) => `${phaseWord(kind)} ${durationText(length)}`).join(", ");
}

/** Items of a loop that are under way. */
export function itemsRunning({ loop, status }: StepRun): number {
  return loop && ["running", "waiting", "retrying"].includes(status) ? Math.max(0, loop.issued - loop.done - loop.failed) : 0;
}
