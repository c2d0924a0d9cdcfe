/** What an execution has done, put on its playbook's graph. */
import { durationText } from "../../design/time";
import type { StepRun } from "../execution/queries";
import type { Flowchart } from "./flowchart";

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

/** Arcs that were surely taken: into a step that ran, from the only one of its sources that ran. */
export function takenArcs(chart: Flowchart, states: ReadonlyMap<string, NodeState>): Set<string> {
  const names = new Map(chart.nodes.map(({ id, name }) => [id, name]));
  const ran = (id: string) => states.has(names.get(id) ?? "");
  const taken = new Set<string>();
  for (const { id: target } of chart.nodes.filter(({ id }) => ran(id))) {
    const possible = chart.arcs.filter((arc) => arc.target === target && ran(arc.source));
    if (possible.length === 1 && possible[0]) taken.add(possible[0].id);
  }
  return taken;
}

/** One line: the state, progress of a loop, attempts, runs, duration. */
export function stateText({ latest, runs }: NodeState): string {
  const parts = [latest.status];
  if (latest.loop) {
    parts.push(`${latest.loop.done}/${latest.loop.total}`);
    if (latest.loop.failed > 0) parts.push(`${latest.loop.failed} failed`);
  }
  if ((latest.attempts ?? 1) > 1) parts.push(`attempt ${latest.attempts}`);
  if (runs > 1) parts.push(`run ${runs}`);
  parts.push(durationText(latest.duration_ms));
  return parts.join(" · ");
}
