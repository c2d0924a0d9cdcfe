// @vitest-environment jsdom
import { CompletionContext } from "@codemirror/autocomplete";
import { EditorState } from "@codemirror/state";
import type { EditorView } from "@codemirror/view";
import { expect, test } from "vitest";

import { complete } from "./completion";
import { helpAt } from "./hover";
import { NAMES, SCHEMA } from "./sample";

const known = { schema: () => SCHEMA, names: () => NAMES };
const STEP = "workflow:\n  - step: start\n    ";

/** What is offered at the mark, in its order. */
async function offered(marked: string, explicit = true, knowledge: Parameters<typeof complete>[0] = known): Promise<string> {
  const position = marked.indexOf("^");
  const state = EditorState.create({ doc: marked.replace("^", "") });
  const found = await complete(knowledge)(new CompletionContext(state, position, explicit));
  const options = [...(found?.options ?? [])].sort((one, other) => (other.boost ?? 0) - (one.boost ?? 0));
  return options.map(({ label }) => label).join(" ");
}

test.each([
  ["^", "kind workload workflow"],
  ["kind: Playbook\n^", "workload workflow"],
  ["kind: ^", "Playbook"],
  ["workflow:\n  - ^", "step tool next wait"],
  [`${STEP}^`, "tool next wait"],
  [`${STEP}wait: ^`, "all any true false"],
  [`${STEP}next: ^`, "start last"],
  [`${STEP}next: [^]`, "start last"],
  [`${STEP}next: { arcs: [{ step: ^ }] }`, "start last"],
  [`${STEP}next: { arcs: [{ step: last, ^ }] }`, "when"],
  [`${STEP}tool: { kind: ^ }`, "http noop"],
  [`${STEP}tool: { ^ }`, "kind desc"],
  [`${STEP}tool:\n      kind: http\n      ^`, "url auth desc endpoint"],
  [`${STEP}tool:\n      ^\n      kind: http`, "url auth desc endpoint"],
  [`${STEP}tool: [{ kind: http, ^ }]`, "url auth desc endpoint"],
  [`${STEP}tool: { kind: http, auth: ^ }`, "weather"],
  [`${STEP}tool: { kind: http, code: |\n  ^`, ""],
  ["# ^", ""],
])("what the schema offers at %j", async (marked, expected) => {
  expect(await offered(marked)).toBe(expected);
});

const tool = (inside: string) => `${STEP}tool: { kind: http, url: "{{${inside}}}" }`;

test.each([
  [tool(" ^ "), "row read rate last ending workload ctx keychain iter now"],
  [`${STEP}next: { arcs: [{ when: "{{ ^ }}" }] }`, "rate start last ending workload ctx error now"],
  ["workload: { a: '{{ ^ }}' }", "workload now"],
  [tool(" workload.^ "), "city <img src=x onerror=alert(1)>"],
  [tool(" ctx.^ "), "total"],
  [tool(" keychain.^ "), "weather"],
  [tool(" args.^ "), "rate"],
  [tool(" iter.^ "), "page row index first"],
  [tool(" error.^ "), "kind code"],
  [tool(" workload.city.^ "), ""],
  [tool(" start.^ "), "rows row_count command_0 read"],
  [tool(" start.command_0.^ "), "rows"],
  [tool(" start.command_0.rows[0].^ "), ""],
  [tool(" start.read.^ "), "url"],
  [tool(" read.^ "), "url"],
  [tool(" ending.^ "), "tax"],
  [tool(" ctx.start.^ "), ""],
  [tool(" x.start.^ "), ""],
  [tool(" (start[0].^ "), "rows row_count command_0 read"],
  [tool(" x | ^ "), "join round"],
  [tool(" x is not ^ "), "defined"],
  [tool(" 'text ^ "), ""],
  [`${STEP}wait: "{{ 'text ^ }}"`, ""],
  [`${STEP}tool:\n      kind: http\n      url: |\n        {{ iter.^ }}`, "page row index first"],
])("what a template offers at %j", async (marked, expected) => {
  expect(await offered(marked)).toBe(expected);
});

test("nothing is offered unasked where nothing was begun", async () => {
  expect(await offered(`${STEP}^`, false)).toBe("");
  expect(await offered(`${STEP}t^`, false)).toContain("tool");
  expect(await offered(`${STEP}tool: { kind: ^ }`, false)).toBe("http noop");
  expect(await offered(tool(" workload.^ "), false)).toContain("city");
});

test("keys are offered without names, when the schema comes, or not at all", async () => {
  expect(await offered(tool(" workload.^ "), true, { schema: () => SCHEMA, names: () => null })).toBe("");
  expect(await offered("^", true, { schema: () => Promise.resolve(SCHEMA), names: () => null })).toBe("kind workload workflow");
  expect(await offered("^", true, { schema: () => Promise.resolve(null), names: () => NAMES })).toBe("");
});

/** The help for what the mark is in. */
async function help(marked: string): Promise<HTMLElement | null> {
  const tooltip = await helpAt(known)(EditorState.create({ doc: marked.replace("^", "") }), marked.indexOf("^"));
  return tooltip ? (tooltip.create({} as EditorView).dom as HTMLElement) : null;
}

test.each([
  ["ki^nd: Playbook", "kindPlaybook.More: noetl docs dsl/keys"],
  [`${STEP}wa^it: all`, "waitHow many.Default: allMore: noetl docs dsl/keys"],
  [`${STEP}tool: { kind: ht^tp }`, "httpCalls an HTTP API.More: noetl docs kinds/http"],
  [`${STEP}tool: { kind: http, u^rl: x }`, "urlAddress.More: noetl docs kinds/http"],
  [tool(" work^load.city "), "workloadThe payload."],
  [tool(" ro^w "), "rowThe element of this iteration."],
  [tool(" workload.ci^ty "), undefined],
  ["unkn^own: 1", undefined],
  ["# ki^nd", undefined],
])("the help at %j", async (marked, expected) => {
  expect((await help(marked))?.textContent).toBe(expected);
});

test("names with markup are text", async () => {
  const position = tool(" ^ ").indexOf("^");
  const hostile = { ...NAMES, steps: [{ ...NAMES.steps[0]!, step: "start", iterator: "<b>x</b>" }] };
  const state = EditorState.create({ doc: tool("  ") });
  const found = await complete({ schema: () => SCHEMA, names: () => hostile })(new CompletionContext(state, position, true));
  const info = found?.options.find(({ label }) => label === "<b>x</b>")?.info as () => HTMLElement;
  expect(info().querySelector("b")).toBeNull();
  expect(info().textContent).toContain("<b>x</b>");
});
