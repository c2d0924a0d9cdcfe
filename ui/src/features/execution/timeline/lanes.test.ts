import { expect, test } from "vitest";

import type { StepRun } from "../queries";
import { lanesOf } from "./lanes";

const step = (name: string, child?: string) => ({ step: name, run: 1, child_execution_id: child }) as StepRun;
const shown = (opened: Record<string, StepRun[]>) =>
  lanesOf("1", [step("a"), step("b", "2"), step("c", "2")], new Map(Object.entries(opened))).map(
    ({ executionId, step: { step: name }, depth }) => `${depth} ${executionId} ${name}`,
  );

test("steps of an opened sub-execution stand below the run that started it, once", () => {
  expect(shown({})).toEqual(["0 1 a", "0 1 b", "0 1 c"]);
  expect(shown({ 2: [step("d", "3")] })).toEqual(["0 1 a", "0 1 b", "1 2 d", "0 1 c"]);
  expect(shown({ 2: [step("d", "3")], 3: [step("e")] })).toEqual(["0 1 a", "0 1 b", "1 2 d", "2 3 e", "0 1 c"]);
});

test("sub-executions that lead back to each other end", () => {
  expect(shown({ 2: [step("d", "1"), step("e", "2")], 1: [step("a")] })).toEqual(["0 1 a", "0 1 b", "1 2 d", "1 2 e", "0 1 c"]);
});

test("what is opened and belongs to no lane is not shown", () => {
  expect(shown({ 9: [step("x")] })).toHaveLength(3);
});
