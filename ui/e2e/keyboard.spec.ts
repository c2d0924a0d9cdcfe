/** Everything that can be pressed, chosen or typed into on a page is reached by Tab, or by arrow keys from what Tab reaches. */
import type { Page } from "@playwright/test";

import { FAILING, GATE, HELLO, REFUND } from "./playbooks";
import { expect, test } from "./test";

const MOST_TABS = 250;
/** Of these, Tab reaches one, and arrow keys the others (https://www.w3.org/WAI/ARIA/apg/patterns). */
const COMPOSITES = "[role=tablist], [role=radiogroup], [role=menu], [role=listbox], [role=grid], [role=tree], [role=toolbar], .react-flow";

test("every control of every page is reached by keyboard", async ({ page, server, ui }) => {
  for (const playbook of [FAILING, REFUND, HELLO, GATE]) await server.register(playbook);
  const failed = (await server.run("sales/orders")).execution_id;
  const done = (await server.run("demo/hello")).execution_id;
  const asking = (await server.run("sales/refund", {}, 1)).execution_id;
  const paths = [
    ...["", "executions", `executions/${failed}?run=2`, `executions/${failed}?view=timeline`, `executions/${failed}?view=events`],
    ...[`executions/${done}?view=data`, `executions/${failed}?view=logs`, `executions/${failed}?view=code`, `executions/${failed}?at=3`],
    ...[`executions/${failed}?view=cost`, `executions/${failed}?view=why`, `executions/${asking}`, `compare?a=${failed}&b=${done}`],
    ...["", "?view=graph", "?view=versions", "?view=diff", "?view=edit", "?view=relations", "?view=run"].map((view) => `playbooks/sales/orders${view}`),
    ...[`playbooks/sales/orders?view=tests&from=${failed}`, "playbooks", "approvals", "schedules", "credentials", "limits", "workers"],
    ...["dead-letters", "sql", "settings"],
  ];
  for (const path of paths) {
    await test.step(path, async () => {
      await page.goto(`${ui.address}/ui/${path}`);
      await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
      await expect(page.locator(".skeleton")).toHaveCount(0);
      expect.soft(await unreached(page), path).toEqual([]);
    });
  }
});

/** Controls of the page that Tab did not reach, as the beginning of their markup. */
async function unreached(page: Page): Promise<string[]> {
  await page.evaluate((composites) => {
    const controls = "a[href], button, input, select, textarea, summary, [role=button], [role=tab], [role=switch], [contenteditable=true]";
    for (const control of document.querySelectorAll<HTMLElement>(controls)) {
      const usable = control.checkVisibility({ visibilityProperty: true }) && !control.matches(":disabled, [aria-hidden=true] *, [inert] *");
      if (usable && control.closest(composites) === null) control.dataset.unreached = "";
    }
    for (const composite of document.querySelectorAll<HTMLElement>(composites)) {
      if (composite.checkVisibility() && composite.parentElement?.closest(composites) === null) composite.dataset.unreached = "";
    }
    document.addEventListener("focusin", ({ target }) => {
      if (!(target instanceof HTMLElement)) return;
      delete target.dataset.unreached;
      const composite = target.closest<HTMLElement>(`:is(${composites})[data-unreached]`);
      if (composite !== null) delete composite.dataset.unreached;
    });
    (document.activeElement as HTMLElement | null)?.blur();
  }, COMPOSITES);
  for (let tabs = 0; tabs < MOST_TABS; tabs += 1) {
    // The text of an editor takes Tab for itself; Escape gives the next one back to the page.
    if (await page.evaluate(() => document.activeElement?.classList.contains("code-frame"))) await page.keyboard.press("Escape");
    await page.keyboard.press("Tab");
    if ((await page.locator("[data-unreached]").count()) === 0) break;
  }
  return page.locator("[data-unreached]").evaluateAll((left) => left.map((one) => one.outerHTML.slice(0, 160)));
}
