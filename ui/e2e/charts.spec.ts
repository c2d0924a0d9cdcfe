/** Charts of SQL rows, sparklines of playbooks, and their relations: what they show, by keyboard, as text, in both themes. */
import { AxeBuilder } from "@axe-core/playwright";
import type { Locator, Page } from "@playwright/test";

import { HELLO, ORDERS } from "./playbooks";
import { expect, test } from "./test";

const TAGS = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"];

const HOURS = `SELECT at, status, n FROM (VALUES
  (timestamptz '2026-11-28 22:00Z', 'completed', 4), ('2026-11-28 22:00Z', 'failed', 1),
  ('2026-11-28 23:00Z', 'completed', 9), ('2026-11-29 00:00Z', 'completed', NULL),
  ('2026-11-29 01:00Z', 'completed', 7), ('2026-11-29 01:00Z', 'failed', 2)) AS t (at, status, n)`;

async function ask(page: Page, query: string): Promise<void> {
  await page.getByRole("textbox", { name: "Query" }).fill(query);
  await page.getByRole("button", { name: "Run" }).click();
}

/** No violation, and nothing wider than the window, in both themes, on a desk and on a telephone. */
async function expectAccessible(page: Page): Promise<void> {
  for (const width of [1440, 360]) {
    for (const colorScheme of ["light", "dark"] as const) {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      const { violations } = await new AxeBuilder({ page }).setLegacyMode(true).withTags(TAGS).analyze();
      expect(violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html.slice(0, 160)}`), `${width} px, ${colorScheme}`).toEqual([]);
      const beyond = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      expect(beyond, `pixels beyond ${width}`).toBeLessThanOrEqual(0);
    }
  }
  await page.setViewportSize({ width: 1440, height: 900 });
}

/** How many pixels of a canvas have a colour. */
function painted(chart: Locator): Promise<number> {
  return chart.locator("canvas").evaluate((canvas: HTMLCanvasElement) => {
    const { data } = canvas.getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height) ?? { data: [] };
    let count = 0;
    for (let at = 3; at < data.length; at += 4) count += (data[at] ?? 0) > 0 ? 1 : 0;
    return count;
  });
}

test("rows are drawn over time: split, read by keyboard, kept in the link", async ({ page, ui }) => {
  await page.addInitScript(() => localStorage.setItem("noetl-zone", "UTC"));
  await page.goto(`${ui.address}/ui/sql`);
  await ask(page, HOURS);
  const rows = page.getByRole("region", { name: "Rows of the query" });
  await expect(rows.getByRole("row")).toHaveCount(7);
  const toggle = page.getByRole("button", { name: "Chart" });
  await toggle.focus();
  await page.keyboard.press("Enter");
  const panel = page.getByRole("region", { name: "Chart" });
  const chart = panel.getByRole("slider", { name: "n along at, by status" });
  await expect(chart).toHaveAttribute("aria-valuetext", "2026-11-29 01:00:00: completed 7, failed 2");
  await expect.poll(() => painted(chart)).toBeGreaterThan(500);
  await chart.focus();
  await page.keyboard.press("ArrowLeft");
  await expect(chart).toHaveAttribute("aria-valuetext", "2026-11-29 00:00:00: completed null, failed –");
  await page.keyboard.press("Home");
  await expect(chart).toHaveAttribute("aria-valuetext", "2026-11-28 22:00:00: completed 4, failed 1");
  await expect(panel.locator(".readout")).toContainText("2026-11-28 22:00:00");
  await chart.scrollIntoViewIfNeeded();
  const { x = 0, y = 0, width = 0, height = 0 } = (await chart.locator(".u-over").boundingBox()) ?? {};
  await page.mouse.move(x + width - 2, y + height / 2);
  await expect(chart).toHaveAttribute("aria-valuetext", /^2026-11-29 01:00:00/);
  await expectAccessible(page);

  await panel.getByLabel("Split by").selectOption("nothing");
  await expect(panel.getByText("2 rows at a place that another row of the series has: the last one is drawn.")).toBeVisible();
  await expect(page).toHaveURL(/view=chart/);
  await expect(page).toHaveURL(/by=-/);
  await page.reload();
  await expect(page.getByRole("region", { name: "Chart" }), "a link runs nothing by itself").toHaveCount(0);
  await page.getByRole("button", { name: "Run" }).click();
  await expect(page.getByRole("slider", { name: "n along at", exact: true })).toBeVisible();
  await expect(rows.getByRole("row"), "the table says the same").toHaveCount(7);
});

test("the theme of a canvas is that of the page", async ({ page, ui }) => {
  await page.emulateMedia({ colorScheme: "light" });
  await page.goto(`${ui.address}/ui/sql?view=chart`);
  await ask(page, HOURS);
  const chart = page.getByRole("slider", { name: /^n along/ });
  const greens = () =>
    chart.locator("canvas").evaluate((canvas: HTMLCanvasElement) => {
      const { data } = canvas.getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height) ?? { data: [] };
      const found = { light: 0, dark: 0 };
      for (let at = 0; at < data.length; at += 4) {
        const colour = [data[at], data[at + 1], data[at + 2]].join();
        if (colour === "23,105,59") found.light++;
        if (colour === "116,211,158") found.dark++;
      }
      return found.light > 20 && found.dark === 0 ? "light" : found.dark > 20 && found.light === 0 ? "dark" : found;
    });
  await expect.poll(greens).toBe("light");
  await page.emulateMedia({ colorScheme: "dark" });
  await expect.poll(greens).toBe("dark");
});

test("categories are bars with their numbers; columns are chosen; huge integers keep their digits", async ({ page, ui }) => {
  await page.goto(`${ui.address}/ui/sql?view=chart`);
  await ask(page, `SELECT * FROM (VALUES ('orders', 18446744073709551617, 3), ('refunds', 'NaN', -2), (NULL, NULL, 0)) AS t (path, huge, small)`);
  const panel = page.getByRole("region", { name: "Chart" });
  const bars = panel.getByRole("list", { name: "huge along path" });
  await expect(bars.getByRole("listitem")).toHaveText(["orders18446744073709551617", "refundsNaN", "nullnull"]);
  await panel.getByRole("checkbox", { name: "small" }).check();
  await expect(panel.getByRole("list", { name: "huge, small along path" }).getByRole("listitem").nth(1)).toHaveText("refundshugeNaNsmall-2");
  await panel.getByRole("checkbox", { name: "huge" }).uncheck();
  await expect(panel.getByRole("list", { name: "small along path" }).getByRole("listitem")).toHaveText(["orders3", "refunds-2", "null0"]);
  await panel.getByRole("checkbox", { name: "small" }).click();
  await expect(panel.getByRole("checkbox", { name: "small" }), "a chart has a value").toBeChecked();
  await expect(page).toHaveURL(/y=small/);
  await expectAccessible(page);
  await page.getByLabel("Name").fill("bars");
  await page.getByRole("button", { name: "Keep" }).click();
  await page.goto(`${ui.address}/ui/sql`);
  await page.getByLabel("Kept queries").selectOption("bars");
  await page.getByRole("button", { name: "Run" }).click();
  await expect(page.getByRole("list", { name: "small along path" }), "a kept query keeps its chart").toBeVisible();
});

test("no rows, no numbers, one row, and ten thousand", async ({ page, ui }) => {
  await page.goto(`${ui.address}/ui/sql?view=chart`);
  const panel = page.getByRole("region", { name: "Chart" });
  await ask(page, "SELECT now() AS at, 1 AS n WHERE false");
  await expect(panel).toContainText("The query has no rows.");
  await ask(page, "SELECT 'text' AS only");
  await expect(panel).toContainText("These rows have no chart.");
  await ask(page, "SELECT now() AS at, NULL::bigint AS n");
  await expect(panel).toContainText("No row has a number in n.");
  await expectAccessible(page);
  await ask(page, "SELECT now() AS at, 5 AS n");
  const chart = panel.getByRole("slider", { name: "n along at" });
  await expect(chart).toHaveAttribute("aria-valuetext", /: n 5$/);
  await expect(chart).toHaveAttribute("aria-valuemax", "1");
  await expect.poll(() => painted(chart)).toBeGreaterThan(500);
  await ask(page, "SELECT n, n * n AS square FROM generate_series(1, 10000) AS n");
  const long = panel.getByRole("slider", { name: "square along n" });
  await expect(long).toHaveAttribute("aria-valuetext", "10000: square 100000000");
  await long.focus();
  for (const key of ["Home", "ArrowRight", "ArrowRight"]) await page.keyboard.press(key);
  await expect(long, "places that are closer than pixels are reached one by one").toHaveAttribute("aria-valuetext", "3: square 9");
  await page.keyboard.press("PageUp");
  await expect(long).toHaveAttribute("aria-valuenow", "1003");
  await expect(page.getByRole("status").filter({ hasText: "10000 rows" })).toContainText("the first 500 are shown");
});

test("an hour of the last day is read on the home page by keys and by pointer", async ({ page, server, ui }) => {
  await server.register(HELLO.replaceAll("demo/hello", "trend/hello"));
  await server.run("trend/hello");
  await page.goto(`${ui.address}/ui/`);
  const day = page.getByRole("region", { name: "Last 24 hours" });
  const trend = day.getByRole("slider", { name: /^Executions that ended, by the hour: \d+ completed/ });
  const text = () => trend.getAttribute("aria-valuetext");
  const latest = await text();
  await trend.focus();
  await page.keyboard.press("Home");
  await expect(trend).toHaveAttribute("aria-valuenow", "1");
  await expect.poll(text).not.toBe(latest);
  await expect(day.locator(".readout")).toContainText("completed0");
  await trend.scrollIntoViewIfNeeded();
  const { x = 0, y = 0, width = 0 } = (await trend.boundingBox()) ?? {};
  await page.mouse.move(x + width - 2, y + 10);
  await expect.poll(text).toBe(latest);
});

const CALLER = (path: string, called: string) => `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: caller, path: ${path} }
workflow:
  - step: start
    tool: { kind: playbook, path: "${called}" }
`;

test("the list of playbooks has their runs and failures in one request", async ({ page, server, ui }) => {
  await server.register(HELLO.replaceAll("demo/hello", "spark/well"));
  await server.register(HELLO.replaceAll("demo/hello", "spark/idle"));
  await server.register(ORDERS("spark/failing", 'raise ValueError("no customer")'));
  for (let at = 0; at < 2; at++) await server.run("spark/well");
  await server.run("spark/failing");
  const asked: unknown[] = [];
  page.on("request", (request) => {
    if (request.url().includes("/api/executions/activity")) asked.push(request.postDataJSON());
  });
  await page.goto(`${ui.address}/ui/playbooks`);
  const line = (path: string) => page.getByRole("listitem").filter({ has: page.getByRole("link", { name: path, exact: true }) }).last();
  await expect(page.getByRole("link", { name: "spark/well, last 24 hours: 2 runs", exact: true })).toBeVisible();
  await expect(page.getByRole("link", { name: "spark/failing, last 24 hours: 1 run, 1 failed", exact: true })).toBeVisible();
  await expect(line("idle")).toContainText("no runs");
  await expect(line("failing").locator(".sparkline-failed")).toHaveCount(1);
  expect(asked).toHaveLength(1);
  expect((asked[0] as { paths: string[] }).paths).toEqual(expect.arrayContaining(["spark/failing", "spark/idle", "spark/well"]));
  await expectAccessible(page);
  await page.getByLabel("Runs of").selectOption("the last 7 days");
  await expect(page).toHaveURL(/days=7/);
  await expect(page.getByRole("link", { name: "spark/well, last 7 days: 2 runs", exact: true })).toBeVisible();
  await page.getByLabel("Path").fill("spark/f");
  await page.getByRole("link", { name: /^spark\/failing, last 7 days/ }).click();
  await expect(page).toHaveURL(/executions\?path=spark%2Ffailing&status=failed/);
});

test("the page of a playbook has its callers, its calls and what starts it, each with a link", async ({ page, server, ui }) => {
  await server.register(HELLO.replaceAll("demo/hello", "related/leaf"));
  await server.register(CALLER("related/fixed", "related/leaf"));
  await server.register(CALLER("related/computed", "related/{{ workload.which }}"));
  await server.register(CALLER("related/lost", "related/nowhere"));
  await server.ask("POST", "/api/triggers", { name: "related-hook", path: "related/leaf", source: { type: "webhook" } });
  await page.goto(`${ui.address}/ui/playbooks/related/leaf`);
  await page.getByRole("link", { name: "Relations" }).click();
  const callers = page.getByRole("region", { name: "Called by" });
  await expect(callers.getByRole("row").nth(1)).toContainText("related/fixedby its path6");
  await expect(callers.getByRole("row").nth(2)).toContainText("related/computedperhaps, as related/{{ workload.which }}6");
  await expect(page.getByRole("region", { name: "Calls", exact: true })).toContainText("It calls no playbook.");
  const starts = page.getByRole("region", { name: "Started by" });
  await expect(starts.getByRole("row").nth(1)).toContainText("related.leaf0 6 * * * Europe/Berlin");
  await expect(starts.getByRole("row").nth(2)).toContainText("related-hookwebhook");
  await expectAccessible(page);
  await starts.getByRole("link", { name: "related.leaf" }).click();
  await expect(page.getByRole("region", { name: "Schedules" }).getByRole("row")).toHaveCount(2);
  await expect(page.getByRole("region", { name: "Triggers" }).getByRole("row")).toHaveCount(2);
  await page.getByRole("link", { name: "related/leaf", exact: true }).first().click();
  await callers.getByRole("link", { name: "Line 6 of related/fixed" }).click();
  await expect(page.locator(".cm-linked-line")).toContainText("kind: playbook");
  await page.getByRole("link", { name: "Relations" }).click();
  await page.getByRole("region", { name: "Calls", exact: true }).getByRole("link", { name: "related/leaf", exact: true }).click();
  await expect(page.getByRole("heading", { name: "related/leaf" })).toBeVisible();
  await page.goto(`${ui.address}/ui/playbooks/related/lost?view=relations`);
  await expect(page.getByRole("region", { name: "Calls", exact: true })).toContainText("related/nowhere not registered");
  await page.goto(`${ui.address}/ui/playbooks/related/computed?view=relations`);
  await expect(page.getByRole("region", { name: "Calls", exact: true })).toContainText("Known when the task runs.");
});
