/** The lanes of a timeline: step runs in their order, those of opened sub-executions below the run that started them. */
import type { StepRun } from "../queries";

export interface LaneOf {
  executionId: string;
  step: StepRun;
  /** 0: a step of the page's execution; 1: of a sub-execution; and so on. */
  depth: number;
}

/** `opened`: the step runs of sub-executions by their ids, as far as they are read. */
export function lanesOf(executionId: string, steps: StepRun[], opened: ReadonlyMap<string, StepRun[]>): LaneOf[] {
  const seen = new Set([executionId]);
  const below = (id: string, runs: StepRun[], depth: number): LaneOf[] =>
    runs.flatMap((step) => {
      const child = step.child_execution_id;
      const inside = child && !seen.has(child) ? opened.get(child) : undefined;
      if (child && inside) seen.add(child);
      return [{ executionId: id, step, depth }, ...(child && inside ? below(child, inside, depth + 1) : [])];
    });
  return below(executionId, steps, 0);
}
