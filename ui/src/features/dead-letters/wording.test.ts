import { expect, test } from "vitest";

import type { Schemas } from "../../api/client";
import { outcomeText, plannedText, unreadText } from "./wording";

const done = (over: Partial<Schemas["DeadLettersDone"]> = {}): Schemas["DeadLettersDone"] => ({
  action: "retry",
  dry_run: false,
  status: "complete",
  ids: ["events:1"],
  missing: [],
  unsent: [],
  left: 0,
  about: "",
  ...over,
});

test("an outcome counts what was done and what stays", () => {
  expect(outcomeText("retry", done())).toBe("1 letter sent back, 0 left.");
  expect(outcomeText("delete", done({ ids: ["a", "b"], left: 3 }))).toBe("2 letters deleted, 3 left.");
});

test("an outcome names what did not succeed", () => {
  const partly = done({ ids: [], missing: ["x"], unsent: ["y", "z"], left: 2, status: "partly" });
  expect(outcomeText("retry", partly)).toBe(
    "0 letters sent back, 2 not taken by the queue, 1 not found, 2 left. There may be more: do it again.",
  );
});

test("a plan speaks of one letter or of several", () => {
  expect(plannedText("retry", 1, 1)).toBe("1 letter will be sent back to the queue that it came from. 1 letter stays.");
  expect(plannedText("retry", 2, 0)).toBe("2 letters will be sent back to the queues that they came from. 0 letters stay.");
  expect(plannedText("delete", 1, 3)).toBe("1 letter will be deleted for good; its execution never receives it. 3 letters stay.");
});

test("queues that were read in part are named, others are not", () => {
  expect(unreadText([{ queue: "events", count: 2, read: 2 }])).toBeNull();
  const queues = [
    { queue: "events", count: 23, read: 10 },
    { queue: "timers", count: 1, read: 0 },
  ];
  expect(unreadText(queues)).toBe("Only 10 of 23 in events and 0 of 1 in timers could be read.");
});
