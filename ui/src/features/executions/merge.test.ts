// @vitest-environment jsdom
import { expect, test } from "vitest";

import { type ExecutionRow, isTorn, mergeRows } from "./useExecutions";

const row = (id: number, status = "running"): ExecutionRow => ({
  execution_id: String(id),
  path: "a/b",
  name: "b",
  status,
  started_at: new Date(id * 1000).toISOString(),
  ended_at: null,
  duration_ms: 0,
  parent_execution_id: null,
});
const page = (rows: ExecutionRow[], next: string | null = "more") => ({ executions: rows, next });
const shown = (rows: ExecutionRow[]) => rows.map(({ execution_id, status }) => `${execution_id} ${status}`);

test("the head wins over what was read before, and nothing repeats", () => {
  const rows = mergeRows(page([row(5), row(4, "failed")]), [row(4), row(3), row(2)]);
  expect(shown(rows)).toEqual(["5 running", "4 failed", "3 running", "2 running"]);
});

test("a row that left the head is gone; so is all else when the head is the whole list", () => {
  expect(shown(mergeRows(page([row(5), row(3)]), [row(4), row(3), row(2)]))).toEqual(["5 running", "3 running", "2 running"]);
  expect(shown(mergeRows(page([row(5)], null), [row(5), row(4)]))).toEqual(["5 running"]);
});

test("a head that does not touch the rows below is torn off", () => {
  expect(isTorn(page([row(9), row(8)]), [row(5), row(4)])).toBe(true);
  expect(isTorn(page([row(9), row(5)]), [row(5), row(4)])).toBe(false);
  expect(isTorn(page([row(9)], null), [row(5)])).toBe(false);
});
