/** Sub-executions within the page of the execution that started them. */
import { AxeBuilder } from "@axe-core/playwright";

import { expect, test } from "./test";

const CHILD = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: priced, path: nested/priced }
workflow:
  - step: look
    tool: { kind: noop, args: { price: 3 } }
    next: total
  - step: total
    tool: { kind: python, code: "result = {'total': 3}" }
`;
const PARENT = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: order, path: nested/order }
workflow:
  - step: start
    tool: { kind: noop, args: { n: 1 } }
    next: price
  - step: price
    tool: { kind: playbook, path: nested/priced }
`;
const TAGS = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"];

test("the steps of a sub-execution are lanes below its step, and its graph is beside the step", async ({ page, server, ui }) => {
  await server.register(CHILD);
  await server.register(PARENT);
  const { execution_id } = await server.run("nested/order");
  await page.goto(`${ui.address}/ui/executions/${execution_id}?view=timeline`);
  const lanes = page.locator(".timeline-lane");
  await expect(lanes).toHaveCount(2);
  const toggle = page.getByRole("button", { name: "Steps of the child of price" });
  await toggle.focus();
  await page.keyboard.press("Enter");
  await expect(lanes).toHaveText([/^start/, /^price/, /^look/, /^total/]);
  await expect(toggle).toHaveAttribute("aria-expanded", "true");
  await expect(page).toHaveURL(/open=\d+/);
  for (const [width, colorScheme] of [[1440, "light"], [360, "dark"]] as const) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    const { violations } = await new AxeBuilder({ page }).setLegacyMode(true).withTags(TAGS).analyze();
    expect(violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`)).toEqual([]);
  }
  await page.setViewportSize({ width: 1440, height: 900 });

  await page.reload();
  await expect(lanes).toHaveCount(4);
  await page.getByRole("link", { name: "Graph", exact: true }).click();
  // What is called leads to the step that calls it.
  await page.locator(".graph-node", { hasText: "nested/priced" }).click();
  const panel = page.getByRole("region", { name: "Step price, run 2" });
  const inside = panel.getByRole("group", { name: "Graph of the steps" });
  await expect(inside.locator(".graph-node")).toHaveCount(2);
  await panel.getByRole("button", { name: "Graph of the child" }).click();
  await expect(inside).toHaveCount(0);
  await panel.getByRole("button", { name: "Graph of the child" }).click();
  await inside.getByRole("button", { name: /^total/ }).click();
  await expect(page.getByRole("heading", { name: "nested/priced", level: 1 })).toBeVisible();
  await expect(page.getByRole("region", { name: "Step total, run 2" })).toBeVisible();

  // Steps of the child as they are now would be wrong at a moment of the past.
  await page.goto(`${ui.address}/ui/executions/${execution_id}?view=timeline&at=6`);
  await expect(lanes.first()).toBeVisible();
  await expect(toggle).toHaveCount(0);
});
