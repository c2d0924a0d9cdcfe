/** Rounds of an execution, and how long it was at work, in its header. */
import { AxeBuilder } from "@axe-core/playwright";

import { FAILING, REFUND } from "./playbooks";
import type { Server } from "./server";
import { expect, test } from "./test";

async function twice(server: Server): Promise<string> {
  await server.register(FAILING);
  const { execution_id: id } = await server.run("sales/orders");
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  await server.ask("POST", `/api/executions/${id}/redrive`, { reason: "the customer is back" });
  await server.ask("GET", `/api/executions/${id}?wait=20`);
  return id;
}

test("rounds are counted, listed, and each opens its moment, by keyboard", async ({ page, server, ui }) => {
  const id = await twice(server);
  await page.goto(`${ui.address}/ui/executions/${id}`);
  const summary = page.getByRole("region", { name: "Summary" });
  const times = summary.locator("dt", { hasText: /^(At work|Start to end)$/ }).locator("xpath=../dd");
  await expect(times).toHaveCount(2);
  const [work = "", all = ""] = await times.allTextContents();
  const seconds = (text: string) => Number(/([\d.]+) (ms|s)/.exec(text)?.[1]) / (text.includes("ms") ? 1_000 : 1);
  expect(seconds(all) - seconds(work)).toBeGreaterThan(1.3);
  const rounds = summary.getByRole("button", { name: "2, redriven once" });
  await rounds.focus();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: "Rounds" });
  const second = dialog.getByRole("row").nth(2);
  await expect(second).toContainText("where it ended: price");
  await expect(second).toContainText("the customer is back");
  for (const [width, colorScheme] of [[1440, "light"], [1440, "dark"], [360, "dark"]] as const) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    const { violations } = await new AxeBuilder({ page }).setLegacyMode(true).withTags(["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"]).analyze();
    expect(violations.map(({ id: rule, nodes }) => `${rule}: ${nodes[0]?.html}`)).toEqual([]);
  }
  await page.keyboard.press("Escape");
  await expect(rounds).toBeFocused();
  await page.keyboard.press("Enter");
  await second.getByRole("link").click();
  await expect(page).toHaveURL(/at=\d+%3A\d+|at=\d+:\d+/);
  await expect(dialog).toHaveCount(0);
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto(`${ui.address}/ui/executions?path=sales/orders`);
  await expect(page.getByRole("columnheader", { name: "At work" })).toBeVisible();
  await expect(page.getByRole("row").filter({ hasText: id }).locator(".list-duration")).toHaveText(work);
});

test("time that a person took is no work", async ({ page, server, ui }) => {
  await server.register(REFUND);
  const { execution_id: id } = await server.run("sales/refund", {}, 1);
  await server.until(id, "waiting");
  await new Promise((resolve) => setTimeout(resolve, 2_000));
  await page.goto(`${ui.address}/ui/executions/${id}`);
  const summary = page.getByRole("region", { name: "Summary" });
  await expect(summary.locator("dt", { hasText: "Since the start" }).locator("xpath=../dd")).toHaveText(/^[2-9].* s$|^\d\d/);
  await expect(summary.locator("dt", { hasText: "At work" }).locator("xpath=../dd")).toHaveText(/ms$|^1(\.\d)? s$/);
});
