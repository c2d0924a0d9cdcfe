/** What changes on the server appears by itself; what needs a server waits for it. */
import { GATE, HELLO } from "./playbooks";
import { startProxy } from "./proxy.mjs";
import { DIST, expect, test } from "./test";

for (const stream of [true, false]) {
  test(`a change appears ${stream ? "by the stream" : "behind a proxy that buffers streams"}`, async ({ page, server }) => {
    await server.register(GATE);
    await server.register(HELLO);
    const { execution_id } = await server.run("demo/gate", {}, 1);
    const ui = await startProxy({ dist: DIST, api: server.address, token: server.token, stream });
    await page.goto(`${ui.address}/ui/executions?status=waiting`);
    await expect(page.getByText(stream ? "Live" : "Live, by polling", { exact: true })).toBeVisible();
    const row = page.getByRole("row").filter({ hasText: execution_id });
    await expect(row).toBeVisible();
    await server.ask("POST", `/api/executions/${execution_id}/cancel`, {});
    await expect(row.getByText("waiting")).toHaveCount(0);
    await page.goto(`${ui.address}/ui/executions`);
    const started = await server.run("demo/hello");
    await expect(page.getByRole("link", { name: started.execution_id })).toBeVisible();
    ui.close();
  });
}

test("while the server is unreachable data stays and actions wait; then both return", async ({ page, server }) => {
  await server.register(GATE);
  const { execution_id } = await server.run("demo/gate", {}, 1);
  const ui = await startProxy({ dist: DIST, api: server.address, token: server.token });
  await page.goto(`${ui.address}/ui/executions/${execution_id}`);
  const cancel = page.getByRole("button", { name: "Cancel…" });
  await expect(page.getByText("Live", { exact: true })).toBeVisible();
  await expect(cancel).toBeEnabled();
  await page.route("**/api/**", (route) => route.abort());
  ui.close();
  await expect(page.getByText("Server unreachable")).toBeVisible();
  await expect(cancel).toHaveAttribute("aria-disabled", "true");
  await expect(page.getByText(/Step gate is admitted when/)).toBeVisible();
  await page.unroute("**/api/**");
  const again = await startProxy({ dist: DIST, api: server.address, token: server.token, port: ui.port });
  await expect(page.getByText("Live", { exact: true })).toBeVisible({ timeout: 30_000 });
  await expect(cancel).not.toHaveAttribute("aria-disabled", "true");
  again.close();
});

test("10,000 executions: at most 60 rows are in the document", async ({ page, ui }) => {
  const rows = Array.from({ length: 10_000 }, (_, at) => ({
    execution_id: String(400_000_000_000_000_000n - BigInt(at)),
    path: `load/playbook_${at % 7}`,
    name: "load",
    status: "completed",
    started_at: new Date((1_795_545_397 - at) * 1000).toISOString(),
    ended_at: new Date((1_795_545_398 - at) * 1000).toISOString(),
    duration_ms: 1000,
    parent_execution_id: null,
  }));
  await page.route(/\/api\/executions\?/, (route) => {
    const query = new URL(route.request().url()).searchParams;
    const from = Number(query.get("after") ?? 0);
    // As long as a server may make its pages: the document is to stay small whatever has been read.
    const next = from + 1_000;
    return route.fulfill({ json: { executions: rows.slice(from, next), next: next < rows.length ? String(next) : null } });
  });
  await page.goto(`${ui.address}/ui/executions`);
  await expect(page.getByRole("row")).not.toHaveCount(0);
  await expect(async () => {
    await page.keyboard.press("End");
    await expect(page.getByText(/^10000 executions$/)).toBeVisible({ timeout: 1 });
  }).toPass({ intervals: [20], timeout: 150_000 });
  await page.keyboard.press("End");
  await expect(page.getByRole("link", { name: rows.at(-1)?.execution_id })).toBeVisible();
  expect(await page.getByRole("row").count()).toBeLessThanOrEqual(60);
  await page.keyboard.press("Home");
  await expect(page.getByRole("link", { name: rows[0]?.execution_id })).toBeVisible();
});
