/** Axe on every page, in both themes, on a telephone and on a desk; no page is wider than its window. */
import { AxeBuilder } from "@axe-core/playwright";
import type { Page } from "@playwright/test";

import { FAILING, GATE, HELLO, REFUND } from "./playbooks";
import { startProxy } from "./proxy.mjs";
import { DIST, expect, test } from "./test";

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

interface Look {
  width: number;
  colorScheme: "light" | "dark";
  look: (axe: AxeBuilder) => AxeBuilder;
}

/** A theme changes colours alone, and a width everything but them; so the second look of each asks for that. */
const SPARING: Look[] = [
  { width: 1440, colorScheme: "light", look: (axe: AxeBuilder) => axe.withTags(TAGS) },
  { width: 1440, colorScheme: "dark", look: (axe: AxeBuilder) => axe.withRules(["color-contrast"]) },
  { width: 360, colorScheme: "dark", look: (axe: AxeBuilder) => axe.withTags(TAGS).disableRules(["color-contrast"]) },
];
/** All rules in both themes at both widths take three times as long: `make test-ui` does that. `make test` has a sample, see `SHOWN`. */
const LOOKS =
  process.env.NOETL_UI_LOOKS === "all"
    ? [1440, 360].flatMap((width) =>
        (["light", "dark"] as const).map((colorScheme): Look => ({ width, colorScheme, look: (axe) => axe.withTags(TAGS) })),
      )
    : SPARING;

/** The pages that have the most of their own (tables, a graph, an editor, forms): `make test` looks at these alone. */
const SAMPLE = new Set(["executions", "graph", "timeline", "editor", "run form", "dead letters", "sql"]);
const SHOWN = Object.entries(PAGES).filter(([name]) => process.env.NOETL_UI_LOOKS !== "sample" || SAMPLE.has(name));

/** Else its half a megabyte would be read by the page at each look. */
const IS_THERE = "void axe;";
const VIOLATIONS = { resultTypes: ["violations" as const] };

const ids = { failed: "", done: "", asking: "" };

test.beforeAll(async ({ server }) => {
  for (const playbook of [FAILING, REFUND, HELLO, GATE]) await server.register(playbook);
  await server.register(`${FAILING}# another version\n`);
  ids.failed = (await server.run("sales/orders")).execution_id;
  ids.done = (await server.run("demo/hello")).execution_id;
  ids.asking = (await server.run("sales/refund", {}, 1)).execution_id;
});

test("axe finds nothing on any page, in both themes and at both widths", { tag: "@gate" }, async ({ page, ui }) => {
  await load(page, `${ui.address}/ui/`);
  for (const [name, pathOf] of SHOWN) {
    await test.step(name, async () => {
      await go(page, pathOf(ids));
      await examine(page, name);
    });
  }
});

/** Look at a page in every theme and width; what is found fails the test at its end. */
async function examine(page: Page, name: string): Promise<void> {
  for (const { width, colorScheme, look } of LOOKS) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await expect(page.locator(".skeleton")).toHaveCount(0);
    // Legacy mode makes no page of its own for the report: there are no frames of other origins here.
    const { violations } = await look(new AxeBuilder({ page, axeSource: IS_THERE }).setLegacyMode(true).options(VIOLATIONS)).analyze();
    const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`);
    expect.soft(found, `${name}, ${width} px, ${colorScheme}`).toEqual([]);
    const beyond = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    expect.soft(beyond, `${name}: pixels beyond ${width}`).toBeLessThanOrEqual(0);
  }
}

/** Load the UI and, once for all looks, axe. */
async function load(page: Page, address: string): Promise<void> {
  await page.goto(address);
  await expect(page.locator("body")).not.toBeEmpty();
  await new AxeBuilder({ page }).setLegacyMode(true).withRules(["document-title"]).analyze();
}

/** Show another page as its link would: to load the files anew would be a third of the work of this test. */
async function go(page: Page, path: string): Promise<void> {
  const headline = page.getByRole("heading", { level: 1 });
  // A page between two others makes each of them begin anew.
  const [between, title] = path === "limits" ? ["credentials", "Credentials"] : ["limits", "Limits"];
  for (const to of [between, path]) {
    await page.evaluate((address) => {
      history.pushState(null, "", address);
      dispatchEvent(new PopStateEvent("popstate"));
    }, `/ui/${to}`);
    await (to === between ? expect(headline).toHaveText(title) : expect(headline).not.toHaveText(title));
  }
}

test("nor in dialogs, in the palette, and where nobody is signed in", async ({ page, server, ui }) => {
  await load(page, `${ui.address}/ui/`);
  const dialogs: [path: string, button: string, first?: string][] = [
    [`executions/${ids.failed}`, "Redrive…", "From"],
    [`executions/${ids.asking}`, "Change context…", "Merge patch (JSON)"],
    [`executions/${ids.asking}`, "Cancel…", "Reason"],
    ["playbooks/sales/orders", "Copy as…"],
    ["playbooks", "New playbook…"],
    ["schedules", "Backfill demo.hello", "From (this browser's zone)"],
    ["limits", "Set a limit…", "Key"],
    ["settings", "Make a token…", "Name"],
  ];
  for (const [path, button, first] of dialogs) {
    await page.setViewportSize({ width: 1440, height: 900 });
    await go(page, path);
    await page.getByRole("button", { name: button }).click();
    await expect(page.getByRole("dialog")).toBeVisible();
    if (first) await expect(page.getByRole("dialog").getByLabel(first, { exact: true })).toBeFocused();
    await examine(page, button);
    await page.keyboard.press("Escape");
    await expect(page.getByRole("dialog")).toHaveCount(0);
  }
  for (const key of ["Control+k", "?"]) {
    await page.keyboard.press(key);
    await expect(page.getByRole("dialog")).toBeVisible();
    await examine(page, key);
    await page.keyboard.press("Escape");
    await expect(page.getByRole("dialog")).toHaveCount(0);
  }
  const closed = await startProxy({ dist: DIST, api: server.address, token: server.token, code: "of somebody else" });
  await load(page, `${closed.address}/ui/executions`);
  await expect(page.getByText("noetl ui", { exact: true })).toBeVisible();
  await examine(page, "no session");
  await load(page, `${closed.address}/ui/enter#wrong`);
  await expect(page.getByRole("alert")).toBeVisible();
  await examine(page, "a code that is refused");
  closed.close();
});

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
