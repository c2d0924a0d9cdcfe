import { expect, test } from "vitest";

import { axisNumber, axisTimes, placeRange, valueRange } from "./scale";

test.each([
  [0, "0"],
  [12, "12"],
  [1_500, "1.5K"],
  [2_345_678, "2.35M"],
  [0.25, "0.25"],
  [0.0000012, "1.2E-6"],
  [18446744073709551617, "1.84E19"],
  [-4_000, "-4K"],
])("%d on an axis is %s", (value, text) => {
  expect(axisNumber(value)).toBe(text);
});

test("moments have their day where it begins, and as much of the time as their steps tell apart", () => {
  const at = (text: string) => Date.parse(text);
  const hours = [at("2026-11-28T22:00Z"), at("2026-11-28T23:00Z"), at("2026-11-29T00:00Z")];
  expect(axisTimes(hours, 3_600_000, "UTC")).toEqual(["22:00\n2026-11-28", "23:00", "00:00\n2026-11-29"]);
  expect(axisTimes(hours, 86_400_000, "UTC")).toEqual(["2026-11-28", "2026-11-28", "2026-11-29"]);
  expect(axisTimes([at("2026-11-28T22:00:05Z")], 5_000, "UTC")).toEqual(["22:00:05\n2026-11-28"]);
  expect(axisTimes([at("2026-11-28T22:00:05.250Z")], 50, "UTC")).toEqual(["22:00:05.250\n2026-11-28"]);
});

test("values begin at zero unless some are below it; one value alone has room", () => {
  expect(valueRange(2, 10)).toEqual([0, 10.5]);
  expect(valueRange(-10, 10)).toEqual([-11, 11]);
  expect(valueRange(-10, -5)).toEqual([-10.25, 0]);
  expect(valueRange(0, 0)).toEqual([0, 1]);
  expect(valueRange(7, 7)[1]).toBeGreaterThan(7);
  expect(placeRange(1, 9, false)).toEqual([1, 9]);
  expect(placeRange(100, 100, false)).toEqual([90, 110]);
  expect(placeRange(0, 0, false)).toEqual([-1, 1]);
  expect(placeRange(3_600_000, 3_600_000, true)).toEqual([1_800_000, 5_400_000]);
});
