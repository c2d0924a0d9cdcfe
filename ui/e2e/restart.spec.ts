/** The server dies and comes back: nothing that is shown is wrong, nothing that was typed is lost. */
import { readFile } from "node:fs/promises";

import { GATE, HELLO } from "./playbooks";
import { Server } from "./server";
import { expect, test } from "./test";
import { write } from "./writing";

test("the server is killed and started again: the session, the page and what was typed are there", async ({ page }) => {
  const server = await Server.start();
  await server.register(GATE);
  await server.register(HELLO);
  const { execution_id } = await server.run("demo/gate", {}, 1);
  const { code } = await server.ask<{ code: string }>("POST", "/api/session/codes", { scopes: [] });
  await page.goto(`${server.address}/ui/enter#${code}`);
  await expect(page.getByText("Live", { exact: true })).toBeVisible();
  await page.goto(`${server.address}/ui/executions/${execution_id}`);
  await expect(page.getByText(/Step gate is admitted when/)).toBeVisible();
  const editor = await page.context().newPage();
  await editor.goto(`${server.address}/ui/playbooks/demo/hello?view=edit`);
  const text = editor.locator(".code-frame").getByRole("textbox");
  await write(text, `${HELLO}# a thought`);
  await expect(editor.getByText("A draft is kept in this browser.")).toBeVisible();

  await server.kill();
  await expect(page.getByText("Server unreachable")).toBeVisible();
  await expect(page.getByRole("region", { name: "Summary" })).toContainText("waiting");
  await expect(page.getByRole("button", { name: "Cancel…" })).toHaveAttribute("aria-disabled", "true");
  await text.press("Control+End");
  await editor.keyboard.insertText(", and another");
  await expect(editor.getByRole("button", { name: "Register" })).toHaveAttribute("aria-disabled", "true");

  await server.again();
  await expect(page.getByText("Live", { exact: true })).toBeVisible();
  await server.ask("PATCH", `/api/executions/${execution_id}/ctx`, { patch: { approved: true } });
  await expect(page.getByRole("region", { name: "Summary" }).getByText("completed")).toBeVisible();
  await expect(text).toContainText("# a thought, and another");
  await editor.getByRole("button", { name: "Register" }).click();
  await expect(editor.getByRole("status").filter({ hasText: "Registered demo/hello, version 2" })).toBeVisible();
  await server.stop();
});

test("the database stops: the list says so instead of being empty, and comes back", async ({ page }) => {
  const server = await Server.start();
  await server.register(HELLO);
  const { execution_id } = await server.run("demo/hello");
  const { code } = await server.ask<{ code: string }>("POST", "/api/session/codes", { scopes: [] });
  await page.goto(`${server.address}/ui/enter#${code}`);
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
  await page.goto(`${server.address}/ui/executions`);
  const row = page.getByRole("link", { name: execution_id });
  await expect(row).toBeVisible();
  let empty = 0;
  await page.exposeFunction("reportEmpty", () => void (empty += 1));
  await page.addInitScript(() => {
    const look = () => {
      if (/No execution/.test(document.body?.innerText ?? "")) (globalThis as unknown as { reportEmpty: () => void }).reportEmpty();
    };
    new MutationObserver(look).observe(document, { subtree: true, childList: true });
  });
  const [postmaster] = (await readFile(`${server.home}/postgres/postmaster.pid`, "utf8")).split("\n");
  process.kill(Number(postmaster), "SIGQUIT");
  await page.reload();
  await expect(async () => {
    const again = page.getByRole("button", { name: "Try again" }).first();
    if (await again.isVisible()) await again.click();
    await expect(row).toBeVisible({ timeout: 1_000 });
  }).toPass({ timeout: 60_000 });
  expect(empty).toBe(0);
  await server.stop();
});
