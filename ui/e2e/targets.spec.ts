/** How soon things are there, against the real server. A busy machine makes single measures long, so the best of a few rounds counts. */
import { appendFile, readFile } from "node:fs/promises";
import { availableParallelism, loadavg } from "node:os";

import type { Page } from "@playwright/test";

import { COUNTER, HELLO, ORDERS } from "./playbooks";
import { processorTimeOf } from "./processorTime";
import { startProxy } from "./proxy.mjs";
import type { Server } from "./server";
import { DIST, expect, test } from "./test";

const TURNS = 1_700;
const ROUNDS = 3;
/** Executions whose way to the screen is measured, and the time between two starts. */
const CHANGES = 20;
const APART_MS = 170;
/** Work for each processor beside which a clock measures the others more than the page: the whole suite makes about 3. */
const BUSY_LOAD = 5;

/** The least of what a few rounds measure; the first that is below the target is enough. */
async function best(target: number, measure: () => Promise<number>): Promise<number> {
  let least = Infinity;
  for (let round = 0; round < ROUNDS && least >= target; round++) least = Math.min(least, await measure());
  return least;
}

/** Milliseconds of processor time that the page and its server take together. */
async function workOf(page: Page, server: Server, act: () => Promise<unknown>): Promise<number> {
  const before = await server.processorMs();
  const ofPage = await processorTimeOf(page, act);
  return ofPage + (await server.processorMs()) - before;
}

/**
 * The 95th percentile of how long a started execution takes to the screen, from the answer of its start. One starts after the other,
 * whatever is on the screen by then: so they fall anywhere between two polls.
 */
async function untilShown(page: Page, server: Server): Promise<number> {
  const shown: Promise<number>[] = [];
  for (let at = 0; at < CHANGES; at++) {
    const { execution_id } = await server.run("demo/hello", {}, 0);
    const started = performance.now();
    shown.push(page.getByRole("link", { name: execution_id }).waitFor().then(() => performance.now() - started));
    await new Promise((resolve) => setTimeout(resolve, APART_MS));
  }
  const taken = await Promise.all(shown);
  return taken.sort((one, other) => one - other)[Math.ceil(0.95 * CHANGES) - 1] ?? Infinity;
}

test("the list of executions is usable after 700 ms of work", { tag: "@gate" }, async ({ page, server, ui }) => {
  await server.register(HELLO);
  for (let at = 0; at < 100; at++) await server.run("demo/hello", {}, 0);
  const open = async () => {
    await page.goto(`${ui.address}/ui/settings`);
    return workOf(page, server, async () => {
      await page.goto(`${ui.address}/ui/executions`, { waitUntil: "commit" });
      await page.getByLabel(/^Select \d+/).first().waitFor();
    });
  };
  const taken = await best(700, open);
  console.log(`list: ${taken.toFixed(0)} ms`);
  expect(taken).toBeLessThan(700);
});

for (const { stream, most } of [
  { stream: true, most: 1_000 },
  { stream: false, most: 2_000 },
]) {
  test(`95 of 100 changes are on the screen within ${most} ms ${stream ? "by the stream" : "by polling"}`, { tag: "@gate" }, async ({ page, server }) => {
    test.skip((loadavg()[0] ?? 0) > BUSY_LOAD * availableParallelism(), "measures by the clock, and this machine is busy with other work");
    await server.register(HELLO);
    const ui = await startProxy({ dist: DIST, api: server.address, token: server.token, stream });
    await page.goto(`${ui.address}/ui/executions`);
    await expect(page.getByText(stream ? "Live" : "Live, by polling", { exact: true })).toBeVisible();
    const taken = await best(most, () => untilShown(page, server));
    console.log(`change to screen, ${stream ? "stream" : "polling"}: p95 ${taken.toFixed(0)} ms`);
    ui.close();
    expect(taken).toBeLessThan(most);
  });
}

test("the state at a fact of 10,000 takes 150 ms of the server's processor time", { tag: "@gate" }, async ({ server }) => {
  await server.register(COUNTER.replaceAll("counter", "facts"));
  const ids: string[] = [];
  for (let at = 0; at < ROUNDS; at++) ids.push((await server.run("demo/facts", { count: TURNS }, 55)).execution_id);
  // Each is asked once: what the server keeps of one is no help with another.
  let [least, clock] = [Infinity, Infinity];
  for (const id of ids) {
    const before = await server.processorMs();
    const began = performance.now();
    await server.ask("GET", `/api/executions/${id}/state?at=9999`);
    clock = Math.min(clock, performance.now() - began);
    least = Math.min(least, (await server.processorMs()) - before);
  }
  const { total } = await server.ask<{ total: number }>("GET", `/api/executions/${ids[0]}/state`);
  console.log(`state at fact 9,999 of ${total}: ${clock.toFixed(0)} ms, ${least.toFixed(0)} ms of processor time`);
  expect(total).toBeGreaterThanOrEqual(10_000);
  expect(least).toBeLessThanOrEqual(150);
});

test("the first lines of a log of 100 MB are on the screen after 500 ms of work", { tag: "@gate" }, async ({ page, server, ui }) => {
  await server.register(ORDERS("test/printed", "pass"));
  const { execution_id } = await server.run("test/printed");
  const file = `${server.home}/logs/executions/${execution_id}.jsonl`;
  const [line = ""] = (await readFile(file, "utf8")).split("\n");
  const some = `${line}\n`.repeat(Math.ceil(1_000_000 / line.length));
  for (let at = 0; at < 100; at++) await appendFile(file, some);
  await page.goto(`${ui.address}/ui/executions/${execution_id}`);
  let asked = 0;
  page.on("request", (request) => void (asked += request.url().includes("/logs?") ? 1 : 0));
  const open = async () => {
    await page.getByRole("link", { name: "Graph" }).click();
    await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 100)));
    return workOf(page, server, async () => {
      await page.getByRole("link", { name: "Logs" }).click();
      await page.getByText("reading 12 orders").first().waitFor();
    });
  };
  const taken = await best(500, open);
  console.log(`first lines of 100 MB: ${taken.toFixed(0)} ms`);
  expect(asked).toBeGreaterThan(0);
  expect(taken).toBeLessThan(500);
});
