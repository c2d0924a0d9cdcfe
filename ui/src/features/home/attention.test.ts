import { expect, test } from "vitest";

import type { Schemas } from "../../api/client";
import { fullLimits, nextRuns, stuckWork } from "./attention";

test("old ready commands and silent workers do not move", () => {
  const pools = [
    { pool: "io", ready: 4, oldest: 400 },
    { pool: "cpu", ready: 0, oldest: 900 },
    { pool: "python", ready: 9, oldest: 20 },
  ] as Schemas["QueuesAnswer"]["pools"];
  const leases = [
    { owner: "a", pool: "io", commands: 1, alive: false },
    { owner: "b", pool: "io", commands: 1, alive: true },
  ] as Schemas["QueuesAnswer"]["leases"];
  expect(stuckWork({ pools, leases }).map(({ what, why }) => `${what}: ${why}`)).toEqual([
    "Pool io: 4 ready, the oldest for 6 min 40 s",
    "a: silent, with 1 command",
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
