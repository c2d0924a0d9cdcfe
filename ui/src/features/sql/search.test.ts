import { expect, test } from "vitest";

import { listed, sqlSearch, unlisted } from "./search";

test("names of columns survive the link with any characters", () => {
  const names = ["n", "a,b", "100%", "%2C", "ä b"];
  expect(unlisted(listed(names))).toEqual(names);
  expect(unlisted(undefined)).toEqual([]);
});

test("what is no view is left out", () => {
  expect(sqlSearch({ q: "SELECT 1", view: "pie", x: "", y: "n" })).toEqual({ q: "SELECT 1", y: "n" });
});
