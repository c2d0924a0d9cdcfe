/** What is very long: names of the greatest length, texts of 10,000 characters, values of a gigabyte. */
import { readFile } from "node:fs/promises";
import { gunzipSync } from "node:zlib";

import type { Page } from "@playwright/test";

import { HELLO } from "./playbooks";
import { expect, test } from "./test";

const LONG = "n".repeat(10_000);
const WORDS = "a long message ".repeat(700);
/** The longest path of the catalog, without a place to break it. */
const PATH = `test/${"p".repeat(507)}`;

const PLAYBOOK = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: ${"m".repeat(200)}, path: ${PATH}, description: ${LONG} }
workload: { ${"w".repeat(255)}: ${LONG} }
workflow:
  - step: start
    desc: ${JSON.stringify(WORDS)}
    tool:
      kind: python
      code: |
        print("${LONG}")
        result = {"n" * 10000: "${LONG}"}
    vars: { kept: "{{ result }}" }
    next: fail
  - step: fail
    tool:
      kind: python
      code: raise ValueError("${LONG}")
`;

/** Visit pages at the width of a telephone: each may scroll in parts of it, never as a whole to the side. */
async function fits(page: Page, address: string, paths: string[]): Promise<void> {
  await page.setViewportSize({ width: 360, height: 900 });
  for (const path of paths) {
    await page.goto(`${address}/ui/${path}`);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    await expect(page.locator(".skeleton"), path).toHaveCount(0);
    const wide = () => page.evaluate(() => (document.scrollingElement?.scrollWidth ?? 0) - document.documentElement.clientWidth);
    await expect.poll(wide, { message: path }).toBeLessThanOrEqual(0);
  }
}

test("names and texts of 10,000 characters break no page", async ({ page, server, ui }) => {
  await server.register(PLAYBOOK);
  const { execution_id } = await server.run(PATH);
  await server.until(execution_id, "failed");
  await fits(page, ui.address, [
    "",
    "executions",
    `executions?path=${PATH}`,
    "playbooks",
    ...["text", "graph", "versions", "edit", "run"].map((view) => `playbooks/${PATH}?view=${view}`),
    `compare?a=${execution_id}&b=${execution_id}`,
    ...["graph", "timeline", "events", "data", "logs", "code", "why", "cost"].map((view) => `executions/${execution_id}?view=${view}&run=2`),
  ]);
});

/** Almost as large as a result may be (`result_bytes` of docs/limits.md), and 1,900 times the inline limit. */
const LARGE_MIB = 60;
const LARGE = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: large, path: test/large }
workflow:
  - step: start
    tool:
      kind: python
      code: |
        line = "x" * (1024 * 1024 - 10)
        result = {"rows": [{"at": at, "line": line} for at in range(${LARGE_MIB})]}
`;

test("a result near the limit of results is offered as a file, whole, and the page reads none of it", async ({ page, server, ui }) => {
  await server.register(LARGE);
  const { execution_id, status } = await server.run("test/large", {}, 55);
  expect(status).toBe("completed");
  let read = 0;
  let bytes = 0;
  page.on("response", (answer) => {
    if (answer.url().includes("/api/downloads/")) read += 1;
    else if (answer.url().includes("/api/executions/")) void answer.body().then((body) => (bytes += body.length), () => undefined);
  });
  await page.goto(`${ui.address}/ui/executions/${execution_id}?view=data`);
  const result = page.getByRole("region", { name: "Result" });
  await expect(result.getByText(/^6\d\.?\d* MB$/)).toBeVisible();
  await expect(result.getByText("the page does not show it")).toBeVisible();
  await expect(result.getByRole("button", { name: "Read it" })).toHaveCount(0);
  // Nor do the other views, the template box of which is the one that could.
  for (const view of ["graph", "events", "timeline", "data"]) {
    await page.goto(`${ui.address}/ui/executions/${execution_id}?view=${view}`);
    await expect(page.getByRole("region", { name: "Summary" })).toBeVisible();
    await expect(page.locator(".skeleton")).toHaveCount(0);
  }
  await page.getByLabel("Template", { exact: true }).fill("{{ start.rows }}");
  await page.getByRole("button", { name: "Render" }).click();
  await expect(page.getByRole("region", { name: "Try a template" })).toContainText("the template takes more than");
  expect(read).toBe(0);
  expect(bytes).toBeLessThan(300_000);

  const link = result.getByRole("link", { name: "Download" });
  const [file] = await Promise.all([page.waitForEvent("download"), link.click()]);
  const content = await readFile(await file.path());
  const text = (content[0] === 0x1f ? gunzipSync(content) : content).toString("utf8");
  const rows = (JSON.parse(text) as { rows: { at: number; line: string }[] }).rows;
  expect([rows.length, rows.at(-1)?.at, rows.at(-1)?.line.length]).toEqual([LARGE_MIB, LARGE_MIB - 1, 1024 * 1024 - 10]);
});

test("a value of a gigabyte is offered as a file and not read", async ({ page, server, ui }) => {
  await server.register(HELLO);
  const { execution_id } = await server.run("demo/hello");
  let read = 0;
  await page.route(/\/api\/downloads\//, (route) => {
    read += 1;
    return route.abort();
  });
  const link = (name: string, size: number) => ({
    ref: `noetl://execution/${execution_id}/result/${name}`,
    url: `${ui.address}/api/downloads/${name}`,
    size,
    sha256: null,
    seconds: 900,
    compression: null,
  });
  await page.route(/\/api\/executions\/\d+\/result/, (route) =>
    route.fulfill({
      json: { execution_id, result: { rows: { ref: "noetl://…" } }, complete: false, downloads: [link("large", 2 ** 30), link("small", 9_000)] },
    }),
  );
  await page.goto(`${ui.address}/ui/executions/${execution_id}?view=data`);
  const result = page.getByRole("region", { name: "Result" });
  await expect(result.getByText("1.1 GB")).toBeVisible();
  await expect(result.getByText("the page does not show it")).toBeVisible();
  await expect(result.getByRole("link", { name: "Download" })).toHaveCount(2);
  await expect(result.getByRole("button", { name: "Read it" })).toHaveCount(1);
  expect(read).toBe(0);
});
