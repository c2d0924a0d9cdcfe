import { expect, test } from "vitest";

import { readFlowchart } from "./flowchart";
import { statesOf, takenArcs } from "./overlay";

const chart = readFlowchart(`flowchart TD
  s0["a"]
  s1["b"]
  s2["c"]
  s3["d"]
  s0 --> s1
  s0 --> s2
  s1 --> s3
  s2 --> s3
`);
const run = (number: number, step: string, status = "done") => ({ run: number, step, status, started_at: 0, duration_ms: 0 });

test("the latest run of a step counts, in any order", () => {
  const states = statesOf([run(3, "a", "failed"), run(1, "a")]);
  expect(states.get("a")).toMatchObject({ runs: 2, latest: { status: "failed" } });
});

test("an arc is taken only where no other could have been", () => {
  expect([...takenArcs(chart, statesOf([run(1, "a"), run(2, "b"), run(3, "d")]))].sort()).toEqual(["a0", "a2"]);
  expect([...takenArcs(chart, statesOf([run(1, "a"), run(2, "b"), run(3, "c"), run(4, "d")]))].sort()).toEqual(["a0", "a1"]);
});
