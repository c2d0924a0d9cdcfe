import { expect, test } from "vitest";

import { type Ask, type Line, type LogQuery, readLines } from "./logPages";

const lineOf = (text: string): Line => ({ time: "2026-11-21T10:00:00.000Z", step: "load", task: "load", line: text });
const answer = (lines: string[], more: Partial<Awaited<ReturnType<Ask>>>) => ({
  execution_id: "1",
  lines: lines.map(lineOf),
  next: "",
  complete: false,
  ...more,
});

/** A server that gives these answers in turn, and what it was asked. */
function serverOf(...answers: Awaited<ReturnType<Ask>>[]) {
  const asked: LogQuery[] = [];
  const ask: Ask = (query) => {
    asked.push(query);
    const next = answers.shift();
    return next ? Promise.resolve(next) : Promise.reject(new Error("asked too often"));
  };
  return { ask, asked };
}

test("the end is read backwards until it is a page, and what follows begins behind it", async () => {
  const { ask, asked } = serverOf(
    answer(["4", "3"], { next: "b", end: "e", more: true, scanned: 9 }),
    answer([], { next: "c", more: true, scanned: 9 }),
    answer(["2", "1"], { next: "d", complete: true, scanned: 5 }),
  );
  const page = await readLines("end", ask, undefined);
  expect(page.items.map((line) => line.line)).toEqual(["1", "2", "3", "4"]);
  expect(page).toMatchObject({ next: "e", complete: false, scan: { count: 23, more: true } });
  expect(asked.map(({ order, after, limit }) => [order, after, limit])).toEqual([
    ["newest", undefined, 1000],
    ["newest", "b", 998],
    ["newest", "c", 998],
  ]);
});

test("what follows the end is read forward, and an empty log has a beginning to follow", async () => {
  const { ask, asked } = serverOf(answer([], { complete: true, end: "" }), answer(["5"], { next: "f" }));
  const page = await readLines("end", ask, undefined);
  expect(page).toMatchObject({ items: [], next: "", complete: false });
  await readLines("end", ask, page.next);
  expect(asked[1]).toEqual({ order: "oldest", after: "", limit: 1000 });
});

test("a search for what is rare ends after ten requests", async () => {
  const { ask, asked } = serverOf(...Array.from({ length: 20 }, () => answer([], { next: "x", end: "e", more: true })));
  await readLines("end", ask, undefined);
  expect(asked).toHaveLength(10);
});

test("a page says how far it has looked, and whether more is behind it", async () => {
  const { ask, asked } = serverOf(answer(["9"], { next: "n", more: true, scanned: 100, scanned_until: "2026-11-21T10:00:00.000Z" }));
  const page = await readLines("newest", ask, "m");
  expect(page).toMatchObject({ next: "n", complete: false, scan: { count: 100, until: "2026-11-21T10:00:00.000Z", more: true } });
  expect(asked[0]).toEqual({ order: "newest", after: "m", limit: 1000 });
});
