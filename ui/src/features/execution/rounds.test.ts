import { expect, test } from "vitest";

import type { HistoryEvent } from "./queries";
import { elapsedMs, roundsOf } from "./rounds";

const redriven = (payload: object, seq: number) =>
  ({ event_id: `ext:${seq}:0`, timestamp: "2026-11-29T00:00:00Z", payload, meta: { lane: 0, seq } }) as unknown as HistoryEvent;

test("a redrive says from where, by whom, why, and after how long", () => {
  const arrivals = ["load", "load", "price", "report", "mail"].map((step) => ({ step }));
  const [second, third] = roundsOf([
    redriven({ arrivals, idle: 90.5, principal: "token:owner", reason: "the service is back" }, 7),
    redriven({ step: "price", with_output: true }, 12),
  ]);
  expect(second).toMatchObject({ number: 2, from: "where it ended: load, price, report and 1 more", idleMs: 90_500, moment: "7:0" });
  expect(second).toMatchObject({ by: "token:owner", reason: "the service is back" });
  expect(third).toMatchObject({ number: 3, from: "step price, with a result that was given", idleMs: 0, moment: "12:0", reason: "" });
});

test("the time from start to end runs on while there is no end", () => {
  const started_at = "2026-11-29T00:00:00Z";
  expect(elapsedMs({ started_at, ended_at: "2026-11-29T00:01:00Z", duration_ms: 5 }, 0)).toBe(60_000);
  expect(elapsedMs({ started_at, ended_at: null, duration_ms: 0 }, Date.parse("2026-11-29T00:00:30Z"))).toBe(30_000);
  const cut = { started_at: "2026-11-29T00:00:00.000900Z", ended_at: "2026-11-29T00:00:00.093600Z", duration_ms: 93 };
  expect(elapsedMs({ ...cut, duration_ms: 94 }, 0), "no less than the time at work").toBe(94);
});
