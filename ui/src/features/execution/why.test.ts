import { expect, test } from "vitest";

import type { Execution } from "./queries";
import { whyOf } from "./why";

const execution: Execution = {
  execution_id: "1",
  path: "a",
  name: "a",
  status: "waiting",
  started_at: "2026-11-21T10:00:00Z",
  ended_at: null,
  duration_ms: 0,
  parent_execution_id: null,
  steps: [],
  steps_left_out: 0,
  error: null,
  reason: "",
  parked: [],
  outstanding: {},
};

test("a failure names its step, its text and its place", () => {
  const error = { message: "boom", step: "load", hint: "mend it", position: "playbook.yaml:30:13" };
  expect(whyOf({ ...execution, status: "failed", error: error as Execution["error"] })).toEqual({
    tone: "bad",
    text: "Step load failed: boom",
    hint: "mend it",
    line: 30,
    column: 13,
  });
});

test("what is waited for is said, the answer of a person first", () => {
  const parked = [{ step: "gate", guard: "ctx.approved", keys: [] }];
  expect(whyOf({ ...execution, parked })?.text).toBe("Step gate is admitted when ctx.approved");
  const awaiting = [{ step: "ask", run: 1, task: "t", index: null, since: "2026-11-21T10:00:00Z", until: null, message: "Pay?", approve: true }];
  expect(whyOf({ ...execution, parked, awaiting })?.text).toBe("Step ask waits for an answer: Pay?");
  expect(whyOf(execution)).toBeNull();
});
