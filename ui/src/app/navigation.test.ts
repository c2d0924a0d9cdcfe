// @vitest-environment jsdom
import { expect, test } from "vitest";

import { PAGES } from "./navigation";
import { router } from "./router";

/** Pages that other pages lead to: they need to know of what. */
const REACHED = ["/compare", "/enter"];

test("the navigation has every page that needs no name", () => {
  const pages = Object.keys(router.routesByPath)
    .filter((path) => !path.includes("$") && !REACHED.includes(path))
    .map((path) => (path === "/" ? path : path.replace(/\/$/, "")));
  expect(new Set(pages)).toEqual(new Set(PAGES.map(({ to }) => to)));
});

test("no two pages share a key", () => {
  expect(new Set(PAGES.map(({ key }) => key)).size).toBe(PAGES.length);
});
