/** What people do with the UI, against a real server. */
import { readFile } from "node:fs/promises";

import { FAILING, GATE, HELLO, ORDERS, REFUND } from "./playbooks";
import { startProxy } from "./proxy.mjs";
import { DIST, expect, test } from "./test";
import { write } from "./writing";

/** The text of a draft in the browser's database; runs inside of the page. */
function keptDraft(name: string): Promise<string> {
  return new Promise((resolve) => {
    const opened = indexedDB.open("noetl-drafts", 1);
    opened.onsuccess = () => {
      const database = opened.result;
      if (!database.objectStoreNames.contains("drafts")) return resolve("");
      const asked = database.transaction("drafts").objectStore("drafts").get(name) as IDBRequest<{ text: string } | undefined>;
      asked.onsuccess = () => {
        database.close();
        resolve(asked.result?.text ?? "");
      };
    };
    opened.onupgradeneeded = () => opened.result.createObjectStore("drafts");
  });
}

test("fail, read the error at its line, mend the text, redrive with the new version, green", { tag: "@gate" }, async ({ page, server, ui }) => {
  await server.register(ORDERS("mend/orders", 'raise ValueError("order 7 has no customer")'));
  const { execution_id } = await server.run("mend/orders");
  await page.goto(`${ui.address}/ui/executions?status=failed&path=mend/orders`);
  await page.getByRole("link", { name: execution_id }).click();
  await expect(page.getByText("Step price failed: ValueError: order 7 has no customer")).toBeVisible();
  await expect(page.getByRole("button", { name: /^price/ }).first()).toContainText(/failed · \d+\/12 · 1 failed/);
  await expect(page.getByRole("button", { name: /^price/ }).first()).toHaveAttribute("title", /failed · \d+\/12 · 1 failed · [\d.]+ m?s/);
  // With the mouse: a step of the graph opens beside it.
  await page.locator(".graph-node", { hasText: "price" }).click();
  await expect(page.getByRole("region", { name: "Step price, run 2" })).toContainText("order 7 has no customer");
  await page.getByRole("link", { name: /^line \d+, column \d+$/ }).click();
  await expect(page.locator(".code-frame .cm-failed-line")).toHaveText(/raise ValueError/);

  await page.getByRole("link", { name: "mend/orders@1" }).click();
  await page.getByRole("link", { name: "Edit" }).click();
  const text = page.locator(".code-frame").getByRole("textbox");
  await write(text, ORDERS("mend/orders", "broken ["));
  const problems = page.getByRole("region", { name: "Problems of the text" });
  await expect(problems).toContainText("error");
  await expect(page.locator(".code-frame .cm-lintRange-error").first()).toBeVisible();
  await write(text, ORDERS("mend/orders", "order = {'id': 7, 'price': 1}"));
  await expect(problems).toHaveCount(0);
  await page.getByRole("button", { name: "Format" }).click();
  await expect(text).toContainText("metadata:");
  await page.getByRole("button", { name: "Register" }).click();
  await expect(page.getByRole("status").filter({ hasText: "Registered mend/orders, version 2" })).toBeVisible();

  await page.goto(`${ui.address}/ui/executions/${execution_id}`);
  await page.getByRole("button", { name: "Redrive…" }).click();
  await page.getByLabel("Version of the playbook").selectOption("2");
  await page.getByLabel("Reason").fill("mended");
  await expect(page.getByRole("region", { name: "What runs again" }).getByRole("listitem")).toHaveText([
    "price runs, items that failed or never ran",
  ]);
  await expect(page.getByRole("region", { name: "What runs again" })).toContainText("Then, as the conditions decide: report.");
  await page.getByRole("button", { name: "Redrive", exact: true }).click();
  await expect(page.getByRole("region", { name: "Summary" }).getByText("completed")).toBeVisible();
  await expect(page.getByRole("link", { name: "mend/orders@2" })).toBeVisible();
});

test("approve what an execution waits for, from the list of approvals", { tag: "@gate" }, async ({ page, server, ui }) => {
  await server.register(REFUND);
  const { execution_id } = await server.run("sales/refund", { amount: 4711 }, 1);
  await page.goto(`${ui.address}/ui/approvals`);
  const card = page.getByRole("article", { name: "Refund 4711 EUR?" });
  await card.getByLabel("Comment").fill("fine");
  await card.getByRole("button", { name: "Approve" }).click();
  await expect(card).toHaveCount(0);
  const { status } = await server.ask<{ status: string }>("GET", `/api/executions/${execution_id}/status?wait=50`);
  expect(status).toBe("completed");
  const { result } = await server.ask<{ result: unknown }>("GET", `/api/executions/${execution_id}/result`);
  expect(result).toEqual({ paid: 4711 });
});

test("the palette has the actions of the page, and a dialog takes what is typed at once", async ({ page, server, ui }) => {
  await server.register(GATE);
  const { execution_id } = await server.run("demo/gate", {}, 1);
  await page.goto(`${ui.address}/ui/executions/${execution_id}`);
  await expect(page.getByRole("button", { name: "Cancel…" })).toBeVisible();
  await page.keyboard.press("Control+k");
  await expect(page.getByRole("combobox")).toBeFocused();
  await page.keyboard.type("cancel");
  await expect(page.getByRole("option")).toHaveText(["Cancel…this execution"]);
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: "Cancel the execution" });
  await expect(dialog.getByLabel("Reason")).toBeFocused();
  await page.keyboard.type("not needed");
  await expect(dialog.getByLabel("Reason")).toHaveValue("not needed");
  await expect(dialog.getByText("Cancel its children too")).toHaveCount(0);
  for (const key of ["Tab", "Tab", "Enter"]) await page.keyboard.press(key);
  await server.until(execution_id, "cancelled");
  await page.goto(`${ui.address}/ui/playbooks/demo/gate`);
  await expect(page.getByRole("link", { name: "Run…" })).toBeVisible();
  await page.keyboard.press("Control+k");
  await expect(page.getByRole("combobox")).toBeFocused();
  await page.keyboard.type("run…");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("button", { name: /Run version/ })).toBeVisible();
});

test("cancel many: the server says first what would happen", async ({ page, server, ui }) => {
  await server.register(GATE);
  const started = await Promise.all([1, 2, 3].map(() => server.run("demo/gate", {}, 1)));
  await page.goto(`${ui.address}/ui/executions?path=demo/gate`);
  for (const { execution_id } of started.slice(0, 2)) await page.getByLabel(`Select ${execution_id}`).check();
  await page.getByRole("button", { name: "Cancel…" }).click();
  await expect(page.getByRole("dialog").getByText("will be changed")).toHaveCount(2);
  await page.getByLabel("Reason").fill("not needed");
  await page.getByRole("button", { name: "Cancel 2" }).click();
  const ends = ["cancelled", "cancelled", "waiting"];
  for (const [at, { execution_id }] of started.entries()) {
    await expect(page.locator(".list-row").filter({ hasText: execution_id })).toContainText(ends[at] ?? "");
  }
});

test("a context is changed, and the gate that waits for it opens", async ({ page, server, ui }) => {
  const order = "{ id: 7, price: 18446744073709551617 }";
  await server.register(GATE.replace("    next: gate", `    set: { ctx.order: ${order} }\n    next: { arcs: [{ step: gate }] }`));
  const { execution_id } = await server.run("demo/gate", {}, 1);
  await page.goto(`${ui.address}/ui/executions/${execution_id}`);
  await expect(page.getByText(/Step gate is admitted when/)).toBeVisible();
  await page.getByRole("button", { name: "Change context…" }).click();
  await page.getByLabel("Merge patch (JSON)").fill('{"approved": tru');
  await expect(page.getByRole("button", { name: "Change", exact: true })).toBeDisabled();
  await page.getByLabel("Merge patch (JSON)").fill('{"approved": true, "order": {"price": 18446744073709551616}}');
  const dialog = page.getByRole("dialog", { name: "Change the context" });
  await expect(dialog.getByRole("region", { name: "The context now" })).toContainText(/order.*\{2\}/);
  await expect(dialog.getByRole("list", { name: "Changes of the context" }).getByRole("listitem")).toHaveText([
    "approvedtrue",
    "order.price1844674407370955161718446744073709551616",
  ]);
  await page.getByRole("button", { name: "Change", exact: true }).click();
  await expect(page.getByRole("region", { name: "Summary" }).getByText("completed")).toBeVisible();
});

test("integers of 20 and 30 digits from a playbook to the screen, to copied JSON, and back into a new run", async ({ page, context, server, ui }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const longer = "123456789012345678901234567891";
  const digits = HELLO.replace("{ huge:", `{ longer: ${longer}, huge:`).replace("args: {", 'args: { longer: "{{ workload.longer }}",');
  await server.register(digits.replaceAll("demo/hello", "demo/digits"));
  const { execution_id } = await server.run("demo/digits");
  await page.goto(`${ui.address}/ui/executions/${execution_id}?view=data`);
  const result = page.getByRole("region", { name: "Result" });
  await expect(result).toContainText("18446744073709551617");
  await expect(result).toContainText(longer);
  await result.getByRole("button", { name: "Copy result as JSON" }).click();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  expect(copied).toContain('"huge": 18446744073709551617');
  expect(copied).toContain(`"longer": ${longer}`);
  await page.getByRole("link", { name: "Run again…" }).click();
  await expect(page.getByLabel("huge")).toHaveValue("18446744073709551617");
  await page.getByLabel("huge").fill("18446744073709551619");
  await expect(page.getByLabel("longer")).toHaveValue(longer);
  await page.getByLabel("longer").fill("-999999999999999999999999999999");
  await page.getByRole("button", { name: "Run version 1" }).click();
  await page.getByRole("link", { name: "Data" }).click();
  await expect(page.getByRole("region", { name: "Result" })).toContainText("18446744073709551619");
  await expect(page.getByRole("region", { name: "Result" })).toContainText("-999999999999999999999999999999");
});

test("a backfill lists its moments first", async ({ page, server, ui }) => {
  await server.register(HELLO);
  await page.goto(`${ui.address}/ui/schedules`);
  await page.getByRole("button", { name: "Backfill demo.hello" }).click();
  const [from, to] = [page.getByLabel("From (this browser's zone)"), page.getByLabel("To", { exact: true })];
  const [first, second] = await Promise.all([from, to].map((field) => field.boundingBox()));
  expect((first?.x ?? 0) + (first?.width ?? 0), "the fields do not lie on each other").toBeLessThanOrEqual(second?.x ?? 0);
  await from.fill("2026-01-01T00:00");
  await to.fill("2026-01-03T00:00");
  await page.getByLabel("Only moments that were missed").uncheck();
  await page.getByRole("button", { name: "Show what would start" }).click();
  await expect(page.getByText("will be started")).toHaveCount(2);
  await page.getByRole("button", { name: "Start 2" }).click();
  await expect(page.getByText("2 executions were started.")).toBeVisible();
  await expect(page.getByRole("dialog").getByRole("row").getByRole("link")).toHaveCount(2);
  await page.getByRole("link", { name: "Executions of demo.hello" }).click();
  await expect(page).toHaveURL(/principal=demo\.hello/);
  await expect(page.getByRole("table", { name: "Executions" }).locator("[data-row]")).toHaveCount(2);
});

test("a question says of which moment of a schedule it is", async ({ page, server, ui }) => {
  // Home shows the questions that have waited longest: those of other tests would be before this one.
  await server.ask("POST", "/api/executions/cancel", { filter: { status: "running" }, limit: 1000 });
  await server.register(REFUND.replace("path: sales/refund", 'path: daily/refund, schedule: { cron: "0 6 * * *", timezone: UTC }'));
  const range = { from: "2026-01-02T00:00:00Z", to: "2026-01-03T00:00:00Z" };
  const { moments } = await server.ask<{ moments: { execution_id: string }[] }>("POST", "/api/schedules/daily.refund/backfill", range);
  await server.until(moments[0]?.execution_id ?? "", "waiting");
  for (const place of ["approvals", ""]) {
    await page.goto(`${ui.address}/ui/${place}`);
    await expect(page.getByText(/daily\.refund of \S/)).toBeVisible();
  }
});

test("a viewer reads everything, and actions name the scope that they need", async ({ page, server }) => {
  await server.register(HELLO);
  const { execution_id } = await server.run("demo/hello");
  const viewer = await startProxy({ dist: DIST, api: server.address, token: server.token, scopes: ["read"] });
  await page.goto(`${viewer.address}/ui/executions/${execution_id}`);
  const redrive = page.getByRole("button", { name: "Redrive…" });
  await expect(redrive).toHaveAttribute("aria-disabled", "true");
  await expect(redrive).toHaveAccessibleDescription("needs the scope execute");
  await redrive.click({ force: true });
  await expect(page.getByRole("dialog")).toHaveCount(0);
  viewer.close();
});

test("all by keyboard: palette, list, selection, execution", async ({ page, server, ui }) => {
  await server.register(HELLO);
  await server.run("demo/hello");
  await server.run("demo/hello");
  await page.goto(`${ui.address}/ui/`);
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
  await page.keyboard.press("Control+k");
  await expect(page.getByRole("combobox")).toBeFocused();
  await page.keyboard.type("executions");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: "Executions", level: 1 })).toBeVisible();
  await expect(page.getByLabel(/^Select \d+/).nth(1)).toBeVisible();
  // As fast as they can be typed: all three in one turn of the page, which draws nothing between them.
  await page.evaluate(() => {
    for (const key of "jjx") document.activeElement?.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  });
  await expect(page.getByText("1 selected")).toBeVisible();
  await expect(page.locator(".list-row[data-selected]")).toHaveAttribute("aria-rowindex", "3");
  await page.keyboard.press("k");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("region", { name: "Summary" })).toBeVisible();
  await page.keyboard.press("?");
  await expect(page.getByRole("dialog", { name: "Keys" })).toBeVisible();
  await page.keyboard.press("Escape");
  await page.keyboard.press("g");
  await page.keyboard.press("p");
  await expect(page.getByRole("heading", { name: "Playbooks" })).toBeVisible();
});

test("arrow keys walk the graph, and a step that never ran says so", async ({ page, server, ui }) => {
  await server.register(FAILING.replaceAll("sales/orders", "walk/orders"));
  const { execution_id } = await server.run("walk/orders");
  await page.goto(`${ui.address}/ui/executions/${execution_id}`);
  const step = (name: string) => page.locator(".graph-node").filter({ hasText: name });
  await step("start").focus();
  for (const [key, name] of [["ArrowDown", "price"], ["ArrowDown", "report"], ["ArrowUp", "price"], ["ArrowDown", "report"]] as const) {
    await page.keyboard.press(key);
    await expect(step(name)).toBeFocused();
  }
  await page.keyboard.press("Enter");
  await expect(page.getByText("Step report never ran in this execution.")).toBeVisible();
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("region", { name: "Step price, run 2" })).toBeVisible();
  await expect(page.getByText("never ran")).toHaveCount(0);
});

test("a draft survives a reload, and can be dropped", async ({ page, server, ui }) => {
  await server.register(REFUND);
  await page.goto(`${ui.address}/ui/playbooks/sales/refund?view=edit`);
  const text = page.locator(".code-frame").getByRole("textbox");
  await write(text, `${REFUND}# a thought`);
  await expect(page.getByText("A draft is kept in this browser.")).toBeVisible();
  await expect.poll(() => page.evaluate(keptDraft, "sales/refund")).toContain("# a thought");
  await page.reload();
  await expect(text).toContainText("# a thought");
  await page.getByRole("button", { name: "Drop the draft" }).click();
  await expect(text).not.toContainText("# a thought");
});

test("two tabs edit one playbook: neither text is lost, and the second is asked before it registers", async ({ page, context, server, ui }) => {
  const text = HELLO.replaceAll("demo/hello", "demo/shared");
  await server.register(text);
  const edit = `${ui.address}/ui/playbooks/demo/shared?view=edit`;
  const second = await context.newPage();
  const [one, other] = [page, second].map((tab) => tab.locator(".code-frame").getByRole("textbox"));
  if (!one || !other) throw new Error("two tabs are open");
  await page.goto(edit);
  await write(one, `${text}# of one`);
  await second.goto(edit);
  await write(other, `${text}# of the other`);
  await expect(second.getByText("A draft is kept in this browser.")).toBeVisible();
  await page.getByRole("button", { name: "Register" }).click();
  await expect(page.getByRole("status").filter({ hasText: "Registered demo/shared, version 2" })).toBeVisible();

  await second.getByRole("button", { name: "Register" }).click();
  await expect(second.getByText(/began with version 1; the latest is now 2/)).toBeVisible();
  await expect(other).toContainText("# of the other");
  await second.getByRole("link", { name: "What changed" }).click();
  await expect(second.getByText("# of one")).toBeVisible();
  await second.goBack();
  await expect(other).toContainText("# of the other");
  await second.getByRole("button", { name: "Register" }).click();
  await second.getByRole("button", { name: "Register all the same" }).click();
  await expect(second.getByRole("status").filter({ hasText: "Registered demo/shared, version 3" })).toBeVisible();
  const { content } = await server.ask<{ content: string }>("GET", "/api/catalog/demo/shared");
  expect(content).toContain("# of the other");
});

test("the first load of the executions list is at most 200 kB compressed", { tag: "@gate" }, async () => {
  const { gzipSync } = await import("node:zlib");
  interface Chunk {
    file: string;
    imports?: string[];
    css?: string[];
  }
  const manifest = JSON.parse(await readFile(`${DIST}/.vite/manifest.json`, "utf8")) as Record<string, Chunk>;
  const files = new Set<string>(["index.html", "favicon.svg", "pressable.css"]);
  const add = (name: string) => {
    const chunk = manifest[name];
    if (!chunk || files.has(chunk.file)) return;
    files.add(chunk.file);
    for (const css of chunk.css ?? []) files.add(css);
    for (const imported of chunk.imports ?? []) add(imported);
  };
  add("index.html");
  add("src/features/executions/ExecutionsPage.tsx");
  let size = 0;
  for (const file of files) size += gzipSync(await readFile(`${DIST}/${file}`)).length;
  expect(files.size).toBeGreaterThan(5);
  expect(size).toBeLessThanOrEqual(200 * 1024);
  console.log(`first load: ${files.size} files, ${(size / 1024).toFixed(1)} kB`);
});
