import { expect, test } from "vitest";

import { FIRST_TESTS, withCases } from "./testText";

const MADE = "cases:\n  - name: made\n    payload: {}\n";

test("a made test replaces a text without tests of its own", () => {
  expect(withCases(FIRST_TESTS, MADE)).toBe(MADE);
});

test("a made case comes before the others, and keeps the keys around them", () => {
  expect(withCases("defaults: {}\ncases:\n  - name: own\nplaybooks: []\n", MADE)).toBe(
    "defaults: {}\ncases:\n  - name: made\n    payload: {}\n  - name: own\nplaybooks: []\n",
  );
});
