/** Dead letters: a server without queues says so; where there are some, they are chosen, shown in a dry run, and sent back. */
import { AxeBuilder } from "@axe-core/playwright";
import type { Page } from "@playwright/test";

import { expect, test } from "./test";

const TAGS = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"];

const LETTER = {
  id: "events:5fe0",
  queue: "events",
  reason: "the engine laid it aside: <b>no such value</b>",
  next: "mend the cause, then `noetl dead-letters retry`",
  laid_aside: true,
  kind: "command",
  executions: ["382358247895465985"],
  step: "pay",
  run: 3,
  command_id: "3.1",
  sent_at: "2026-11-21T06:00:00Z",
  age: 90,
  deliveries: 2,
};
const OTHER = { ...LETTER, id: "timers:7ab1", queue: "timers", reason: "its queue moved it there", laid_aside: false, kind: "timer", step: "", run: null, command_id: "" };

/** A deployment's answers, which a server on one machine cannot give; returns what was asked of it. */
async function deploymentOf(page: Page): Promise<{ asked: unknown[] }> {
  let letters = [LETTER, OTHER];
  const asked: unknown[] = [];
  await page.route(/\/api\/dead-letters/, async (route) => {
    if (route.request().method() === "GET") {
      const queues = ["events", "timers"].map((queue) => {
        const read = letters.filter((one) => one.queue === queue).length;
        return { queue, count: queue === "events" && read > 0 ? 23 : read, read };
      });
      await route.fulfill({ json: { queues, letters, lost: [], about: "Letters wait for an operator.", next: null } });
      return;
    }
    const wish = route.request().postDataJSON() as { ids?: string[]; all?: boolean; dry_run?: boolean };
    asked.push(wish);
    const meant = letters.filter(({ id }) => wish.all || wish.ids?.includes(id)).map(({ id }) => id);
    const left = letters.length - meant.length;
    if (!wish.dry_run) letters = letters.filter(({ id }) => !meant.includes(id));
    await route.fulfill({ json: { action: "retry", dry_run: wish.dry_run ?? false, status: "complete", ids: meant, missing: [], unsent: [], left, about: "" } });
  });
  return { asked };
}

test("a server without queues says so, and is reached from the page of queues", async ({ page, ui }) => {
  await page.goto(`${ui.address}/ui/workers`);
  await page.getByRole("link", { name: "Dead letters" }).first().click();
  await expect(page.getByRole("heading", { level: 1, name: "Dead letters" })).toBeVisible();
  await expect(page.getByText("This server has no queue, so it has no dead letters.")).toBeVisible();
  await expect(page.getByRole("button", { name: "Send back…" })).toHaveCount(0);
});

test("a chosen letter is sent back with the keyboard after a dry run", async ({ page, ui }) => {
  const { asked } = await deploymentOf(page);
  await page.goto(`${ui.address}/ui/dead-letters`);
  await expect(page.getByText("Only 1 of 23 in events could be read.")).toBeVisible();
  const rows = page.getByRole("region", { name: "Dead letters", exact: true }).getByRole("row");
  await expect(rows).toHaveCount(3);
  await expect(rows.nth(1)).toContainText("the engine laid it aside: <b>no such value</b>");
  for (const [width, colorScheme] of [[1440, "light"], [1440, "dark"], [360, "dark"]] as const) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    const { violations } = await new AxeBuilder({ page }).setLegacyMode(true).withTags(TAGS).analyze();
    expect(violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`), `${width} px, ${colorScheme}`).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
  }
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.getByLabel("Select events:5fe0").focus();
  await page.keyboard.press("Space");
  await page.getByRole("button", { name: "Send back…" }).press("Enter");
  const dialog = page.getByRole("dialog");
  await expect(dialog).toContainText("1 letter will be sent back to the queue that it came from. 1 letter stays.");
  expect(asked).toEqual([{ ids: ["events:5fe0"], dry_run: true }]);
  await dialog.getByRole("button", { name: "Send back 1" }).press("Enter");
  await expect(page.getByText("1 letter sent back, 1 left.")).toBeVisible();
  await expect(rows).toHaveCount(2);
  expect(asked[1]).toEqual({ ids: ["events:5fe0"] });
});

test("a queue that does not answer has a state, and what was refused is said in the dialog", async ({ page, ui }) => {
  const away = { status: 503, contentType: "application/problem+json", body: '{"code":"aws_unreachable","detail":"sqs does not answer","title":"Unavailable","status":503}' };
  await page.route(/\/api\/dead-letters/, (route) => route.fulfill(away));
  await page.goto(`${ui.address}/ui/dead-letters`);
  await expect(page.getByRole("alert")).toContainText("sqs does not answer");
  await page.unroute(/\/api\/dead-letters/);
  await deploymentOf(page);
  await page.getByRole("button", { name: "Try again" }).click();
  await expect(page.getByLabel("Select timers:7ab1")).toBeVisible();
  await page.route(/\/api\/dead-letters\/delete/, (route) => route.fulfill(away));
  await page.getByRole("button", { name: "Delete…" }).click();
  await expect(page.getByRole("dialog").getByRole("alert")).toContainText("sqs does not answer");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);
});
