import { expect, test } from "vitest";

import { sizeText } from "./size";

test.each([
  [0, "0 bytes"],
  [999, "999 bytes"],
  [1_000, "1.0 kB"],
  [9_990, "10 kB"],
  [64_000_000, "64 MB"],
  [999_600, "1.0 MB"],
  [1_073_741_824, "1.1 GB"],
  [5e15, "5000 TB"],
])("%d reads %s", (bytes, text) => {
  expect(sizeText(bytes)).toBe(text);
});
