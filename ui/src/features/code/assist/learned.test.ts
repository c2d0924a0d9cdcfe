import { expect, test } from "vitest";

import { learnedOf, withLearned } from "./learned";
import { NAMES, SCHEMA } from "./sample";
import { templateWords } from "./template";

const execution = (steps: Record<string, string[]>) => ({
  execution_id: "1",
  left_out: false,
  steps: Object.entries(steps).map(([step, fields]) => ({ step, fields })),
});
const LEARNED = learnedOf([
  execution({ start: ["city", "rows", "rows[].id", "city.at[].lat", "[].id"], gone: ["x"] }),
  execution({ start: ["town", "city"], last: ["tax", "total"] }),
]);

const offered = (before: string) =>
  templateWords(before, SCHEMA["x-templates"]!, withLearned(NAMES, LEARNED), { place: "tool" }).map(({ name }) => name);

test.each([
  [" start.", ["rows", "row_count", "command_0", "read", "city", "town"]],
  [" start.city.", []],
  [" start.city.at[0].", ["lat"]],
  [" start.rows[-1].", ["id"]],
  [" start[0].", ["id"]],
  [" start.command_0.", ["rows"]],
  [" ending.", ["tax", "total"]],
  [" gone.", []],
])("what is offered behind %j", (before, expected) => {
  expect(offered(before)).toEqual(expected);
});

test("without an execution, or without a playbook, names are as they were", () => {
  expect(withLearned(NAMES, undefined)).toBe(NAMES);
  expect(withLearned(NAMES, learnedOf([]))).toBe(NAMES);
  expect(withLearned(null, LEARNED)).toBeNull();
});
