/** Time travel: the pages show an execution at any fact of its history. */
import { readFile } from "node:fs/promises";

import { COUNTER } from "./playbooks";
import { expect, test } from "./test";

interface Past {
  at: number;
  total: number;
  changes: { path: string; after: unknown }[];
}

test("every view shows the moment of the slider, and the end equals what noetl replay compares", { tag: "@gate" }, async ({ page, server, ui }) => {
  await server.register(COUNTER);
  const { execution_id } = await server.run("demo/counter");
  const pastOf = (query: string) => server.ask<Past>("GET", `/api/executions/${execution_id}/state?${query}`);
  const { total } = await pastOf("");
  let second = 0;
  for (let at = 1; at <= total && second === 0; at++) {
    const { changes } = await pastOf(`at=${at}`);
    if (changes.some(({ path, after }) => path === "ctx.n" && after === 2)) second = at;
  }
  const replay = JSON.parse(await server.command("replay", execution_id, "--json")) as { agrees: boolean; differences: unknown[] };
  expect(replay.differences).toEqual([]);

  await page.goto(`${ui.address}/ui/executions/${execution_id}`);
  await page.getByRole("link", { name: "Time travel" }).click();
  const bar = page.getByRole("region", { name: "Time travel" });
  await expect(bar).toContainText(`${total} of ${total}`);
  await bar.getByLabel("Fact", { exact: true }).fill(String(second));
  const changed = bar.getByRole("list", { name: "What this fact changed" });
  await expect(changed).toContainText(/ctx\.n\s*1\s*2/);
  const runs = page.getByRole("region", { name: "Step runs" }).getByRole("row");
  await expect(runs).toHaveCount(3);
  await expect(page.locator(".graph-node", { hasText: "report" }).locator(".graph-node-state")).toHaveCount(0);

  await page.getByRole("link", { name: "Data" }).click();
  await expect(page.getByRole("region", { name: "Context" }).first()).toContainText("2");
  await page.getByRole("textbox", { name: "Template" }).fill("{{ ctx.n * 21 }}");
  await page.getByRole("button", { name: "Render" }).click();
  await expect(page.getByRole("region", { name: "Try a template" })).toContainText("42");

  await bar.getByRole("button", { name: "One fact back" }).click();
  await expect(bar).toContainText(`${second - 1} of ${total}`);
  await page.reload();
  await expect(bar).toContainText(`${second - 1} of ${total}`);
  await bar.getByRole("button", { name: "Back to now" }).click();
  await expect(bar).toHaveCount(0);

  await page.getByRole("link", { name: "Events" }).click();
  await page.getByRole("button", { name: /step\.exit/ }).first().click();
  await page.getByRole("link", { name: "The execution at this moment" }).click();
  await expect(bar).toContainText("step.exit");
  await expect(runs).toHaveCount(2);
});

test("two executions are picked from the list, and the page says where they part", async ({ page, server, ui }) => {
  await server.register(COUNTER.replaceAll("counter", "compared"));
  const a = await server.run("demo/compared", { count: 3 });
  const b = await server.run("demo/compared", { count: 4 });
  await page.goto(`${ui.address}/ui/executions?path=demo/compared`);
  for (const { execution_id } of [b, a]) await page.getByLabel(`Select ${execution_id}`).check();
  await page.getByRole("link", { name: "Compare" }).click();
  await expect(page.getByText("They part at step start, run 3: a went to report, b to start.")).toBeVisible();
  await expect(page.getByRole("region", { name: "Input" })).toContainText(/count\s*3\s*4/);
  const steps = page.getByRole("region", { name: "Step runs side by side" });
  await expect(steps.getByRole("row").filter({ hasText: "start 4" })).toContainText("did not run");
  await page.getByRole("button", { name: "Show all" }).click();
  await expect(steps.getByRole("row")).toHaveCount(6);
  const printed = await server.command("compare", a.execution_id, b.execution_id);
  expect(printed).toContain("first divergence: start, run 3: route");
});

test("history is asked in SQL: rows, a mistake at its place, a kept query, CSV", async ({ page, server, ui }) => {
  await server.register(COUNTER.replaceAll("counter", "asked"));
  const { execution_id } = await server.run("demo/asked", { count: 2 });
  await page.goto(`${ui.address}/ui/sql`);
  const query = page.getByRole("textbox", { name: "Query" });
  await query.fill("SELECT execution_id, statuss FROM executions");
  await page.getByRole("button", { name: "Run" }).click();
  await expect(page.getByText('1:22: column "statuss" does not exist')).toBeVisible();
  await query.fill("SELECT * FROM noetl.credential");
  await query.press("Control+Enter");
  await expect(page.getByText(/permission denied for schema noetl/)).toBeVisible();
  await query.fill("SELECT execution_id, status FROM executions WHERE path = 'demo/asked'");
  await page.getByRole("button", { name: "Run" }).click();
  const rows = page.getByRole("region", { name: "Rows of the query" });
  await expect(rows.getByRole("row").filter({ hasText: "completed" })).toContainText(execution_id);
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save as CSV" }).click()]);
  expect(await readFile(await download.path(), "utf8")).toBe(`execution_id,status\r\n${execution_id},completed\r\n`);
  await page.getByLabel("Name").fill("asked");
  await page.getByRole("button", { name: "Keep" }).click();
  await page.goto(`${ui.address}/ui/sql`);
  await page.getByLabel("Kept queries").selectOption("asked");
  await expect(query).toHaveValue(/demo\/asked/);
  await page.reload();
  await rows.waitFor({ state: "detached" });
});
