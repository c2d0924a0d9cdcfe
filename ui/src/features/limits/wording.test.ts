import { expect, test } from "vitest";

import { numbersText } from "./wording";

test.each([
  [4, 10, 60, 1, "At most 4 run at the same time; at most 10 begin in 60 s, spread evenly"],
  [4, 10, 60, 3, "At most 4 run at the same time; at most 10 begin in 60 s, up to 3 of them together"],
  [4, null, 1, 1, "At most 4 run at the same time"],
  [null, 0.5, 1, 1, "At most 0.5 begin in 1 s, spread evenly"],
  [null, null, 1, 1, "No number"],
])("%s concurrent, %s in %s s, burst %s", (concurrent, rate, per, burst, words) => {
  expect(numbersText({ concurrent, rate, per, burst })).toBe(words);
});
