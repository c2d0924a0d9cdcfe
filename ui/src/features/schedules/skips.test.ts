import { expect, test } from "vitest";

import { skippedLast } from "./skips";

const missed = { cause: "catch_up", at: "2026-11-29T05:00:00Z", reason: "it was missed: catch_up is once" } as const;
const overlap = { cause: "overlap", at: "2026-11-29T06:00:00Z", reason: "overlap: execution 7 still runs" } as const;

test("the last moment was skipped when the newest skip is its own", () => {
  expect(skippedLast({ last_at: overlap.at, skips: [overlap, missed] })).toBe(overlap);
});

test("a moment that was skipped before is not the last one", () => {
  expect(skippedLast({ last_at: "2026-11-29T07:00:00Z", skips: [overlap, missed] })).toBeUndefined();
  expect(skippedLast({ last_at: overlap.at, skips: [missed] })).toBeUndefined();
});

test("a schedule that never skipped one, or that has not fired, has none", () => {
  expect(skippedLast({ last_at: overlap.at, skips: [] })).toBeUndefined();
  expect(skippedLast({ last_at: null })).toBeUndefined();
});
