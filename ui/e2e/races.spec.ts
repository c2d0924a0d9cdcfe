/** Answers that come late, and texts that are put back: what a person sees and typed last is what counts. */
import type { Page } from "@playwright/test";

import { COUNTER, GATE, HELLO } from "./playbooks";
import { startProxy } from "./proxy.mjs";
import { DIST, expect, test } from "./test";
import { write } from "./writing";

const OF_RACES = HELLO.replaceAll("demo/hello", "races/hello").replace(/, schedule: \{.*?\}/, "");

test("dropping a draft, and a format that undoes what was typed, put the text back into the editor", async ({ page, server, ui }) => {
  await server.register(OF_RACES);
  await page.goto(`${ui.address}/ui/playbooks/races/hello?view=edit`);
  const text = page.locator(".code-frame").getByRole("textbox");
  await text.press("Control+End");
  await page.keyboard.insertText("# a thought");
  await page.getByRole("button", { name: "Drop the draft" }).click();
  await expect(text).not.toContainText("# a thought");

  const formatted = await server.ask<{ content: string }>("POST", "/api/catalog/format", { content: OF_RACES });
  await write(text, formatted.content.replace("{ name", "{name"));
  await page.getByRole("button", { name: "Format" }).click();
  await expect(text).not.toContainText("{name");
  await write(text, formatted.content.replace("{ name", "{name"));
  await page.getByRole("button", { name: "Format" }).click();
  await expect(text).not.toContainText("{name");
});

test("to begin tests again puts the first ones into the editor", async ({ page, server, ui }) => {
  await server.register(OF_RACES);
  await page.goto(`${ui.address}/ui/playbooks/races/hello?view=tests`);
  const text = page.locator(".code-frame").getByRole("textbox");
  await text.press("Control+End");
  await page.keyboard.insertText("# a thought");
  await page.getByRole("button", { name: "Begin again" }).click();
  await expect(text).not.toContainText("# a thought");
  await expect(text).toContainText("it completes");
});

test("what is typed while a format is under way stays", async ({ page, server, ui }) => {
  await server.register(OF_RACES);
  const answer = await hold(page, "**/api/catalog/format");
  await page.goto(`${ui.address}/ui/playbooks/races/hello?view=edit`);
  const text = page.locator(".code-frame").getByRole("textbox");
  await text.press("Control+End");
  await page.keyboard.insertText("# one");
  await page.getByRole("button", { name: "Format" }).click();
  await text.press("Control+End");
  await page.keyboard.insertText(" and two");
  const answered = page.waitForResponse("**/api/catalog/format");
  answer();
  await answered;
  await expect(page.getByRole("status").filter({ hasText: "The text was changed meanwhile" })).toBeVisible();
  await expect(text).toContainText("# one and two");
});

test("what is typed while a text is being registered stays, as a draft of the new version", async ({ page, server, ui }) => {
  await server.register(OF_RACES);
  const answer = await hold(page, "**/api/catalog/register");
  await page.goto(`${ui.address}/ui/playbooks/races/hello?view=edit`);
  const text = page.locator(".code-frame").getByRole("textbox");
  await text.press("Control+End");
  await page.keyboard.insertText("# one");
  await page.getByRole("button", { name: "Register" }).click();
  await text.press("Control+End");
  await page.keyboard.insertText(" and two");
  answer();
  await expect(page.getByRole("status").filter({ hasText: "Registered races/hello, version 2" })).toBeVisible();
  await expect(text).toContainText("# one and two");
  await page.reload();
  await expect(text).toContainText("# one and two");
  await page.getByRole("button", { name: "Register" }).click();
  await expect(page.getByRole("status").filter({ hasText: "Registered races/hello, version 3" })).toBeVisible();
});

test("a backfill starts only what was listed for its choices", async ({ page, server, ui }) => {
  await server.register(HELLO);
  await page.goto(`${ui.address}/ui/schedules`);
  await page.getByRole("button", { name: "Backfill demo.hello" }).click();
  await page.getByLabel("From (this browser's zone)").fill("2026-01-01T00:00");
  await page.getByLabel("To", { exact: true }).fill("2026-01-03T00:00");
  await page.getByLabel("Only moments that were missed").uncheck();
  await page.getByRole("button", { name: "Show what would start" }).click();
  await expect(page.getByRole("button", { name: "Start 2" })).toBeEnabled();
  await page.getByLabel("Only moments that were missed").check();
  await expect(page.getByRole("button", { name: "Start 0" })).toBeDisabled();
});

test("a tab without a session goes on when another tab has begun one", async ({ page, server }) => {
  const ui = await startProxy({ dist: DIST, api: server.address, token: server.token, code: "only once" });
  await page.goto(`${ui.address}/ui/executions`);
  await expect(page.getByText("noetl ui", { exact: true })).toBeVisible();
  const other = await page.context().newPage();
  await other.goto(`${ui.address}/ui/enter#${encodeURIComponent("only once")}`);
  await expect(other.getByRole("heading", { name: "Home" })).toBeVisible();
  // Coming back to a tab shows it.
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange", { bubbles: true })));
  await expect(page.getByRole("heading", { name: "Executions" })).toBeVisible();
  ui.close();
});

test("a value that was rendered at one moment is not shown at another", async ({ page, server, ui }) => {
  await server.register(COUNTER);
  const { execution_id } = await server.run("demo/counter");
  await page.goto(`${ui.address}/ui/executions/${execution_id}?view=data&at=end`);
  const box = page.getByRole("region", { name: "Try a template" });
  await box.getByLabel("Template").fill("{{ ctx.n }}");
  await box.getByRole("button", { name: "Render" }).click();
  const value = box.getByRole("group", { name: "rendered value" });
  await expect(value).toHaveText("3");
  await page.getByRole("button", { name: "One fact back" }).click();
  await expect(box).toContainText(/was after fact \d+/);
  await expect(value).toHaveCount(0);
  // What was typed stays.
  await expect(box.getByLabel("Template")).toHaveValue("{{ ctx.n }}");
});

test("a bulk action changes what its dialog has shown, and nothing that fits the filter since then", async ({ page, server, ui }) => {
  await server.register(GATE.replaceAll("demo/gate", "races/gate"));
  const { execution_id: shown } = await server.run("races/gate", {}, 1);
  await page.goto(`${ui.address}/ui/executions?path=races/gate`);
  await page.getByRole("checkbox", { name: `Select ${shown}` }).check();
  await page.getByRole("button", { name: "All that fit the filter" }).click();
  await page.getByRole("button", { name: "Cancel…" }).click();
  const act = page.getByRole("button", { name: "Cancel 1" });
  await expect(act).toBeEnabled();
  const { execution_id: later } = await server.run("races/gate", {}, 1);
  await act.click();
  await server.until(shown, "cancelled");
  expect((await server.ask<{ status: string }>("GET", `/api/executions/${later}/status`)).status).toBe("waiting");
});

test("a result of one execution is not shown beside a step of another", async ({ page, server, ui }) => {
  await server.register(HELLO.replaceAll("demo/hello", "races/child").replace("text: hello", "text: of the child"));
  await server.register(`apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: parent, path: races/parent }
workflow:
  - step: start
    tool: { kind: playbook, path: races/child }
`);
  const { execution_id: parent } = await server.run("races/parent");
  const { steps } = await server.ask<{ steps: { run: number; child_execution_id: string }[] }>("GET", `/api/executions/${parent}/steps`);
  const { run, child_execution_id: child } = steps[0] ?? { run: 0, child_execution_id: "" };
  // Both are read, so that neither page waits for an answer.
  await page.goto(`${ui.address}/ui/executions/${child}?view=timeline&run=${run}`);
  const panel = page.getByRole("region", { name: `Step start, run ${run}` });
  await expect(panel).toBeVisible();
  await page.keyboard.press("g");
  await page.keyboard.press("e");
  await page.getByRole("link", { name: parent }).click();
  await page.getByRole("link", { name: "Timeline" }).click();
  await page.getByRole("button", { name: /^start,/ }).click();
  await page.getByRole("button", { name: "Steps of the child of start" }).click();
  await panel.getByRole("button", { name: "Show the result" }).click();
  await expect(panel.getByRole("group", { name: "result of start" })).toBeVisible();
  await page.getByRole("button", { name: /in sub-execution/ }).click();
  await expect(page).toHaveURL(new RegExp(child));
  await expect(panel).toBeVisible();
  await expect(panel.getByRole("group", { name: "result of start" })).toHaveCount(0);
});

/** Hold requests back until what this gives is called. */
async function hold(page: Page, url: string): Promise<() => void> {
  let release = () => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  await page.route(url, async (route) => {
    await held;
    await route.continue();
  });
  return release;
}
