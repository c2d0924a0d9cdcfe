import { expect, test } from "vitest";

import { bulkFilter, executionsSearch, listQuery } from "./search";
import { BUILT_IN, readViews, viewOf, withView, writeViews } from "./views";

test("a view is found by its filter, in any order of the parameters", () => {
  const views = withView([], { name: "mine", search: { path: "a/b", status: "failed" } });
  expect(viewOf(views, { status: "failed", path: "a/b", text: undefined })?.name).toBe("mine");
  expect(viewOf(BUILT_IN, {})?.name).toBe("All");
  expect(viewOf(views, { status: "failed" })).toBeUndefined();
  expect(withView(views, { name: "mine", search: {} })).toEqual([{ name: "mine", search: {} }]);
});

test("what a browser has kept is read with care", () => {
  const before = globalThis.localStorage;
  let kept = "";
  Object.defineProperty(globalThis, "localStorage", { configurable: true, value: { getItem: () => kept, setItem: (_: string, text: string) => (kept = text) } });
  for (const text of ["no json", "7", '[{"name":1}]', '[{"name":"x","search":null}]']) {
    kept = text;
    expect(readViews()).toEqual([]);
  }
  writeViews([{ name: "x", search: { status: "failed" } }]);
  expect(readViews()).toEqual([{ name: "x", search: executionsSearch({ status: "failed" }) }]);
  Object.defineProperty(globalThis, "localStorage", { configurable: true, value: before });
});

test("labels and moments reach the list and the bulk actions in their forms", () => {
  const search = executionsSearch({ labels: "team=data=x, broken,stage=raw", after: "2026-11-27T10:00Z", before: "never", version: "3", path: "a/b" });
  expect(search).toMatchObject({ labels: "team=data=x,stage=raw", after: "2026-11-27T10:00:00.000Z", before: undefined });
  expect(listQuery(search, 0)).toMatchObject({ version: "3", labels: "team=data=x,stage=raw", started_after: "2026-11-27T10:00:00.000Z" });
  expect(bulkFilter(search, 0)).toMatchObject({ version: 3, labels: { team: "data=x", stage: "raw" } });
});
