// @vitest-environment jsdom
import { expect, test } from "vitest";

import { codeOf, type Execution } from "./queries";

test("the text of an execution that goes on with another version is another one", () => {
  const keyAt = (version: number) => codeOf({ execution_id: "1", path: "a/b", version } as Execution).queryKey;
  expect(keyAt(1)).not.toEqual(keyAt(2));
});
