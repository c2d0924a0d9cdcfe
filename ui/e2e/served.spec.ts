/** The UI as `noetl serve` serves it: its files, its sessions, its stream, without the proxy. */
import { readFile } from "node:fs/promises";

import { FAILING, GATE } from "./playbooks";
import { expect, test } from "./test";

test("sign in with a code, follow a change, act, and be refused without the page's proof", { tag: "@gate" }, async ({ page, server }) => {
  await server.register(GATE);
  const gate = await server.run("demo/gate", {}, 1);
  const { code } = await server.ask<{ code: string }>("POST", "/api/session/codes", { scopes: [] });
  await page.goto(`${server.address}/ui/enter#${code}`);
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
  await expect(page.getByText("Live", { exact: true })).toBeVisible();

  await page.goto(`${server.address}/ui/executions/${gate.execution_id}`);
  await page.getByRole("button", { name: "Change context…" }).click();
  await page.getByLabel("Merge patch (JSON)").fill('{"approved": true}');
  await page.getByRole("button", { name: "Change", exact: true }).click();
  await expect(page.getByRole("region", { name: "Summary" }).getByText("completed")).toBeVisible();

  await page.goto(`${server.address}/ui/executions`);
  await expect(page.getByText("Live", { exact: true })).toBeVisible();
  await server.register(FAILING);
  const failed = await server.run("sales/orders");
  await expect(page.getByRole("row").filter({ hasText: failed.execution_id })).toContainText("failed");

  // The cookie alone is worth nothing: other ports of this host are sent it, too.
  const bare = await page.request.get(`${server.address}/api/executions`);
  expect(bare.status()).toBeGreaterThanOrEqual(401);

  await page.goto(`${server.address}/ui/settings`);
  await page.getByRole("button", { name: "End the session" }).click();
  await expect(page.getByText("noetl ui", { exact: true })).toBeVisible();
});

test("a link of a viewer reads and does not act", async ({ page, server }) => {
  await server.register(GATE);
  const { execution_id } = await server.run("demo/gate", {}, 1);
  const { code } = await server.ask<{ code: string }>("POST", "/api/session/codes", { scopes: ["read"] });
  await page.goto(`${server.address}/ui/enter#${code}`);
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
  await page.goto(`${server.address}/ui/executions/${execution_id}`);
  await expect(page.getByRole("button", { name: "Cancel…" })).toHaveAccessibleDescription("needs the scope execute");
  await page.keyboard.press("Control+k");
  await expect(page.getByRole("combobox")).toBeFocused();
  await page.keyboard.type("cancel");
  await expect(page.getByText("Nothing is named so.")).toBeVisible();
});

test("a token is made, shown once and removed, and the diagnostics are saved", async ({ page, server }) => {
  const { code } = await server.ask<{ code: string }>("POST", "/api/session/codes", { scopes: [] });
  await page.goto(`${server.address}/ui/enter#${code}`);
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
  await page.goto(`${server.address}/ui/settings`);
  const name = `ci-${Date.now()}`;
  const row = page.getByRole("region", { name: "Tokens of this server" }).getByRole("row").filter({ hasText: name });
  await page.getByRole("button", { name: "Make a token…" }).click();
  await page.getByLabel("Name").fill(name);
  await page.getByRole("dialog").getByText("execute").click();
  await page.getByRole("button", { name: "Make", exact: true }).click();
  const token = (await page.getByTestId("token").textContent()) ?? "";
  expect(token).toMatch(/^noetl_/);
  const ask = () => fetch(`${server.address}/api/executions`, { headers: { Authorization: `Bearer ${token}` } });
  expect((await ask()).status).toBe(200);
  await page.getByRole("button", { name: "Close" }).click();
  await expect(page.getByText(token)).toHaveCount(0);
  await expect(row).toContainText("read");
  await expect(row).toContainText("token:");
  await row.getByRole("button", { name: `Remove the token ${name}…` }).click();
  await page.getByRole("button", { name: "Remove", exact: true }).click();
  await expect(row).toHaveCount(0);
  expect((await ask()).status).toBe(401);
  await expect(page.getByText("this session’s")).toHaveCount(1);

  const about = page.getByRole("region", { name: "Server", exact: true });
  await expect(about).toContainText("API");
  const saved = page.waitForEvent("download");
  await about.getByRole("button", { name: "Save diagnostics" }).click();
  const file = await saved;
  expect(file.suggestedFilename()).toMatch(/^noetl-diagnostics-\d{14}\.json$/);
  const found = JSON.parse(await readFile(await file.path(), "utf8")) as { ready: Record<string, string>; machine: { settings: object } };
  expect(found.ready).toEqual({ database: "ok" });
  expect(found.machine.settings).toHaveProperty("io_workers");
});

test("sessions are listed, and another browser's is ended", async ({ page, server }) => {
  const enter = async () => (await server.ask<{ code: string }>("POST", "/api/session/codes", { scopes: [] })).code;
  const other = await fetch(`${server.address}/api/session`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Origin: server.address },
    body: JSON.stringify({ code: await enter() }),
  });
  expect(other.ok).toBe(true);
  await page.goto(`${server.address}/ui/enter#${await enter()}`);
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
  await page.goto(`${server.address}/ui/settings`);
  const rows = page.getByRole("region", { name: "Sessions of this server" }).getByRole("row");
  await expect(rows.filter({ hasText: "this one" })).toHaveCount(1);
  const ending = rows.getByRole("button", { name: /^End session / });
  const before = await ending.count();
  expect(before).toBeGreaterThan(0);
  await ending.first().click();
  await expect(ending).toHaveCount(before - 1);
});
