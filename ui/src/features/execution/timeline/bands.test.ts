import { expect, test } from "vitest";

import type { LoopBands } from "../queries";
import { columnsOf } from "./bands";

const band = (second: number, done: number, failed: number) => ({
  at: new Date(second * 1000).toISOString(),
  done,
  failed,
  running: 0,
  first: 0,
  after: null,
});
const loop = (...bands: LoopBands["bands"]): LoopBands => ({ execution_id: "1", run: 1, total: 9, done: 0, failed: 0, running: 0, span_ms: 2_000, bands });

test("a column is as high as many items ended in its time, and fills its span", () => {
  const [first, second] = columnsOf(loop(band(10, 100, 0), band(12, 50, 0)));
  expect(first).toMatchObject({ from: 10_000, to: 12_000, doneShare: 1, failedShare: 0 });
  expect(second).toMatchObject({ from: 12_000, doneShare: 0.5 });
});

test("one failure among many is seen, and a bar is never fuller than full", () => {
  const [only] = columnsOf(loop(band(1, 99_999, 1)));
  expect(only?.failedShare).toBeCloseTo(0.15);
  expect((only?.failedShare ?? 1) + (only?.doneShare ?? 1)).toBeLessThanOrEqual(1);
});

test("a loop of which no item has ended has no column", () => {
  expect(columnsOf(loop())).toEqual([]);
});
