import { expect, test } from "vitest";

import { activityText, barsOf } from "./activity";

test("there is a bar for each bucket, also where nothing ended", () => {
  const answer = {
    since: "2026-11-28T01:30:00Z",
    until: "2026-11-28T04:30:01Z",
    bucket_seconds: 3_600,
    playbooks: [],
    complete_from: null,
  };
  const buckets = [
    { at: "2026-11-28T02:00:00Z", ended: 3, failed: 1 },
    { at: "2026-11-28T04:00:00Z", ended: 1, failed: 0 },
    { at: "2026-11-28T09:00:00Z", ended: 9, failed: 9 },
  ];
  expect(barsOf(answer, buckets)).toEqual([
    { ended: 0, failed: 0 },
    { ended: 3, failed: 1 },
    { ended: 0, failed: 0 },
    { ended: 1, failed: 0 },
  ]);
});

test.each([
  [0, 0, "0 runs"],
  [1, 0, "1 run"],
  [12, 2, "12 runs, 2 failed"],
  [12_345, 12_345, "12,345 runs, 12,345 failed"],
])("%d runs of which %d failed are %s", (ended, failed, text) => {
  expect(activityText(ended, failed)).toBe(text);
});
