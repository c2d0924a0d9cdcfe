/** Entries of results that executions have shown, beside those that follow from the text. */
import type { Schemas } from "../../../api/client";
import type { Names } from "./template";

/** Entries by step, those of the first execution first. */
export type Learned = ReadonlyMap<string, string[]>;

export function learnedOf(executions: Schemas["ResultEntries"][]): Learned {
  const found = new Map<string, string[]>();
  for (const { steps } of executions) {
    for (const { step, fields } of steps) found.set(step, [...new Set([...(found.get(step) ?? []), ...fields])]);
  }
  return found;
}

/** The names of a text with what was learned: what follows from the text is offered first. */
export function withLearned(names: Names | null, learned: Learned | undefined): Names | null {
  if (names === null || learned === undefined || learned.size === 0) return names;
  return {
    ...names,
    steps: names.steps.map((one) => ({ ...one, fields: [...new Set([...one.fields, ...(learned.get(one.step) ?? [])])] })),
  };
}
