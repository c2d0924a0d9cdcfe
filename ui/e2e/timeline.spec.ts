/** The timeline: what each step run did and waited for, in words as well as in patterns. */
import { AxeBuilder } from "@axe-core/playwright";

import { FAILING, GATE } from "./playbooks";
import { expect, test } from "./test";

const TRIED = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: tried, path: demo/tried }
workflow:
  - step: start
    tool:
      kind: python
      code: |
        raise ValueError("never")
      spec: { policy: { rules: [{ when: "{{ outcome.status == 'error' }}", then: { do: retry, attempts: 2, delay: 1.0 } }, { else: { then: { do: continue } } }] } }
`;

const MANY = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: many, path: demo/many }
workflow:
  - step: start
    loop: { in: "{{ range(150) | list }}", iterator: n, spec: { mode: parallel, policy: { failure: { mode: best_effort } } } }
    tool:
      kind: python
      input: { n: "{{ iter.n }}" }
      code: |
        if n in (99, 120):
            raise ValueError(f"{n} is bad")
        result = {"n": n}
`;

/** Several requests of a filter look through its items. */
const FILTERED = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: filtered, path: demo/filtered }
workflow:
  - step: start
    loop: { in: "{{ range(6000) | list }}", iterator: n, spec: { mode: parallel, max_in_flight: 64, policy: { failure: { mode: best_effort } } } }
    tool: { kind: noop, args: { n: "{{ 1 / (iter.n - 5990) }}" } }
    next: { arcs: [{ step: last }] }
  - step: last
    tool: { kind: noop, args: { n: 1 } }
`;

test("what an execution cost is shown by step", async ({ page, server, ui }) => {
  await server.register(MANY);
  const { execution_id } = await server.run("demo/many");
  await page.goto(`${ui.address}/ui/executions/${execution_id}?view=cost`);
  const row = page.getByRole("region", { name: "Cost by step" }).getByRole("row").nth(1);
  await expect(row.getByRole("cell")).toHaveText(["start", "1", "150", "150", /\d (ms|s)$/, "100 %"]);
  await expect(page.locator(".facts").filter({ hasText: "Calls of tools" })).toContainText("150");
  await page.getByText("Add up sub-executions").click();
  await expect(page.getByRole("region", { name: "Sub-executions" })).toContainText("It has started no other execution.");
});

test("the newest events come first when they are asked for", async ({ page, server, ui }) => {
  await server.register(MANY);
  const { execution_id } = await server.run("demo/many");
  await page.goto(`${ui.address}/ui/executions/${execution_id}?view=events`);
  const first = page.getByRole("region", { name: "Events" }).getByRole("listitem").first();
  await expect(first).toContainText("playbook.initialized");
  await page.getByLabel("Order").selectOption("newest");
  await expect(first).toContainText("playbook.completed");
});

test("a run says how long it ran, and how long it waited to be tried again", async ({ page, server, ui }) => {
  await server.register(TRIED);
  const { execution_id } = await server.run("demo/tried");
  await page.goto(`${ui.address}/ui/executions/${execution_id}?view=timeline`);
  await expect(page.getByRole("button", { name: /^start, failed .*: .*running [^,]+, until a retry .*, running / })).toBeVisible();
  await expect(page.getByRole("list", { name: "Patterns" })).toContainText("until a retry");
  expect(await page.locator('.timeline-bar[data-phase="retrying"]').count()).toBe(1);
});

test("a step that is not admitted waits, and a loop is one band with its counts", async ({ page, server, ui }) => {
  await server.register(GATE);
  await server.register(FAILING);
  const gated = (await server.run("demo/gate", {}, 1)).execution_id;
  const looped = (await server.run("sales/orders")).execution_id;
  await page.goto(`${ui.address}/ui/executions/${gated}?view=timeline`);
  await expect(page.getByRole("button", { name: /^gate, waiting/ }).locator('.timeline-bar[data-phase="admission"]')).toBeVisible();
  await page.goto(`${ui.address}/ui/executions/${looped}?view=timeline`);
  const loop = page.getByRole("button", { name: /^price, failed · \d+\/12 · 1 failed/ });
  await expect(loop.locator(".timeline-bar")).toHaveCount(1);
});

const NAP = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: nap, path: demo/nap }
workflow:
  - step: start
    tool: { kind: noop, args: { n: 1 } }
    next: { spec: { mode: inclusive }, arcs: [{ step: nap }, { step: short }] }
  - step: nap
    tool: { kind: wait, seconds: 6 }
    next: both
  - step: short
    tool: { kind: noop, args: { n: 2 } }
    next: both
  - step: both
    spec: { join: all }
    tool: { kind: noop, args: { n: 3 } }
`;

test("waits say for what, and idle time is collapsed until it is asked for", async ({ page, server, ui }) => {
  await server.register(NAP);
  const { execution_id } = await server.run("demo/nap");
  await page.goto(`${ui.address}/ui/executions/${execution_id}?view=timeline`);
  await expect(page.getByRole("button", { name: /^nap, done .*waiting for a time [\d.]+ s/ })).toBeVisible();
  const both = page.getByRole("button", { name: /^both, done .*waiting at a join [\d.]+ s/ });
  await expect(both.locator('.timeline-bar[data-phase="join"]')).toHaveCount(1);
  await expect(page.getByRole("region", { name: "Step runs" })).toContainText(/waiting at a join [\d.]+ s/);
  const legend = page.getByRole("list", { name: "Patterns" });
  await expect(legend).toContainText("waiting for a time");
  await expect(legend).toContainText("waiting at a join");
  const collapse = page.getByLabel("Collapse idle time");
  await expect(collapse).toBeChecked();
  await expect(page.locator(".timeline-break")).toHaveText(/\/\/ [\d.]+ s/);
  await collapse.focus();
  await page.keyboard.press("Space");
  await expect(page).toHaveURL(/idle=shown/);
  await expect(page.locator(".timeline-gap")).toHaveCount(0);
  await page.reload();
  await expect(collapse).not.toBeChecked();
});

/** How many bars and columns of a lane are below its words; runs inside of the page. */
function hiddenBars(lane: Element): number {
  const words = lane.querySelector(".timeline-word")?.getBoundingClientRect();
  if (!words || words.width < 20) return Infinity;
  const bars = [...lane.querySelectorAll(".timeline-bar, .timeline-column")].map((bar) => bar.getBoundingClientRect());
  return bars.filter(({ left, right }) => left < words.right - 1 && right > words.left + 1).length;
}

test("a loop is drawn by the time at which its items ended, and the table leads to them", async ({ page, server, ui }) => {
  await server.register(MANY);
  const { execution_id } = await server.run("demo/many");
  await page.goto(`${ui.address}/ui/executions/${execution_id}?view=timeline`);
  const lane = page.getByRole("button", { name: /^start, / });
  await expect(lane.locator(".timeline-column").first()).toBeVisible();
  expect(await lane.locator(".timeline-column").count()).toBeLessThanOrEqual(60);
  // Its bar fills the lane, and its words hide none of it.
  for (const width of [360, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    expect(await lane.evaluate(hiddenBars), `${width} px`).toBe(0);
  }
  await lane.click();
  const items = page.getByRole("region", { name: "Items of start" });
  await items.getByRole("button", { name: "Over time" }).press("Enter");
  const rows = items.getByRole("region", { name: "start over time" }).getByRole("row");
  const sum = async (column: number) => {
    const cells = await rows.getByRole("cell").filter({ hasNotText: /from/ }).allTextContents();
    return cells.filter((_, at) => at % 3 === column).reduce((total, text) => total + Number(text), 0);
  };
  await expect(rows.nth(1)).toBeVisible();
  expect([await sum(1), await sum(2)]).toEqual([148, 2]);
  const last = items.getByRole("button", { name: /^from \d+$/ }).last();
  const first = Number(/\d+/.exec((await last.textContent()) ?? "")?.[0]);
  await last.press("Enter");
  await expect(items.getByRole("listitem").first()).toContainText(new RegExp(`^${first}`));
  const { violations } = await new AxeBuilder({ page }).setLegacyMode(true).withTags(["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"]).analyze();
  expect(violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`)).toEqual([]);
});

test("a loop opens to its items: those that failed first, and all of them by pages", async ({ page, server, ui }) => {
  await server.register(MANY);
  const { execution_id } = await server.run("demo/many");
  await page.goto(`${ui.address}/ui/executions/${execution_id}?view=timeline`);
  await page.getByRole("button", { name: /^start, / }).click();
  const items = page.getByRole("region", { name: "Items of start" });
  await expect(items.getByRole("listitem")).toHaveCount(2);
  await expect(items.getByRole("listitem").first()).toContainText(/99.*failed.*99 is bad/);
  await items.getByText("Only those that failed").click();
  await expect(items.getByRole("listitem").first()).toContainText(/0.*done.*"n":0/);
  await expect(items.getByRole("listitem").first()).toHaveAttribute("aria-setsize", "100");
  await items.getByRole("button", { name: "Read on" }).click();
  await expect(items.getByRole("listitem").first()).toHaveAttribute("aria-setsize", "150");
  await expect(items.getByRole("button", { name: "Read on" })).toHaveCount(0);
});

test("events of a long history are filtered by the server, and a link keeps the filter", async ({ page, server, ui }) => {
  await server.register(FILTERED);
  const { execution_id } = await server.run("demo/filtered", {}, 0);
  await server.until(execution_id, "completed");
  await page.goto(`${ui.address}/ui/executions/${execution_id}?view=events`);
  const events = page.getByRole("region", { name: "Events" }).getByRole("listitem");
  const status = page.getByRole("status").filter({ hasText: /event/ });
  await expect(status).toContainText("200 events read");
  // Its only such event is more pages away than were read.
  await page.getByLabel("Type").selectOption("call.error");
  await expect(events).toHaveCount(1);
  await expect(events).toContainText("[5990]");
  await expect(status).toContainText("1 event fits in the whole history");
  await page.getByLabel("Step").selectOption("last");
  await expect(page.getByText("No event fits the filter.")).toBeVisible();
  await page.getByLabel("Type").selectOption("step.exit");
  await expect(events).toContainText("step.exit");
  await page.getByLabel("Order").selectOption("newest");
  await expect(page).toHaveURL(/type=step\.exit&step=last&order=newest/);
  await page.reload();
  await expect(events).toHaveCount(1);
  await expect(page.getByLabel("Type")).toHaveValue("step.exit");
  // Items of that many rows are looked at in several requests, without a press.
  await page.goto(`${ui.address}/ui/executions/${execution_id}?view=events&type=retry.scheduled&step=start`);
  await expect(status).toContainText("0 events fit in the whole history");
  await page.goto(`${ui.address}/ui/executions/${execution_id}?view=events&type=step.fail`);
  await expect(page.getByText("did you mean 'step.failed'")).toBeVisible();
});
