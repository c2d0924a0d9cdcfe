import { expect, test } from "vitest";

import { remedyOf } from "./advice";

test.each([
  ["noetl redrive 12", { kind: "change", change: "redrive" }],
  ['noetl redrive 12 --from "price[failed]"', { kind: "change", change: "redrive", from: "price[failed]" }],
  ["noetl unpause 12", { kind: "change", change: "resume" }],
  ["noetl unpause 34", { kind: "execution", id: "34" }],
  ["noetl ctx patch 12 approved=true", { kind: "change", change: "patch" }],
  ["noetl cancel 12", { kind: "change", change: "cancel" }],
  ["noetl analyze 34", { kind: "execution", id: "34" }],
  ["noetl limit list warehouse", { kind: "page", to: "/limits", title: "Limits" }],
  ["noetl dead-letters retry", { kind: "page", to: "/dead-letters", title: "Dead letters" }],
  ["noetl worker start", { kind: "page", to: "/workers", title: "Workers" }],
  ["noetl replay 12", null],
  ["noetl cancel", null],
  ["noetl resume", null],
  ["rm -rf 12", null],
])("%s", (command, remedy) => {
  expect(remedyOf(command, "12")).toEqual(remedy);
});
