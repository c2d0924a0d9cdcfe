import { expect, test } from "vitest";

import { looksOf, MOST_SERIES } from "./series";

test("series that are states have the colours of states, others those of charts", () => {
  expect(looksOf(["completed", "failed"]).map(({ colour }) => colour)).toEqual(["--good", "--bad"]);
  expect(looksOf(["completed", "orders"]).map(({ colour }) => colour)).toEqual(["--series-1", "--series-2"]);
});

test("series are told apart without their colours", () => {
  const looks = looksOf(Array.from({ length: MOST_SERIES }, (_, at) => `s${at}`));
  expect(new Set(looks.map(({ dash }) => dash.join())).size).toBe(MOST_SERIES);
  expect(new Set(looks.map(({ colour }) => colour)).size).toBe(MOST_SERIES);
});
