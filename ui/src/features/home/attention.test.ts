import { expect, test } from "vitest";

import type { Schemas } from "../../api/client";
import { fullLimits, groupFailures, nextRuns } from "./attention";

test("failures are grouped by playbook, the newest of each kept", () => {
  const failed = ["a", "b", "b"].map((path, at) => ({ path, execution_id: String(9 - at) }) as Schemas["ExecutionSummary"]);
  expect(groupFailures(failed).map(({ path, count, latest }) => [path, count, latest.execution_id])).toEqual([
    ["b", 2, "8"],
    ["a", 1, "9"],
  ]);
});

test("a limit at capacity, or with a queue, needs attention", () => {
  const limits = [
    { key: "full", concurrent: 2, in_use: 2, waiting: 0 },
    { key: "free", concurrent: 2, in_use: 1, waiting: 0 },
    { key: "rate", concurrent: null, in_use: 0, waiting: 3 },
  ] as Schemas["LimitView"][];
  expect(fullLimits(limits).map(({ key }) => key)).toEqual(["full", "rate"]);
});

test("the soonest schedules come first, those that start nothing are left out", () => {
  const schedules = [
    { name: "late", next_at: "2026-12-01T00:00:00Z" },
    { name: "off", next_at: null },
    { name: "soon", next_at: "2026-11-01T00:00:00Z" },
  ] as Schemas["ScheduleView"][];
  expect(nextRuns(schedules, 5).map(({ name }) => name)).toEqual(["soon", "late"]);
});
