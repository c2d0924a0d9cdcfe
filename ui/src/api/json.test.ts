import { expect, test } from "vitest";

import { parseJson, printJson } from "./json";

test("an integer of any size survives from text to text", () => {
  const text = '{"a":18446744073709551617,"b":[-9007199254740993,1,0.12345678901234568],"c":"18446744073709551617","d":1e3}';
  const value = parseJson(text);
  expect(value).toEqual({
    a: 18446744073709551617n,
    b: [-9007199254740993n, 1, 0.12345678901234568],
    c: "18446744073709551617",
    d: 1000,
  });
  expect(printJson(value)).toBe(text.replace("1e3", "1000"));
});

test("digits inside of texts stay text, escapes included", () => {
  const text = '{"a\\"18446744073709551617":"\\\\\\" 18446744073709551617"}';
  expect(parseJson(text)).toEqual({ 'a"18446744073709551617': '\\" 18446744073709551617' });
  expect(printJson(parseJson(text))).toBe(text);
});

test("a safe integer of 16 digits stays a number", () => {
  expect(parseJson("[9007199254740991,9007199254740992]")).toEqual([9007199254740991, 9007199254740992n]);
});

test("a text of twenty megabytes is read, plain or of escapes", () => {
  for (const long of ["x".repeat(20_000_000), '\\"'.repeat(5_000_000)]) {
    const value = { text: long, huge: 18446744073709551617n };
    expect(parseJson(printJson(value))).toEqual(value);
  }
});

test("what is no JSON is refused", () => {
  for (const text of ['"open', '{"a":', "18446744073709551617 1", '"\\"']) expect(() => parseJson(text)).toThrow(SyntaxError);
});
