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
