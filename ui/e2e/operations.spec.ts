/** Pages for operations: what needs attention, filters and views of the list, open questions; and what they show when the API fails. */
import { FAILING, GATE, HELLO, REFUND } from "./playbooks";
import { startProxy } from "./proxy.mjs";
import { DIST, expect, test } from "./test";

const MENDED = FAILING.replaceAll("sales/orders", "ops/orders");

test("home groups failures by code, and a mark leaves only what fails later", async ({ page, server, ui }) => {
  await server.register(MENDED);
  const first = await server.run("ops/orders");
  await server.run("ops/orders");
  await page.goto(`${ui.address}/ui/`);
  const failures = page.getByRole("region", { name: "Failures" });
  const row = failures.getByRole("listitem").filter({ hasText: "ops/orders" });
  await expect(row).toContainText(/^2/);
  await row.getByRole("link", { name: "ops/orders" }).click();
  await expect(page).toHaveURL(/error_code=/);
  await expect(page.getByRole("link", { name: first.execution_id })).toBeVisible();

  await page.goto(`${ui.address}/ui/`);
  await failures.getByRole("button", { name: "Mark as seen" }).click();
  await expect(failures).toContainText("Nothing failed.");
  await page.reload();
  await expect(failures).toContainText("since you marked them as seen");
  await server.run("ops/orders");
  await expect(failures.getByRole("listitem")).toContainText(/^1/);
});

test("the day is shown as bars, and the same as a table", async ({ page, server, ui }) => {
  await server.register(HELLO);
  await server.run("demo/hello");
  await page.goto(`${ui.address}/ui/`);
  const day = page.getByRole("region", { name: "Last 24 hours" });
  await expect(day.getByRole("slider", { name: /by the hour: [\d,]+ completed, / })).toBeVisible();
  await day.getByText("As a table").click();
  await expect(day.getByRole("row").nth(1)).toContainText(/\d+ ?m?s/);
});

test("a filter by text, label and person is kept as a view, and is in the link", async ({ page, server, ui }) => {
  await server.register(HELLO);
  const body = { path: "demo/hello", labels: { team: "Data" } };
  const { execution_id } = await server.ask<{ execution_id: string }>("POST", "/api/executions?wait=20", body);
  await server.run("demo/hello");
  await page.goto(`${ui.address}/ui/executions`);
  await page.getByLabel("Contains").fill("team=data");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("link", { name: execution_id })).toBeVisible();
  await expect(page.getByText("1 execution", { exact: true })).toBeVisible();
  await page.getByRole("button", { name: "More filters" }).click();
  await page.getByLabel("Started by").fill("token:owner");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/text=team.*principal=token/);
  await page.getByRole("button", { name: "Save view…" }).click();
  await page.getByLabel("Name").fill("Data team");
  await page.keyboard.press("Enter");
  await page.getByLabel("View", { exact: true }).selectOption("Running");
  await page.getByLabel("View", { exact: true }).selectOption("Data team");
  await expect(page.getByRole("link", { name: execution_id })).toBeVisible();
  const kept = await server.ask<{ views: { name: string; search: object }[] }>("GET", "/api/views/executions");
  expect(kept.views).toMatchObject([{ name: "Data team", search: { text: "team=data", principal: "token:owner" } }]);
  await page.evaluate(() => localStorage.clear());
  await page.reload();
  await page.getByRole("button", { name: "Delete view" }).click();
  await expect(page.getByLabel("View", { exact: true })).toHaveValue("");
  await page.reload();
  await expect(page.getByRole("button", { name: "Save view…" })).toBeVisible();
});

test("all that fit a filter by text are cancelled, after a dry run", async ({ page, server, ui }) => {
  await server.register(GATE.replaceAll("demo/gate", "ops/gate"));
  const { execution_id } = await server.run("ops/gate", {}, 1);
  await page.goto(`${ui.address}/ui/executions?text=ops/gate`);
  await page.getByLabel(`Select ${execution_id}`).check();
  await page.getByRole("button", { name: "All that fit the filter" }).click();
  await page.getByRole("button", { name: "Cancel…" }).click();
  await page.getByRole("button", { name: "Cancel 1", exact: true }).click();
  const listed = page.getByRole("table", { name: "Executions" }).getByRole("row").filter({ hasText: execution_id });
  await expect(listed).toContainText("cancelled");
});

test("questions of all executions are answered with the keyboard, the oldest first", async ({ page, server, ui }) => {
  await server.register(REFUND.replaceAll("sales/refund", "ops/refund"));
  for (const amount of [1001, 1002]) await server.run("ops/refund", { amount }, 1);
  await page.goto(`${ui.address}/ui/approvals`);
  const cards = page.getByRole("article", { name: /^Refund 100\d EUR/ });
  await expect(cards).toHaveCount(2);
  await expect(cards.first()).toHaveAccessibleName("Refund 1001 EUR?");
  await cards.first().focus();
  await page.keyboard.press("j");
  await expect(cards.last()).toBeFocused();
  await page.keyboard.press("k");
  await cards.first().getByRole("button", { name: "Approve" }).press("Enter");
  await expect(cards).toHaveCount(1);
});

test("a viewer sees which scope is missing, and home without questions", async ({ page, server }) => {
  const viewer = await startProxy({ dist: DIST, api: server.address, token: server.token, scopes: ["read"] });
  await page.goto(`${viewer.address}/ui/approvals`);
  await expect(page.getByText("need the scope execute")).toBeVisible();
  await page.goto(`${viewer.address}/ui/`);
  await expect(page.getByRole("region", { name: "Last 24 hours" })).toBeVisible();
  await expect(page.getByRole("region", { name: "Waiting for an answer" })).toHaveCount(0);
  viewer.close();
});

test("the analysis has a button for what it advises", async ({ page, server, ui }) => {
  await server.register(MENDED);
  const { execution_id } = await server.run("ops/orders");
  await page.goto(`${ui.address}/ui/executions/${execution_id}?view=why`);
  await expect(page.getByRole("region", { name: "Summary" })).toContainText(/Started by\s*token:owner/);
  await page.getByRole("region", { name: "failed_step" }).getByRole("button", { name: "Redrive…" }).click();
  await expect(page.getByRole("dialog", { name: "Redrive the execution" })).toContainText("price runs, items that failed or never ran");
});

test("a schedule says what starts when, and a trigger is fired by hand", async ({ page, server, ui }) => {
  await server.register(HELLO.replaceAll("demo/hello", "ops/daily"));
  await server.register(REFUND.replaceAll("sales/refund", "ops/fired"));
  const trigger = { name: "refunds", path: "ops/fired", source: { type: "webhook" }, payload: { amount: "{{ event.body.amount }}" } };
  await server.ask("POST", "/api/triggers", trigger);
  await page.goto(`${ui.address}/ui/schedules`);
  const starts = page.getByRole("region", { name: "Next starts" });
  await expect(starts.getByRole("heading", { level: 3 })).toHaveCount(7);
  await expect(starts.getByRole("listitem").filter({ hasText: "ops/daily" }).first()).toContainText(/\d\d:00:00/);
  const row = page.getByRole("row").filter({ hasText: "refunds" });
  await expect(row).toContainText("requests to its address");
  await row.getByRole("button", { name: "Fire refunds" }).click();
  const body = page.getByLabel("Body of the event (JSON)");
  await body.fill('{"amount": 1');
  await expect(page.getByRole("button", { name: "Fire", exact: true })).toBeDisabled();
  await body.fill('{"amount": 1003}');
  await page.getByRole("button", { name: "Fire", exact: true }).click();
  await expect(page.getByText("Step start waits for an answer: Refund 1003 EUR?")).toBeVisible();
});

test("a schedule says which moment was skipped last, and why", async ({ page, server, ui }) => {
  await server.register(HELLO.replaceAll("demo/hello", "ops/late"));
  const at = "2026-11-29T05:00:00Z";
  const skips = [
    { cause: "overlap", at, reason: "overlap: execution 7 still runs" },
    { cause: "catch_up", at: "2026-11-28T05:00:00Z", reason: "it was missed: catch_up is once" },
  ];
  const late = { last_at: at, last_error: skips[0]?.reason, skips };
  // A schedule has no moment sooner than in a minute.
  await page.route("**/api/schedules?*", async (route) => {
    const response = await route.fetch();
    const { schedules, ...rest } = (await response.json()) as { schedules: { name: string }[] };
    const changed = schedules.map((one) => (one.name === "ops.late" ? { ...one, ...late } : one));
    await route.fulfill({ response, json: { ...rest, schedules: changed } });
  });
  await page.goto(`${ui.address}/ui/schedules`);
  const row = page.getByRole("region", { name: "Schedules" }).getByRole("row").filter({ hasText: "ops.late" });
  await expect(row.getByRole("cell").filter({ hasText: /^skipped/ })).toContainText("2026-11-29");
  await expect(row.getByRole("listitem")).toHaveText([/2026-11-29.*execution 7 still runs/, /2026-11-28.*catch_up is once/]);
});

test("a page whose server became another version begins again where it was", async ({ page, server, ui }) => {
  await server.register(HELLO);
  const { execution_id } = await server.run("demo/hello");
  await page.goto(`${ui.address}/ui/executions/${execution_id}?view=data`);
  await expect(page.getByRole("region", { name: "Result" })).toBeVisible();
  const gone = "**/assets/EventsTab-*.js";
  await page.route(gone, (route) => route.fulfill({ status: 404 }));
  const again = page.waitForEvent("load").then(() => page.unroute(gone));
  await page.getByRole("link", { name: "Events" }).click();
  await again;
  await expect(page.getByRole("heading", { name: "demo/hello" })).toBeVisible();
  await page.getByRole("link", { name: "Events" }).click();
  await expect(page.getByRole("button", { name: /playbook\.initialized/ })).toBeVisible();
});

const FAULTS = {
  "500": { status: 500, contentType: "application/problem+json", body: '{"code":"internal_error","detail":"it broke","title":"Internal","status":500}' },
  "503": { status: 503, contentType: "text/html", body: "<h1>busy</h1>" },
  nonsense: { status: 200, contentType: "application/json", body: '{"not json' },
} as const;

for (const [name, answer] of Object.entries(FAULTS)) {
  test(`an API that answers ${name} has a state with a way to try again on each page`, async ({ page, server, ui }) => {
    await server.register(HELLO);
    const { execution_id } = await server.run("demo/hello");
    await page.goto(`${ui.address}/ui/`);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    let broken = true;
    await page.route(/\/api\/(?!session|stream)/, (route) => (broken ? route.fulfill(answer) : route.fallback()));
    for (const path of [
      ...["", "executions", "approvals", "limits", "workers", "playbooks", "playbooks/demo/hello", "schedules", "credentials", "dead-letters", "sql"],
      ...["graph", "versions", "diff", "edit", "tests", "relations", "run"].map((view) => `playbooks/demo/hello?view=${view}`),
      ...["", "?view=timeline", "?view=data", "?view=why", "?view=logs", "?view=events", "?view=code", "?view=cost", "?at=3"].map((view) => `executions/${execution_id}${view}`),
      `compare?a=${execution_id}&b=${execution_id}`,
    ]) {
      await page.goto(`${ui.address}/ui/${path}`);
      await expect(page.getByRole("heading", { level: 1 }), path).toBeVisible();
      await expect(page.getByRole("alert").first(), path).toBeVisible();
      await expect(page.locator(".skeleton"), path).toHaveCount(0);
      await expect(page.getByRole("button", { name: "Try again" }).first(), path).toBeVisible();
    }
    await page.goto(`${ui.address}/ui/workers`);
    await page.getByRole("button", { name: "Try again" }).first().waitFor();
    broken = false;
    await page.getByRole("button", { name: "Try again" }).first().click();
    await expect(page.getByRole("region", { name: "Queues" }).first()).toBeVisible();
  });
}
