/** Help while a playbook is written: completion, explanations and fixes, from the schema and the names of the server. */
import { AxeBuilder } from "@axe-core/playwright";

import { HELLO } from "./playbooks";
import { expect, test } from "./test";
import { write } from "./writing";

const MARKUP = "<img src=x onerror=alert(1)>";

const TEXT = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: helped, path: help/editor }
workload: { city: Oslo, "${MARKUP}": 1 }
workflow:
  - step: start
    tool:
      kind: noop
      args: { where: "{{ workload.city }}" }
    next: { arcs: [{ step: reprot }] }
  - step: report
    tool: { kind: noop }
`;

test("completion, explanations and fixes, by keyboard", async ({ page, server, ui }) => {
  await server.register(TEXT.replace("reprot", "report"));
  await page.goto(`${ui.address}/ui/playbooks/help/editor?view=edit`);
  const text = page.locator(".code-frame").getByRole("textbox");
  const options = page.locator(".code-frame").getByRole("option");
  /** Choose the first of the list, which takes no key in its first moment: it may be meant for the text. */
  const choose = async (label: string) => {
    await expect(options.first()).toContainText(label);
    await page.waitForTimeout(150);
    await page.keyboard.press("Enter");
    await expect(options).toHaveCount(0);
  };
  const explained = page.locator(".code-frame .cm-help");
  await write(text, TEXT);

  // A word that is not a step: the list's button, then the key, do what the server suggests.
  const problems = page.getByRole("region", { name: "Problems of the text" });
  await problems.getByRole("button", { name: "Write report in line 10" }).click();
  await expect(text).toContainText("step: report }] }");
  await expect(problems).toHaveCount(0);
  await text.press("Control+z");
  await expect(text).toContainText("step: reprot }] }");
  await expect(problems).toBeVisible();
  await text.press("F8");
  await page.keyboard.press("Control+.");
  await expect(text).toContainText("step: report }] }");
  await expect(problems).toHaveCount(0);

  // Keys of the kind, in a new line of the last step.
  await text.press("Control+End");
  await page.keyboard.type("    next: [");
  await expect(options.filter({ hasText: "start" })).toBeVisible();
  await page.keyboard.press("Escape");
  await page.keyboard.type("start]");
  await page.keyboard.insertText("\n  - step: third\n    ");
  await page.keyboard.type("to");
  await choose("tool");
  await page.keyboard.type("{ kind: ht");
  await choose("http");
  await page.keyboard.type(", ur");
  await choose("url");
  await expect(text).toContainText("tool: { kind: http, url: }");

  // Names of this playbook inside of a template; a name with markup is text.
  await page.keyboard.type('"{{ workload.');
  await expect(options.filter({ hasText: "city" })).toBeVisible();
  await expect(options.filter({ hasText: MARKUP })).toBeVisible();
  await page.keyboard.type("ci");
  await choose("city");
  await page.keyboard.type(" | rou");
  await choose("round");
  await expect(text).toContainText('url: "{{ workload.city | round}}"}');

  // Entries of a result, and of an entry of it.
  await page.keyboard.press("End");
  const named = page.waitForResponse(async (answer) => answer.url().includes("/validate") && (await answer.text()).includes("command_1"));
  await page.keyboard.insertText("\n  - step: read\n    tool: { kind: duckdb, query: SELECT 1 }\n  - step: sum\n    tool: ");
  await named;
  await page.keyboard.type('{ kind: noop, args: { n: "{{ read.com');
  await expect(options.filter({ hasText: "command_1" })).toBeVisible();
  await choose("command_0");
  await page.keyboard.type(".ro");
  await choose("rows");
  await expect(text).toContainText('n: "{{ read.command_0.rows}}"');

  // What a key is, at the cursor and at the pointer.
  await text.press("Control+Home");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Control+i");
  await expect(explained).toHaveText(/^kindPlaybook\.More: noetl docs dsl\/keys$/);
  await page.keyboard.press("ArrowDown");
  await expect(explained).toHaveCount(0);
});

test("entries of the last execution are offered: of an answer over HTTP, of a child, of elements of a list", async ({ page, server, ui }) => {
  const child = HELLO.replaceAll("demo/hello", "learn/child").replace("text: hello", "receipt: { total: 3 }");
  const parent = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: parent, path: learn/parent }
workflow:
  - step: start
    tool: { kind: http, url: "${server.address}/health" }
    next: { arcs: [{ step: call }] }
  - step: call
    tool: { kind: playbook, path: learn/child }
    next: { arcs: [{ step: each }] }
  - step: each
    loop: { in: "{{ [1, 2] }}", iterator: n }
    tool: { kind: noop, args: { double: "{{ iter.n * 2 }}" } }
`;
  await server.register(child);
  await server.register(parent);
  expect((await server.run("learn/parent")).status).toBe("completed");
  const learned = page.waitForResponse((answer) => answer.url().endsWith("/entries"));
  await page.goto(`${ui.address}/ui/playbooks/learn/parent?view=edit`);
  // No value of a result comes with that.
  expect(await (await learned).text()).not.toContain("18446744073709551617");
  const options = page.locator(".code-frame").getByRole("option");
  const text = page.locator(".code-frame").getByRole("textbox");
  await text.press("Control+End");
  await page.keyboard.insertText("  - step: last\n    tool: ");
  await page.keyboard.type('{ kind: noop, args: { a: "{{ start.');
  for (const name of ["status", "status_code", "headers"]) await expect(options.getByText(name, { exact: true })).toBeVisible();
  await page.keyboard.press("Escape");
  await page.keyboard.type("status }} {{ call.receipt.");
  await expect(options).toHaveText(["totalentry"]);
  await page.keyboard.press("Escape");
  await page.keyboard.type("total }} {{ each[0].");
  await expect(options).toHaveText(["doubleentry"]);
});

test("the graph follows the text, stays while that has errors, and leads to a step's line", async ({ page, server, ui }) => {
  await server.register(TEXT.replace("reprot", "report"));
  await page.goto(`${ui.address}/ui/playbooks/help/editor?view=edit`);
  const text = page.locator(".code-frame").getByRole("textbox");
  const graph = page.getByRole("region", { name: "Graph of the text" });
  const steps = graph.locator(".graph-node-name");
  const status = graph.getByRole("status");
  await expect(steps).toHaveText(["start", "report"]);
  await text.press("Control+End");
  await page.keyboard.insertText("    next: { arcs: [{ step: third }] }\n  - step: third\n    tool: { kind: noop }\n");
  await expect(steps).toHaveText(["start", "report", "third"]);
  await expect(graph.locator(".react-flow__edge")).toHaveCount(2);
  await expect(status).toHaveText("The graph is that of this text.");

  // Nothing is registered by that.
  const versions = await server.ask<{ playbooks: unknown[] }>("GET", "/api/catalog/help/editor/versions");
  expect(versions.playbooks).toHaveLength(1);

  await page.keyboard.insertText("  - step: [");
  await expect(status).toHaveText("The graph is that of the last text without errors.");
  await expect(steps).toHaveText(["start", "report", "third"]);
  await text.press("Control+z");
  await expect(status).toHaveText("The graph is that of this text.");

  await graph.getByRole("button", { name: "report" }).click();
  await expect(text).toBeFocused();
  await expect(page.locator(".code-frame .cm-activeLine")).toContainText("step: report");

  // Beside the text where there is room, below it where there is none.
  const place = async () => [await page.locator(".code-frame").boundingBox(), await graph.boundingBox()];
  const [wideText, wideGraph] = await place();
  expect(wideGraph?.x).toBeGreaterThan((wideText?.x ?? 0) + (wideText?.width ?? 0));
  await page.setViewportSize({ width: 360, height: 800 });
  const [narrowText, narrowGraph] = await place();
  expect(narrowGraph?.y).toBeGreaterThan((narrowText?.y ?? 0) + (narrowText?.height ?? 0) - 1);
});

test("in a dialog the list takes Escape for itself, and the pointer asks what a kind is", async ({ page, ui }) => {
  await page.goto(`${ui.address}/ui/playbooks`);
  await page.getByRole("button", { name: "New playbook…" }).click();
  const dialog = page.getByRole("dialog", { name: "New playbook" });
  const places = [dialog.locator(".code-frame"), dialog.getByRole("region", { name: "Graph of the text" })];
  const [text, graph] = await Promise.all(places.map((place) => place.boundingBox()));
  expect(graph?.x, "the graph is beside the text").toBeGreaterThanOrEqual((text?.x ?? 0) + (text?.width ?? 0));
  await dialog.locator(".code-frame").getByRole("textbox").press("Control+Home");
  await page.keyboard.press("Control+Space");
  await expect(dialog.getByRole("option", { name: "keychain" })).toBeVisible();
  const { violations } = await new AxeBuilder({ page }).setLegacyMode(true).include(".code-frame").analyze();
  expect(violations.map(({ id, nodes }) => [id, nodes.map((node) => node.html)])).toEqual([]);
  await page.keyboard.press("Escape");
  await expect(dialog.getByRole("option")).toHaveCount(0);
  await expect(dialog).toBeVisible();

  await dialog.locator(".cm-line", { hasText: "kind: noop" }).getByText("noop", { exact: true }).hover();
  await expect(dialog.locator(".cm-help")).toContainText("More: noetl docs kinds/noop");
});
