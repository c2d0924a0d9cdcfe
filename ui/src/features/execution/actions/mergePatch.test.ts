import { expect, test } from "vitest";

import { parseJson, printJson } from "../../../api/json";
import { changesOf, merge } from "./mergePatch";

// The examples of RFC 7396, appendix A.
test.each([
  ['{"a":"b"}', '{"a":"c"}', '{"a":"c"}'],
  ['{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'],
  ['{"a":"b"}', '{"a":null}', "{}"],
  ['{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'],
  ['{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'],
  ['{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'],
  ['{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'],
  ['{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'],
  ['{"e":null}', '{"a":1}', '{"e":null,"a":1}'],
  ["[1,2]", '{"a":"b","c":null}', '{"a":"b"}'],
  ["{}", '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'],
])("%s with %s is %s", (value, patch, merged) => {
  expect(printJson(merge(parseJson(value), parseJson(patch)))).toBe(merged);
});

const context = (text: string, omitted: string[] = []) => ({ values: parseJson(text) as never, omitted, leftOut: 0 });
const told = (text: string, patch: string, omitted: string[] = []) =>
  changesOf(context(text, omitted), parseJson(patch) as never).map(
    ({ path, kind, before, after, omitted: large }) => `${kind} ${path} ${large ? "large" : `${printJson(before)} ${printJson(after)}`}`,
  );

test("what a patch changes is named place by place, and what it leaves is not", () => {
  expect(told('{"a":1,"b":{"c":2,"d":3},"e":4}', '{"a":1,"b":{"c":null,"d":5},"f":[6]}')).toEqual([
    "removed b.c 2 null",
    "changed b.d 3 5",
    "added f null [6]",
  ]);
  expect(told('{"a":1}', "{}")).toEqual([]);
  expect(told('{"a":1}', '{"b":null}')).toEqual([]);
});

test("integers beyond 2^53 differ by their last digit", () => {
  expect(told('{"n":18446744073709551617}', '{"n":18446744073709551616}')).toEqual([
    "changed n 18446744073709551617 18446744073709551616",
  ]);
});

test("a large value is said to change, and names of every object are names", () => {
  expect(told('{"a":1}', '{"rows":[],"a":1}', ["rows"])).toEqual(["changed rows large"]);
  expect(told('{"a":1}', '{"rows":null}', ["rows"])).toEqual(["removed rows large"]);
  expect(told("{}", '{"constructor":1}')).toEqual(["added constructor null 1"]);
});
