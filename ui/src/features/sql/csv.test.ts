import { expect, test } from "vitest";

import { csvOf } from "./csv";

test("quotes, line ends and formulas are kept as text; whole numbers keep their digits", () => {
  const rows = [
    ['a "b"', 18446744073709551617n, null, { x: [1] }],
    ["=1+1", -5, "two\nlines", true],
  ];
  expect(csvOf(["t", "n", "e", "j"], rows)).toBe(
    't,n,e,j\r\n"a ""b""",18446744073709551617,,"{""x"":[1]}"\r\n\'=1+1,-5,"two\nlines",true\r\n',
  );
});

test("a formula that begins like a negative number is text, and a number is one", () => {
  const rows = [["-2+3+cmd|' /C calc'!A0", "-1.50", "-9e-7", "-"]];
  expect(csvOf(["a", "b", "c", "d"], rows)).toBe("a,b,c,d\r\n'-2+3+cmd|' /C calc'!A0,-1.50,-9e-7,'-\r\n");
});
