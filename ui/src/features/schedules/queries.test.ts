// @vitest-environment jsdom
import { expect, test } from "vitest";

import { nextOf } from "./queries";

test("after each start the calendar asks for the moments that follow", () => {
  const keyAt = (next_at: string) => nextOf({ name: "nightly", next_at }, 20).queryKey;
  expect(keyAt("2026-11-27T06:00:00Z")).not.toEqual(keyAt("2026-11-28T06:00:00Z"));
});
