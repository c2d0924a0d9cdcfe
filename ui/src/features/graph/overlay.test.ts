import { expect, test } from "vitest";

import { stateText, statesOf, takenArcs } from "./overlay";

const run = (number: number, step: string, status = "done") => ({ run: number, step, status, started_at: "2026-11-21T10:00:00Z", duration_ms: 0 });

test("the latest run of a step counts, in any order", () => {
  const states = statesOf([run(3, "a", "failed"), run(1, "a")]);
  expect(states.get("a")).toMatchObject({ runs: 2, latest: { status: "failed" } });
});

test("an arc is taken when a token came over it", () => {
  expect([...takenArcs([1, 0, 2])]).toEqual(["a0", "a2"]);
});

test("calls of tools are no attempts: a step of two tasks makes two", () => {
  expect(stateText({ latest: { ...run(1, "a"), attempts: 2 }, runs: 1 })).toContain("done · 2 calls · ");
  expect(stateText({ latest: { ...run(1, "a"), attempts: 1 }, runs: 1 })).not.toContain("call");
});
