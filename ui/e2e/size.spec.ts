/** Large executions: what a page reads does not grow with the items of a loop, and 500 steps are drawn. */
import type { Page } from "@playwright/test";

import { COUNTER } from "./playbooks";
import { processorTimeOf } from "./processorTime";
import { expect, test } from "./test";

const LOOP = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: loop, path: test/loop }
workload: { count: 10 }
workflow:
  - step: start
    loop: { in: "{{ range(workload.count) | list }}", iterator: n, spec: { mode: parallel, max_in_flight: 1000 } }
    tool: { kind: noop, args: { n: "{{ iter.n }}" } }
`;

const STEPS = 500;
/** Of the page's processor time for them. */
const MOST_MS = 1_000;
const LONG = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: long, path: test/long }
workflow:
${Array.from({ length: STEPS }, (_, at) => {
  const next = at + 1 < STEPS ? `, next: s${at + 1}` : "";
  return `  - { step: ${at === 0 ? "start" : `s${at}`}, tool: { kind: noop, args: { at: ${at} } }${next} }`;
}).join("\n")}
`;

/**
 * The bytes of the API's answers while something is done. What is read a second time, because a first hint of the stream came
 * before the end or after it, counts once.
 */
async function bytesOf(page: Page, act: () => Promise<void>): Promise<number> {
  const sizes = new Map<string, number>();
  const reading: Promise<void>[] = [];
  page.on("response", (answer) => {
    if (!answer.url().includes("/api/") || answer.url().includes("/api/stream")) return;
    reading.push(answer.body().then((body) => void sizes.set(answer.url(), body.length), () => undefined));
  });
  await act();
  await Promise.all(reading);
  page.removeAllListeners("response");
  return [...sizes.values()].reduce((sum, size) => sum + size, 0);
}

const ITEMS = 100_000;

test("a page of 100,000 items reads as much as one of 10, and is there after 1 s of work", async ({ page, server, ui }) => {
  test.setTimeout(600_000);
  await server.register(LOOP);
  const small = await server.run("test/loop", { count: 10 });
  const large = await server.run("test/loop", { count: ITEMS }, 0);
  const status = () => server.ask<{ status: string }>("GET", `/api/executions/${large.execution_id}/status?wait=20`);
  await expect.poll(async () => (await status()).status, { timeout: 500_000 }).toBe("completed");
  const open = (id: string, items: number) => () =>
    page
      .goto(`${ui.address}/ui/executions/${id}`)
      .then(() => expect(page.getByRole("region", { name: "Step runs" })).toContainText(`${items} of ${items} items`))
      .then(() => expect(page.locator(".graph-node")).toHaveCount(1));
  const bytesOfSmall = await bytesOf(page, open(small.execution_id, 10));
  const bytesOfLarge = await bytesOf(page, open(large.execution_id, ITEMS));
  expect(bytesOfLarge).toBeLessThan(bytesOfSmall * 1.2);
  expect(bytesOfLarge).toBeLessThan(300_000);
  const before = await server.processorMs();
  const ofPage = await processorTimeOf(page, open(large.execution_id, ITEMS));
  const work = ofPage + (await server.processorMs()) - before;
  console.log(`${ITEMS} items: ${(bytesOfLarge / 1024).toFixed(0)} kB, ${work.toFixed(0)} ms of the page's and the server's processor time`);
  expect(work).toBeLessThan(MOST_MS);

  const lanes = (id: string) => () =>
    page.goto(`${ui.address}/ui/executions/${id}?view=timeline`).then(() => expect(page.locator(".timeline-column").first()).toBeVisible());
  const bands = await bytesOf(page, lanes(large.execution_id));
  const since = await server.processorMs();
  const drawn = await processorTimeOf(page, lanes(large.execution_id));
  const taken = drawn + (await server.processorMs()) - since;
  console.log(`timeline of ${ITEMS} items: ${(bands / 1024).toFixed(0)} kB, ${taken.toFixed(0)} ms of the page's and the server's processor time`);
  expect(bands).toBeLessThan(300_000);
  expect(taken).toBeLessThan(MOST_MS);
  expect(await page.locator(".timeline-column").count()).toBeLessThanOrEqual(60);
});

test("500 steps are drawn, listed in a table, and read once", async ({ page, server, ui }) => {
  await server.register(LONG);
  const { execution_id, status } = await server.run("test/long", {}, 55);
  expect(status).toBe("completed");
  const open = () =>
    bytesOf(page, async () => {
      await page.goto(`${ui.address}/ui/executions/${execution_id}`);
      await expect(page.getByRole("table").and(page.locator(`[aria-rowcount="${STEPS + 1}"]`))).toBeVisible();
      await expect(page.locator(".graph-node").first()).toBeVisible();
    });
  const bytes = await open();
  const processor = await processorTimeOf(page, open);
  console.log(`500 steps: ${(bytes / 1024).toFixed(0)} kB, ${processor.toFixed(0)} ms of the page's processor time`);
  expect(bytes).toBeLessThan(200_000);
  expect(processor).toBeLessThan(MOST_MS);
  const rows = page.getByRole("region", { name: "Step runs" }).getByRole("row");
  expect(await rows.count()).toBeLessThan(60);
  await page.getByRole("heading", { level: 1 }).focus();
  await page.keyboard.press("End");
  await expect(page.getByRole("button", { name: `s${STEPS - 1}`, exact: true })).toBeVisible();
  expect(await rows.count()).toBeLessThan(60);

  await page.addInitScript(() => {
    const hints: unknown[] = [];
    Object.assign(globalThis, { hints });
    new BroadcastChannel("noetl-live").onmessage = ({ data }) => void hints.push(data);
  });
  const reads: string[] = [];
  page.on("request", (asked) => void reads.push(asked.url()));
  await open();
  const hint = (topic: string) =>
    (globalThis as unknown as { hints: { change?: { topic: string } }[] }).hints.some(({ change }) => change?.topic === topic);
  await page.waitForFunction(hint, `execution:${execution_id}`);
  await page.evaluate(() => fetch("favicon.svg").then((answer) => answer.text()));
  for (const route of ["?lean=true", "/steps", "/graph"]) {
    expect(reads.filter((url) => url.includes(`/api/executions/${execution_id}${route}`)), route).toHaveLength(1);
  }

  await page.getByRole("link", { name: "Timeline" }).click();
  await expect(page.getByRole("button", { name: /^start, done/ })).toBeVisible();
  expect(await page.locator(".timeline-lane").count()).toBeLessThan(60);
});

test("the graph fits its frame again when the window has become narrow", async ({ page, server, ui }) => {
  await server.register(COUNTER);
  const { execution_id } = await server.run("demo/counter");
  await page.goto(`${ui.address}/ui/executions/${execution_id}`);
  await expect(page.locator(".graph-node")).toHaveCount(2);
  await page.setViewportSize({ width: 360, height: 900 });
  const cut = () =>
    page.evaluate(() => {
      const frame = document.querySelector(".graph")?.getBoundingClientRect();
      const nodes = [...document.querySelectorAll(".graph-node")].map((node) => node.getBoundingClientRect());
      return frame && frame.width < 360 && nodes.length === 2
        ? nodes.filter(({ left, right }) => left < frame.left || right > frame.right).length
        : "not drawn";
    });
  await expect.poll(cut).toBe(0);
});
