import { expect, test } from "vitest";

import { durationText, momentText, relativeText, toMillis } from "./time";

test.each([
  [0.4, "0 ms"],
  [86, "86 ms"],
  [1_000, "1 s"],
  [3_240, "3.2 s"],
  [125_000, "2 min 5 s"],
  [7_200_000, "2 h"],
  [90_000_000, "1 d 1 h"],
])("%d ms reads %s", (millis, text) => {
  expect(durationText(millis)).toBe(text);
});

test("epoch seconds and RFC 3339 name the same moment", () => {
  const millis = toMillis(1795545397.021);
  expect(Math.round(millis)).toBe(toMillis("2026-11-24T18:36:37.021Z"));
  expect(momentText(millis, "UTC")).toBe("2026-11-24 18:36:37");
  expect(momentText(millis, "UTC", "milli")).toBe("2026-11-24 18:36:37.021");
});

test("distance from now, in both directions", () => {
  expect(relativeText(0, 65_000)).toBe("1 min ago");
  expect(relativeText(7_300_000, 0)).toBe("in 2 h");
  expect(relativeText(1_000, 0)).toBe("now");
});
