import { expect, test } from "vitest";

import { parseSearch, stringifySearch } from "../../app/search";

import { executionsSearch, isFiltered, startedAfter } from "./search";

test("a bent link opens with what can be read of it", () => {
  const search = executionsSearch({ status: "on fire", path: "a/b", version: "3", parent: "1 or 1=1", age: "24h", x: 1 });
  expect(search).toEqual({ status: undefined, path: "a/b", version: 3, parent: undefined, age: "24h" });
  expect(isFiltered(search)).toBe(true);
  expect(isFiltered(executionsSearch({}))).toBe(false);
});

test("an age is a moment on a whole minute", () => {
  expect(startedAfter("1h", Date.parse("2026-11-24T18:36:59Z"))).toBe("2026-11-24T17:36:00.000Z");
  expect(startedAfter(undefined, 0)).toBeUndefined();
});

test("ids in a link keep all their digits, with quotes around them or without", () => {
  const id = "384503040975839653";
  expect(parseSearch(`?a=${id}&b=%22${id}%22&path=a/b&at=3:1`)).toEqual({ a: id, b: id, path: "a/b", at: "3:1" });
  expect(parseSearch(stringifySearch({ a: id, version: 2, gone: undefined }))).toEqual({ a: id, version: "2" });
  expect(stringifySearch({})).toBe("");
});

test("quotes around what is searched for belong to it", () => {
  expect(parseSearch(stringifySearch({ text: '"status"', search: '""' }))).toEqual({ text: '"status"', search: '""' });
});
