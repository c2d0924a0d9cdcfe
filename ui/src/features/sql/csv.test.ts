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
