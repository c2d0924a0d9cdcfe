import { expect, test } from "vitest";

import { type Folder, treeOf } from "./tree";

const line = (path: string) => ({ path, version: 1, name: path, program: "", catalog_id: "", created_at: "2026-11-21T10:00:00Z" });
const shape = (folder: Folder): unknown => [
  folder.path,
  folder.folders.map(shape),
  folder.playbooks.map(({ path }) => path),
];

test("paths make folders, in order; a text leaves the others out", () => {
  const lines = [line("b/x"), line("top"), line("a/deep/y"), line("a/deep/x")];
  expect(shape(treeOf(lines))).toEqual([
    "",
    [
      ["a", [["a/deep", [], ["a/deep/x", "a/deep/y"]]], []],
      ["b", [], ["b/x"]],
    ],
    ["top"],
  ]);
  expect(shape(treeOf(lines, "B/"))).toEqual(["", [["b", [], ["b/x"]]], []]);
});
