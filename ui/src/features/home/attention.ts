/** What needs a person, out of the lists of the API. */
import type { Schemas } from "../../api/client";
import { toMillis } from "../../design/time";

export interface FailureGroup {
  path: string;
  count: number;
  /** The newest failure. */
  latest: Schemas["ExecutionSummary"];
}

/** Failures by playbook, the most frequent first. */
export function groupFailures(failed: Schemas["ExecutionSummary"][]): FailureGroup[] {
  const groups = new Map<string, FailureGroup>();
  for (const execution of failed) {
    const group = groups.get(execution.path);
    if (group) group.count += 1;
    else groups.set(execution.path, { path: execution.path, count: 1, latest: execution });
  }
  return [...groups.values()].sort((a, b) => b.count - a.count);
}

/** Limits whose every slot is taken while something waits. */
export function fullLimits(limits: Schemas["LimitView"][]): Schemas["LimitView"][] {
  return limits.filter(({ concurrent, in_use, waiting }) => waiting > 0 || (concurrent !== null && in_use >= concurrent));
}

/** The next starts by schedule, the soonest first. */
export function nextRuns(schedules: Schemas["ScheduleView"][], most: number): Schemas["ScheduleView"][] {
  return schedules
    .filter(({ next_at }) => next_at !== null)
    .sort((a, b) => toMillis(a.next_at ?? 0) - toMillis(b.next_at ?? 0))
    .slice(0, most);
}
