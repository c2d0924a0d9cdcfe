import { expect, test } from "vitest";

import { fieldsOf, valueOf } from "./schema";

const SCHEMA = {
  type: "object",
  required: ["region", "count"],
  properties: {
    region: { type: "string", enum: ["eu", "us"], description: "Where" },
    count: { type: "integer", minimum: 1, default: 12 },
    note: { type: "string" },
    deep: { type: "object" },
    strict: { type: "boolean" },
  },
};

test("a field for each property, and for each known value that the schema does not name", () => {
  const fields = fieldsOf(SCHEMA, { region: "us", extra: 18446744073709551617n });
  expect(fields.map(({ name, kind, required, start }) => [name, kind, required, start])).toEqual([
    ["region", "choice", true, '"us"'],
    ["count", "integer", true, "12"],
    ["note", "text", false, ""],
    ["deep", "json", false, ""],
    ["strict", "boolean", false, ""],
    ["extra", "integer", false, "18446744073709551617"],
  ]);
  expect(fields[1]?.hint).toBe("at least 1");
});

test("an empty field says which value of the workload counts then", () => {
  const fields = fieldsOf(SCHEMA, {}, { region: "us", note: "none", deep: { a: 1 } });
  expect(fields.map(({ otherwise }) => otherwise)).toEqual(["us", "", "none", '{"a":1}', ""]);
});

test("texts become values of their types; what was left empty stays out", () => {
  const fields = fieldsOf(SCHEMA, { big: 18446744073709551617n });
  const { payload, wrong } = valueOf(fields, { region: '"eu"', count: "3", deep: '{"a": [1]}', strict: "true", big: "18446744073709551618" });
  expect(wrong).toEqual({});
  expect(payload).toEqual({ region: "eu", count: 3, deep: { a: [1] }, strict: true, big: 18446744073709551618n });
});

test("what cannot be read is said at its field", () => {
  const { wrong } = valueOf(fieldsOf(SCHEMA), { count: "three", deep: "{", strict: "true" });
  expect(Object.keys(wrong).sort()).toEqual(["count", "deep", "region"]);
});

test("a name that every object has is a field like others", () => {
  expect(fieldsOf({ properties: { constructor: { type: "string" } } }).map(({ kind, start }) => [kind, start])).toEqual([["text", ""]]);
  const fields = fieldsOf({ properties: {} }, { toString: "kept" });
  expect(valueOf(fields, {})).toEqual({ payload: { toString: "kept" }, wrong: {} });
});

test("what is no finite number is refused where one is asked for", () => {
  const fields = fieldsOf({ properties: { rate: { type: "number" } } });
  for (const text of ["1e999", "true", "null", "[1]", '"1"']) expect(valueOf(fields, { rate: text }).wrong).toEqual({ rate: "A number is needed." });
  for (const text of ["1e-3", "-2.5", "18446744073709551617"]) expect(valueOf(fields, { rate: text }).wrong).toEqual({});
});
