import { expect, test } from "vitest";

import type { StepRun } from "../queries";
import { beginOf, itemsRunning, kindsOf, runText, segmentsOf, spansOf, sumsText } from "./phases";

/** A moment some seconds after 1970. */
const at = (seconds: number) => new Date(seconds * 1000).toISOString();
const step = (more: Partial<StepRun>): StepRun => ({ run: 1, step: "load", status: "done", started_at: at(100), duration_ms: 8_000, ...more });

const TRIED = step({
  phases: [
    { kind: "queued", at: at(100) },
    { kind: "running", at: at(102) },
    { kind: "retrying", at: at(103) },
    { kind: "running", at: at(107.5) },
  ],
});

test("each phase lasts until the next, the last one until the end of the run", () => {
  expect(segmentsOf(TRIED).map(({ kind, from, to }) => [kind, from, to])).toEqual([
    ["queued", 100_000, 102_000],
    ["running", 102_000, 103_000],
    ["retrying", 103_000, 107_500],
    ["running", 107_500, 108_000],
  ]);
  expect(kindsOf([TRIED])).toEqual(["queued", "running", "retrying"]);
});

test("a run says in words how long it did what", () => {
  expect(runText(TRIED)).toBe("done · 8 s: waiting for a worker 2 s, running 1 s, until a retry 4.5 s, running 500 ms");
});

test("a run without phases is one segment with its status", () => {
  expect(segmentsOf(step({ status: "failed" }))).toEqual([{ kind: "failed", from: 100_000, to: 108_000 }]);
  expect(runText(step({}))).toBe("done · 8 s");
});

test("items of a loop that are under way are counted until it ends", () => {
  const loop = { total: 100, issued: 50, done: 40, failed: 3, mode: "parallel" };
  expect(itemsRunning(step({ status: "running", loop }))).toBe(7);
  expect(itemsRunning(step({ status: "failed", loop }))).toBe(0);
  expect(runText(step({ status: "running", loop }))).toBe("running · 40/100 · 3 failed · 8 s · 7 items running");
});

test("waits are no work, but where a run begins and ends is drawn", () => {
  const asked = step({ phases: [{ kind: "running", at: at(100) }, { kind: "callback", at: at(101) }, { kind: "running", at: at(107) }] });
  expect(spansOf(asked).map(({ from, to }) => [from, to])).toEqual([
    [100_000, 100_001],
    [100_000, 101_000],
    [107_000, 108_000],
    [108_000, 108_001],
  ]);
  expect(runText(asked)).toContain("waiting for a callback 6 s");
});

test("a run at a join is drawn from its first token on", () => {
  const joined = step({ phases: [{ kind: "join", at: at(40) }, { kind: "running", at: at(100) }] });
  expect(beginOf(joined)).toBe(40_000);
  expect(segmentsOf(joined)[0]).toEqual({ kind: "join", from: 40_000, to: 100_000 });
});

test("the table adds up what a run did and waited for", () => {
  expect(sumsText(TRIED)).toBe("waiting for a worker 2 s, running 1.5 s, until a retry 4.5 s");
});
