import { expect, test } from "vitest";

import { realRunOf } from "./realRun";

test("a finding that advises a real run gives the whole command, and others stay as they are", () => {
  const message = "start (http) reaches outside and has no reply: GET http://api.test\nadd under `tools`:  start: { body: {} }";
  expect(realRunOf(`${message}\nor run it for real: --live http`, "rates")).toEqual({
    says: message,
    command: "noetl test rates.yaml --live http",
  });
  expect(realRunOf(message, "rates")).toEqual({ says: message });
});
