import { expect, test } from "vitest";

import { isProse, placeOf, templateBefore } from "./place";

/** The place of a mark in a text, as its role and the keys that lead to it. */
function at(marked: string): string | null {
  const position = marked.indexOf("^");
  const place = placeOf(marked.replace("^", ""), position, position);
  if (!place) return null;
  const way = place.levels.map(({ entry }) => entry).filter((entry) => entry !== null);
  const taken = [...(place.levels.at(-1)?.keys.keys() ?? [])].join(",");
  return `${place.role} ${way.join(".")}${place.role === "key" ? ` beside ${taken}` : ""}`;
}

test.each([
  ["^", "key  beside "],
  ["a: 1\n^\nb: 2", "key  beside a,b"],
  ["a: ^", "value a"],
  ["a:\n  b: 1\n  ^", "key a beside b"],
  ["a:\n  b: 1\n  c^: 2", "key a beside b"],
  ["a:\n  - ^", "item a.0"],
  ["a:\n  - b: 1\n    ^\n  - b: 2", "key a.0 beside b"],
  ["a:\n  - b: 1\n  - ^", "item a.1"],
  ["a:\n  - b: ^\n    c: d", "value a.0.b"],
  ["a: { b: 1, ^ }", "key a beside b"],
  ["a: { b: 1, c: ^ }", "value a.c"],
  ["a: [{ ^ }]", "key a.0 beside "],
  ["a: [x, ^]", "item a.1"],
  ["a: { b: 1, ^", "key a beside b"],
  ["a: { b: [{ c: ^", "value a.b.0.c"],
  ["a: '^'", "value a"],
  ["a: \"x ^ y\"\nb: 1", "value a"],
  ["'a b':\n  ^", "key a b beside "],
  ["# ^", null],
])("the place in %j", (marked, expected) => {
  expect(at(marked)).toBe(expected);
});

test("the texts beside a key are known, and what is no text is not", () => {
  const text = "- kind: http\n  \n  deep: { a: 1 }\n  'q': \"r s\"\n";
  const place = placeOf(text, text.indexOf("\n  \n") + 3, text.indexOf("\n  \n") + 3);
  expect([...(place?.levels.at(-1)?.keys ?? [])]).toEqual([
    ["kind", "http"],
    ["deep", null],
    ["q", "r s"],
  ]);
});

test.each([
  ['a: "{{ ^ }}"', " "],
  ['a: "{{ x }} {{ y.^"', " y."],
  ['a: "{% if ^ %}"', " if "],
  ['a: "{{ x }} ^"', null],
  ["a: ^", null],
  ["a: { b: ^ }", null],
  ['a: "{{ x\nb: ^', null],
  ["a: |\n  {{ x\n    | ^", " x\n    | "],
])("the template in %j", (marked, expected) => {
  expect(templateBefore(marked.replace("^", ""), marked.indexOf("^"))?.before ?? null).toBe(expected);
});

test("a template has the place of the text around it", () => {
  const marked = 'a:\n  - b: "x {{ c.^d }} {{ e }}"\n';
  const template = templateBefore(marked.replace("^", ""), marked.indexOf("^"));
  expect(template?.place?.levels.map(({ entry }) => entry)).toEqual(["a", 0, "b"]);
});

test("comments and blocks of text are prose", () => {
  const text = "a: 1 # note\nb: |\n  code here\nc: d\n";
  expect(["note", "here", "d\n", "1"].map((word) => isProse(text, text.indexOf(word) + 1))).toEqual([true, true, false, false]);
});

test("half-written texts are no trouble", () => {
  const text = 'a: { b: [c, "d\n  - e: {{ f | g }\n\t- h: |\n  i\n: : -';
  for (let position = 0; position <= text.length; position++) {
    expect(() => [placeOf(text, position, position), templateBefore(text, position), isProse(text, position)]).not.toThrow();
  }
});
