import { expect, test } from "vitest";

import { versionChoices } from "./versionChoices";

const labels = (ran: number | null, ...versions: number[]) => versionChoices(ran, versions.map((version) => ({ version }))).map(({ label }) => label);

test("a newer version than it ran is said to be the latest", () => {
  expect(labels(1, 3, 2, 1)).toEqual(["1, the version it ran", "3, the latest", "2"]);
});

test("an execution of the latest version is offered none that is newer", () => {
  expect(labels(2, 2, 1)).toEqual(["2, the version it ran", "1"]);
  expect(labels(null)).toEqual(["the version it ran"]);
});
