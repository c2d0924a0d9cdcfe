import { expect, test } from "vitest";

import { byDay } from "./byDay";

const at = (text: string) => Date.parse(text);

test("moments of several schedules are listed by day, the earliest first", () => {
  const starts = [
    { schedule: "late", path: "a/late", at: at("2026-11-29T20:00:00Z") },
    { schedule: "early", path: "a/early", at: at("2026-11-30T05:00:00Z") },
    { schedule: "early", path: "a/early", at: at("2026-11-29T05:00:00Z") },
  ];
  expect(byDay(starts, "UTC", 7)).toEqual([
    {
      day: "2026-11-29",
      lines: [
        { schedule: "early", path: "a/early", times: ["05:00:00"], more: 0 },
        { schedule: "late", path: "a/late", times: ["20:00:00"], more: 0 },
      ],
    },
    { day: "2026-11-30", lines: [{ schedule: "early", path: "a/early", times: ["05:00:00"], more: 0 }] },
  ]);
});

test("a schedule of every minute fills one line, and days have an end", () => {
  const minutes = Array.from({ length: 20 }, (_, minute) => ({ schedule: "often", path: "a/often", at: minute * 60_000 }));
  const [day] = byDay(minutes, "UTC", 1);
  expect(day?.lines).toHaveLength(1);
  expect(day?.lines[0]?.times).toHaveLength(6);
  expect(day?.lines[0]?.more).toBe(14);
  const daily = Array.from({ length: 9 }, (_, each) => ({ schedule: "daily", path: "a/daily", at: each * 86_400_000 }));
  expect(byDay(daily, "UTC", 7)).toHaveLength(7);
});
