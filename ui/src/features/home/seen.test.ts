import { expect, test } from "vitest";

import { seenUntil } from "./seen";

const NOW = Date.parse("2026-11-27T12:00:30Z");

test("without a mark the last day counts, on a whole minute", () => {
  expect(seenUntil(null, NOW)).toBe("2026-11-26T12:00:00.000Z");
  expect(seenUntil("nonsense", NOW)).toBe("2026-11-26T12:00:00.000Z");
});

test("a mark counts to the millisecond, for a month", () => {
  expect(seenUntil("2026-11-27T11:59:59.123Z", NOW)).toBe("2026-11-27T11:59:59.123Z");
  expect(seenUntil("2020-01-01T00:00:00Z", NOW)).toBe("2026-10-28T12:00:30.000Z");
});
