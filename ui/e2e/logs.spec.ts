/** What tasks have printed: the server searches all of it, and the end is shown without the rest. */
import { appendFile, readFile } from "node:fs/promises";

import { AxeBuilder } from "@axe-core/playwright";

import { expect, test } from "./test";

const PRINTS = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: prints, path: demo/prints }
workflow:
  - step: start
    tool: { kind: python, code: 'print("first of all")' }
    next: { arcs: [{ step: tries }] }
  - step: tries
    tool:
      kind: python
      code: |
        print("trying")
        raise ValueError("never")
      spec: { policy: { rules: [{ when: "{{ outcome.status == 'error' }}", then: { do: retry, attempts: 2, delay: 0.1 } }, { else: { then: { do: continue } } }] } }
    next: { arcs: [{ step: last }] }
  - step: last
    tool: { kind: python, code: 'print("the last word")' }
`;

/** The last line comes after three seconds, and no event with it. */
const SLOW = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: slow, path: demo/slow }
workflow:
  - step: start
    tool:
      kind: python
      code: |
        import time
        print("begins")
        time.sleep(4)
        print("goes on")
        time.sleep(4)
        print("ends")
`;

test("a log is searched on the server, from either end", async ({ page, server, ui }) => {
  await server.register(PRINTS);
  const { execution_id } = await server.run("demo/prints");
  const file = `${server.home}/logs/executions/${execution_id}.jsonl`;
  const printed = await readFile(file, "utf8");
  const [first = ""] = printed.split("\n");
  for (let at = 0; at < 25; at++) await appendFile(file, `${first.replace("first of all", "filler")}\n`.repeat(10_000));
  await appendFile(file, `${first.replace("first of all", "Needle 100%")}\n`);
  const lines = page.getByRole("region", { name: "Lines" }).getByRole("listitem");
  const status = page.getByRole("status").filter({ hasText: /lines?\b/ });

  await page.goto(`${ui.address}/ui/executions/${execution_id}?view=logs`);
  await expect(lines.first()).toContainText("first of all");
  await expect(status).toHaveText("1000 lines read");
  await page.getByRole("searchbox", { name: "Search" }).fill("needle 100%");
  await page.getByRole("searchbox", { name: "Search" }).press("Enter");
  await expect(lines).toHaveCount(1);
  await expect(lines.first()).toContainText("Needle 100%");
  await expect(status).toHaveText("1 line that fit, all so far");
  await expect(page).toHaveURL(/search=needle\+100%25/);

  await page.getByRole("searchbox", { name: "Search" }).fill("");
  await page.getByRole("searchbox", { name: "Search" }).press("Enter");
  await page.getByLabel("Show").selectOption("newest");
  await expect(lines.first()).toContainText("Needle 100%");
  await page.getByLabel("Show").selectOption("end");
  await expect(status).toHaveText("The last 1000 lines");
  await expect(lines.last()).toContainText("Needle 100%");

  await page.getByLabel("Show").selectOption("start");
  await page.getByLabel("Attempt").fill("2");
  await page.getByLabel("Attempt").press("Enter");
  await expect(lines).toHaveCount(1);
  await expect(lines.first()).toContainText("trying");
  await page.getByLabel("Step").selectOption("last");
  await expect(page.getByText("No line fits the filter.")).toBeVisible();
});

const LEVELS = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: levels, path: demo/levels }
workflow:
  - step: start
    tool:
      kind: python
      code: |
        import logging
        logging.basicConfig(level=logging.DEBUG, force=True)
        print("plain")
        logging.info("connected")
        logging.warning("slow")
        print("Error: no customer")
        logging.critical("it ends")
`;

test("lines say their level with icon and word, and are filtered by it", async ({ page, server, ui }) => {
  await server.register(LEVELS);
  const { execution_id } = await server.run("demo/levels");
  await page.goto(`${ui.address}/ui/executions/${execution_id}?view=logs`);
  const lines = page.getByRole("region", { name: "Lines" }).getByRole("listitem");
  await expect(lines.locator(".log-level")).toHaveText(["info", "warning", "error", "critical"]);
  await expect(lines.locator(".log-level svg")).toHaveCount(4);
  await page.getByLabel("Level").selectOption("warning");
  await expect(lines).toHaveText([/slow/, /no customer/, /it ends/]);
  await expect(page).toHaveURL(/level=warning/);
  for (const [width, colorScheme] of [[1440, "light"], [1440, "dark"], [360, "dark"]] as const) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    const { violations } = await new AxeBuilder({ page }).setLegacyMode(true).withTags(["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"]).analyze();
    expect(violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`)).toEqual([]);
  }
  await page.reload();
  await page.getByLabel("Level").selectOption("critical");
  await expect(lines).toHaveText([/it ends/]);
});

test("the end of a log is followed, also between two events", async ({ page, server, ui }) => {
  await server.register(SLOW);
  const { execution_id } = await server.run("demo/slow", {}, 0);
  await page.goto(`${ui.address}/ui/executions/${execution_id}?view=logs&show=end`);
  const lines = page.getByRole("region", { name: "Lines" }).getByRole("listitem");
  await expect(lines.last()).toContainText("ends");
  await expect(lines).toHaveCount(3);
  await expect(page.getByText("The last 3 lines", { exact: true })).toBeVisible();
});

test("a step run leads to what it has printed", async ({ page, server, ui }) => {
  await server.register(PRINTS);
  const { execution_id } = await server.run("demo/prints");
  await page.goto(`${ui.address}/ui/executions/${execution_id}?view=timeline&run=2`);
  await page.getByRole("link", { name: "What it has printed" }).click();
  const lines = page.getByRole("region", { name: "Lines" }).getByRole("listitem");
  await expect(lines).toHaveText([/tries.*trying/, /tries.*trying/]);
  await page.getByRole("button", { name: "Remove the filter by step run 2" }).click();
  await expect(page).not.toHaveURL(/ofRun/);
});
