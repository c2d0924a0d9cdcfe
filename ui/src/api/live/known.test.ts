import { QueryClient } from "@tanstack/react-query";
import { expect, test } from "vitest";

import { isNews, noteOpening } from "./known";

const opened = (topic: string, version: number) => noteOpening(new QueryClient(), topic, version);

test("a hint that is not newer than the first answer is no news, and a newer one is, once", () => {
  opened("execution:1", 5);
  expect([4, 5, 6, 6, 7].map((version) => isNews({ topic: "execution:1", version }))).toEqual([false, false, true, false, true]);
});

test("a loop that runs moves within a version, and one that has ended does not", () => {
  opened("execution:2", 5);
  const hint = (done: number, failed: number) => isNews({ topic: "execution:2", version: 5, loops: [{ done, failed, total: 10 }] });
  expect([hint(3, 1), hint(9, 0), hint(9, 1)]).toEqual([true, true, false]);
});

test("an execution that is gone, and a topic of which nothing was noted, are news", () => {
  opened("execution:3", 5);
  expect(isNews({ topic: "execution:3", version: 0, status: "gone" })).toBe(true);
  expect([9, 3].map((version) => isNews({ topic: "executions", version }))).toEqual([true, true]);
});

test("what an earlier page has read may be older than the answer: its version is not noted", () => {
  const client = new QueryClient();
  client.setQueryData(["execution", "5", "callbacks"], []);
  noteOpening(client, "execution:5", 5);
  expect(isNews({ topic: "execution:5", version: 5 })).toBe(true);
});
