import { expect, test } from "vitest";

import { bulkFilter, executionsSearch, listQuery } from "./search";
import { BUILT_IN, textsOf, viewOf, viewsOf } from "./views";

const SAVED = { page: "executions" as const, principal: "ada", saved_at: "2026-11-28T10:00:00Z", error: null };

test("a view is found by its filter, in any order of the parameters", () => {
  const views = viewsOf([{ ...SAVED, name: "mine", search: { path: "a/b", status: "failed", version: "3" } }]);
  expect(viewOf(views, { version: 3, status: "failed", path: "a/b", text: undefined })?.name).toBe("mine");
  expect(viewOf(BUILT_IN, {})?.name).toBe("All");
  expect(viewOf(views, { status: "failed" })).toBeUndefined();
});

test("a filter that is saved and read again is the same", () => {
  const search = executionsSearch({ status: "failed", version: "3", labels: "a=b", text: "1e3", after: "2026-11-27T10:00Z" });
  const [view] = viewsOf([{ ...SAVED, name: "x", search: textsOf(search) }]);
  expect(view?.search).toEqual(search);
});

test("parameters that this version does not know are left out", () => {
  expect(viewsOf([{ ...SAVED, name: "x", search: { status: "molten", colour: "red" } }])).toEqual([{ name: "x", search: executionsSearch({}) }]);
});

test("labels and moments reach the list and the bulk actions in their forms", () => {
  const search = executionsSearch({ labels: "team=data=x, broken,stage=raw", after: "2026-11-27T10:00Z", before: "never", version: "3", path: "a/b" });
  expect(search).toMatchObject({ labels: "team=data=x,stage=raw", after: "2026-11-27T10:00:00.000Z", before: undefined });
  expect(listQuery(search, 0)).toMatchObject({ version: "3", labels: "team=data=x,stage=raw", started_after: "2026-11-27T10:00:00.000Z" });
  expect(bulkFilter(search, 0)).toMatchObject({ version: 3, labels: { team: "data=x", stage: "raw" } });
});
