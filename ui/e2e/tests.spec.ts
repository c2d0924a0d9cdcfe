/** Tests of playbooks in the browser: made from an execution, run in virtual time, coverage, mended, green. */
import { COUNTER, ORDERS } from "./playbooks";
import { expect, test } from "./test";
import { write } from "./writing";

test("a failed execution becomes a test; the mended playbook fails it until it expects success", async ({ page, server, ui }) => {
  const failing = ORDERS("tested/orders", 'raise ValueError("order 7 has no customer")');
  await server.register(failing);
  const { execution_id } = await server.run("tested/orders");
  await page.goto(`${ui.address}/ui/executions/${execution_id}`);
  await page.getByRole("button", { name: "More", exact: true }).click();
  await page.getByRole("menuitem", { name: "Make a test…" }).click();
  const tests = page.getByRole("textbox", { name: "Text of the tests" });
  await expect(tests).toContainText(`execution ${execution_id}, failed`);
  await page.getByRole("button", { name: "Run the tests" }).click();
  const results = page.getByRole("region", { name: "Results of the tests" });
  await expect(results).toContainText("1 passed, 0 failed");
  await expect(page.getByRole("region", { name: "Branches that no case reaches" })).toContainText("arc price → report");
  await expect(page.locator(".graph-node", { hasText: "report" })).toContainText("not reached");
  await expect(page.locator(".graph-node", { hasText: "price" })).toContainText("reached");
  await page.getByRole("textbox", { name: "Text of the playbook with coverage" }).press("Control+End");
  await expect(page.locator(".cm-missed-line").last()).toBeVisible();

  await page.getByRole("link", { name: "Edit" }).click();
  await write(page.getByRole("textbox", { name: "Text of the playbook" }), ORDERS("tested/orders", "order = {'id': 7, 'price': 1}"));
  await expect(page.getByText("A draft is kept in this browser.")).toBeVisible();
  await page.getByRole("link", { name: "Tests" }).click();
  await expect(page.getByText("They run against the draft of the editor")).toBeVisible();
  await tests.press("Control+Enter");
  await expect(results).toContainText("0 passed, 1 failed");
  await expect(results).toContainText(/status\s*expected\s*failed\s*got\s*completed/);
  await write(tests, "cases:\n  - name: priced\n    expect:\n      path: [start, price, report]\n      result: { priced: 12 }\n");
  await tests.press("Control+Enter");
  await expect(results).toContainText("1 passed, 0 failed");
  await write(tests, "cases:\n  - name: priced\n    expect: { pathh: [start] }\n");
  await tests.press("Control+Enter");
  await expect(page.getByRole("region", { name: "Problems of the text" })).toContainText("3:15");
});

test("an arc of a step to itself is drawn beside the step", async ({ page, server, ui }) => {
  await server.register(COUNTER.replaceAll("counter", "looped"));
  const { execution_id } = await server.run("demo/looped");
  await page.goto(`${ui.address}/ui/executions/${execution_id}`);
  const arc = page.locator(".react-flow__edge.arc-taken", { hasText: "ctx.n < workload.count" });
  await expect(arc).toBeVisible();
  const node = await page.locator(".graph-node", { hasText: "start" }).boundingBox();
  const loop = await arc.locator(".react-flow__edge-path").boundingBox();
  expect(loop?.x).toBeGreaterThanOrEqual((node?.x ?? 0) + (node?.width ?? 0) - 6);
  expect(loop?.width).toBeGreaterThan(10);
});

test("a template of the code shows its value at the pointer, by key, and at a moment of the past", async ({ page, server, ui }) => {
  await server.register(COUNTER.replaceAll("counter", "hovered"));
  const { execution_id } = await server.run("demo/hovered");
  await page.goto(`${ui.address}/ui/executions/${execution_id}?view=code`);
  const text = page.getByRole("textbox", { name: "Text of demo/hovered" });
  const value = page.locator(".cm-value");
  const template = text.getByText("ctx.n }}", { exact: false }).last();
  // The editor answers a pointer that moves: one that rests where the text appears later asks nothing.
  await expect(async () => {
    await page.mouse.move(0, 0);
    await template.hover();
    await expect(value).toHaveText("3", { timeout: 5_000 });
  }).toPass();
  await page.mouse.move(0, 0);
  await expect(value).toHaveCount(0);
  await text.press("Control+End");
  await text.press("ArrowUp");
  await text.press("Home");
  for (let at = 0; at < 45; at++) await text.press("ArrowRight");
  await text.press("Control+i");
  await expect(value).toHaveText("3");
  await text.press("x");
  await expect(text).not.toContainText("{{x");
  await page.goto(`${ui.address}/ui/executions/${execution_id}?view=code&at=0`);
  await expect(async () => {
    await page.mouse.move(0, 0);
    await template.hover();
    await expect(value).toContainText("n", { timeout: 5_000 });
  }).toPass();
  await expect(value).not.toHaveText("3");
});
