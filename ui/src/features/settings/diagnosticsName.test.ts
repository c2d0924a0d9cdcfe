import { expect, test } from "vitest";

import { diagnosticsName } from "./diagnosticsName";

test("a file of diagnostics is named by its moment", () => {
  expect(diagnosticsName("2026-11-21T12:03:44.120000Z")).toBe("noetl-diagnostics-20261121120344.json");
});
