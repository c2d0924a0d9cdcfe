/** What an execution has done, put on its playbook's graph. */
import { durationText } from "../../design/time";
import type { StepRun } from "../execution/queries";

export interface NodeState {
  /** The latest run of the step. */
  latest: StepRun;
  runs: number;
}

/** The latest run of each step, by the step's name. */
export function statesOf(steps: StepRun[]): Map<string, NodeState> {
  const states = new Map<string, NodeState>();
  for (const run of steps) {
    const before = states.get(run.step);
    const latest = before && before.latest.run > run.run ? before.latest : run;
    states.set(run.step, { latest, runs: (before?.runs ?? 0) + 1 });
  }
  return states;
}

/** The arcs over which tokens came, by the counts that the server answers. */
export function takenArcs(taken: readonly number[]): Set<string> {
  return new Set(taken.flatMap((count, index) => (count > 0 ? [`a${index}`] : [])));
}

/** One line: the state, progress of a loop, calls of tools, runs, duration. */
export function stateText({ latest, runs }: NodeState): string {
  const parts = [latest.status];
  if (latest.loop) {
    parts.push(`${latest.loop.done}/${latest.loop.total}`);
    if (latest.loop.failed > 0) parts.push(`${latest.loop.failed} failed`);
  }
  if ((latest.attempts ?? 1) > 1) parts.push(`${latest.attempts} calls`);
  if (runs > 1) parts.push(`run ${runs}`);
  parts.push(durationText(latest.duration_ms));
  return parts.join(" · ");
}
