import { expect, test } from "vitest";

import { breaksOf, timeScale } from "./scale";

test("without gaps the axis is linear", () => {
  const { place, gaps } = timeScale([
    { from: 0, to: 60 },
    { from: 50, to: 100 },
  ]);
  expect([place(0), place(50), place(100), gaps.length]).toEqual([0, 0.5, 1, 0]);
});

test("a long idle stretch shrinks, order is kept, and every moment has a place", () => {
  const hour = 3_600_000;
  const { place, gaps } = timeScale([
    { from: 0, to: 10_000 },
    { from: hour, to: hour + 10_000 },
  ]);
  expect(gaps).toHaveLength(1);
  expect(place(hour) - place(10_000)).toBeCloseTo(0.03);
  expect(place(hour + 10_000)).toBeCloseTo(1);
  const moments = Array.from({ length: 200 }, (_, at) => place((at * (hour + 10_000)) / 199));
  expect(moments).toEqual([...moments].sort((a, b) => a - b));
});

test("no span is an axis too", () => {
  expect(timeScale([]).place(0)).toBe(0);
});

test("idle time is as long as it was where it is not collapsed", () => {
  const spans = [
    { from: 0, to: 10_000 },
    { from: 90_000, to: 100_000 },
  ];
  const { place, gaps } = timeScale(spans, false);
  expect([place(10_000), place(90_000), gaps.length]).toEqual([0.1, 0.9, 0]);
});

test("breaks that are too near for words of their own are named together", () => {
  const busy = (from: number, to: number) => ({ from: from * 1000, to: to * 1000 });
  const scale = timeScale([busy(0, 100), busy(200, 200.1), busy(300, 400), busy(500, 600)]);
  expect(scale.gaps).toHaveLength(3);
  expect(breaksOf(scale).map(({ idle, count }) => [Math.round(idle / 1000), count])).toEqual([
    [200, 2],
    [100, 1],
  ]);
});
