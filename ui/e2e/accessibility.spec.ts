/** Axe on every page, in both themes, on a telephone and on a desk; no page is wider than its window. */
import { AxeBuilder } from "@axe-core/playwright";

import { FAILING, GATE, HELLO, REFUND } from "./playbooks";
import { expect, test } from "./test";

const PAGES: Record<string, (ids: { failed: string; done: string; asking: string }) => string> = {
  home: () => "",
  executions: () => "executions",
  "executions that no filter fits": () => "executions?path=no/such",
  "executions with every filter": () => "executions?text=demo&principal=token:owner&after=2026-01-01T00:00Z",
  graph: ({ failed }) => `executions/${failed}?run=2`,
  timeline: ({ failed }) => `executions/${failed}?view=timeline`,
  events: ({ failed }) => `executions/${failed}?view=events`,
  data: ({ done }) => `executions/${done}?view=data`,
  logs: ({ failed }) => `executions/${failed}?view=logs`,
  code: ({ failed }) => `executions/${failed}?view=code`,
  "time travel": ({ failed }) => `executions/${failed}?at=3`,
  "data of the past": ({ failed }) => `executions/${failed}?view=data&at=5`,
  cost: ({ failed }) => `executions/${failed}?view=cost`,
  why: ({ failed }) => `executions/${failed}?view=why`,
  "an execution that asks": ({ asking }) => `executions/${asking}`,
  compare: ({ failed, done }) => `compare?a=${failed}&b=${done}`,
  "compare, nothing named": () => "compare",
  "no such execution": () => "executions/1",
  playbooks: () => "playbooks",
  "playbooks of seven days": () => "playbooks?days=7",
  "text of a playbook": () => "playbooks/sales/orders",
  "graph of a playbook": () => "playbooks/sales/orders?view=graph",
  versions: () => "playbooks/sales/orders?view=versions",
  diff: () => "playbooks/sales/orders?view=diff",
  editor: () => "playbooks/sales/orders?view=edit",
  "tests of a playbook": ({ failed }) => `playbooks/sales/orders?view=tests&from=${failed}`,
  "line of a playbook": () => "playbooks/sales/orders?line=6",
  "relations of a playbook": () => "playbooks/demo/hello?view=relations",
  "run form": () => "playbooks/sales/orders?view=run",
  approvals: () => "approvals",
  schedules: () => "schedules",
  "schedules of a playbook": () => "schedules?path=demo/hello",
  "schedules of a playbook without any": () => "schedules?path=sales/orders",
  credentials: () => "credentials",
  limits: () => "limits",
  workers: () => "workers",
  "dead letters": () => "dead-letters",
  sql: () => "sql",
  settings: () => "settings",
};

const TAGS = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"];

// Legacy mode makes no page of its own for the report: there are no frames of other origins here.
/** A theme changes colours alone, and a width everything but them; so the second look of each asks for that. */
const LOOKS = [
  { width: 1440, colorScheme: "light", look: (axe: AxeBuilder) => axe.withTags(TAGS) },
  { width: 1440, colorScheme: "dark", look: (axe: AxeBuilder) => axe.withRules(["color-contrast"]) },
  { width: 360, colorScheme: "dark", look: (axe: AxeBuilder) => axe.withTags(TAGS).disableRules(["color-contrast"]) },
] as const;

const ids = { failed: "", done: "", asking: "" };

test.beforeAll(async ({ server }) => {
  for (const playbook of [FAILING, REFUND, HELLO, GATE]) await server.register(playbook);
  await server.register(`${FAILING}# another version\n`);
  ids.failed = (await server.run("sales/orders")).execution_id;
  ids.done = (await server.run("demo/hello")).execution_id;
  ids.asking = (await server.run("sales/refund", {}, 1)).execution_id;
});

for (const [name, pathOf] of Object.entries(PAGES)) {
  test(`axe: ${name}`, async ({ page, ui }) => {
    await page.goto(`${ui.address}/ui/${pathOf(ids)}`);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    for (const { width, colorScheme, look } of LOOKS) {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await expect(page.locator(".skeleton")).toHaveCount(0);
      const { violations } = await look(new AxeBuilder({ page }).setLegacyMode(true)).analyze();
      const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`);
      expect(found, `${width} px, ${colorScheme}`).toEqual([]);
      const beyond = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      expect(beyond, `pixels beyond ${width}`).toBeLessThanOrEqual(0);
    }
  });
}

test("the menu of an execution: by keyboard, read by name, and the focus returns", async ({ page, ui }) => {
  await page.setViewportSize({ width: 360, height: 900 });
  await page.goto(`${ui.address}/ui/executions/${ids.done}`);
  const more = page.getByRole("button", { name: "More", exact: true });
  await expect(more).toHaveAttribute("aria-haspopup", "true");
  await more.focus();
  await page.keyboard.press("Enter");
  const menu = page.getByRole("menu", { name: "More" });
  await expect(menu.getByRole("menuitem")).toHaveText(["Make a test…", "Compare…", "Copy as…"]);
  await expect(menu.getByRole("menuitem", { name: "Make a test…" })).toBeFocused();
  const { violations } = await new AxeBuilder({ page }).setLegacyMode(true).withTags(TAGS).analyze();
  expect(violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`)).toEqual([]);
  await page.keyboard.press("Escape");
  await expect(menu).toHaveCount(0);
  await expect(more).toBeFocused();
  await page.keyboard.press("Enter");
  await page.keyboard.press("End");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("dialog", { name: "Copy as" })).toContainText(`noetl status ${ids.done}`);
});
