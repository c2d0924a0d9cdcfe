/** Pictures of the pages: of docs/ui.md with `npm run pictures`, and of every page at both widths and themes with NOETL_PICTURES=FOLDER. */
import { fileURLToPath } from "node:url";

import { COUNTER, FAILING, HELLO, REFUND } from "./playbooks";
import type { Server } from "./server";
import { expect, test } from "./test";

const WANTED = process.env.NOETL_PICTURES ?? "";
const DOCS = fileURLToPath(new URL("../../docs/pictures", import.meta.url));

const NESTED = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: order, path: sales/order }
workflow:
  - { step: start, tool: { kind: noop, args: { region: eu } }, next: prices }
  - { step: prices, tool: { kind: playbook, path: sales/orders, payload: { count: 3 } } }
`;

/** What else pages show: names that are kept, limits, triggers, tokens, several versions. */
async function seed(server: Server): Promise<void> {
  await server.register(`${FAILING}# the first version\n`);
  await server.register(FAILING);
  await server.register(NESTED);
  await server.ask("POST", "/api/credentials", { name: "warehouse", type: "postgres", data: { db_host: "db" }, description: "Orders and stock" });
  await server.ask("PUT", "/api/limits/warehouse", { concurrent: 4, rate: 10, per: 60 });
  await server.ask("POST", "/api/triggers", { name: "refunds", path: "sales/refund", source: { type: "webhook" }, payload: { amount: "{{ event.body.amount }}" } });
  await server.ask("POST", "/api/tokens", { name: "ci", scopes: ["read", "execute"] });
}

test.skip(WANTED === "", "pictures are taken when NOETL_PICTURES asks for them");
test.describe.configure({ mode: "serial" });

test("pictures", async ({ page, server, ui }) => {
  test.setTimeout(500_000);
  for (const playbook of [FAILING, REFUND, HELLO, COUNTER]) await server.register(playbook);
  await seed(server);
  const failed = (await server.run("sales/orders")).execution_id;
  const done = (await server.run("demo/hello")).execution_id;
  const asking = (await server.run("sales/refund", {}, 1)).execution_id;
  const counted = (await server.run("demo/counter")).execution_id;
  const other = (await server.run("demo/counter", { count: 5 })).execution_id;
  const nested = (await server.run("sales/order")).execution_id;
  const { executions } = await server.ask<{ executions: { execution_id: string }[] }>("GET", `/api/executions?parent=${nested}`);
  const child = executions[0]?.execution_id;
  const pages: Record<string, string> = {
    home: "",
    executions: "executions",
    filters: "executions?principal=token:owner&after=2026-01-01T00:00Z",
    graph: `executions/${failed}?run=2`,
    timeline: `executions/${failed}?view=timeline`,
    events: `executions/${failed}?view=events`,
    data: `executions/${done}?view=data`,
    logs: `executions/${failed}?view=logs`,
    code: `executions/${failed}?view=code`,
    nested: `executions/${nested}?view=timeline&open=${child}`,
    "nested-graph": `executions/${nested}?run=2&open=${child}`,
    cost: `executions/${failed}?view=cost`,
    why: `executions/${failed}?view=why`,
    "time-travel": `executions/${counted}?at=12`,
    "time-travel-data": `executions/${counted}?view=data&at=9`,
    compare: `compare?a=${counted}&b=${other}`,
    asking: `executions/${asking}`,
    playbooks: "playbooks",
    playbook: "playbooks/sales/orders",
    "playbook-graph": "playbooks/sales/orders?view=graph",
    versions: "playbooks/sales/orders?view=versions",
    missing: "executions/1",
    unmatched: "executions?path=no/such",
    "nothing-to-compare": "compare",
    editor: "playbooks/sales/orders?view=edit",
    tests: `playbooks/sales/orders?view=tests&from=${failed}`,
    counted: `executions/${counted}`,
    run: "playbooks/sales/orders?view=run",
    relations: "playbooks/sales/orders?view=relations",
    approvals: "approvals",
    schedules: "schedules",
    credentials: "credentials",
    limits: "limits",
    workers: "workers",
    letters: "dead-letters",
    sql: "sql",
    settings: "settings",
    "settings-end": "settings",
  };
  /** Pages that show more to a session: of the server itself, without the proxy, which needs none. */
  const ofSession = new Set(["settings", "settings-end"]);
  const { code } = await server.ask<{ code: string }>("POST", "/api/session/codes", { scopes: [] });
  await page.goto(`${server.address}/ui/enter#${code}`);
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
  const shown = WANTED === "1" ? ["home", "graph", "time-travel", "compare"] : Object.keys(pages);
  const looks = WANTED === "1" ? ([[1200, "light"]] as const) : ([[1280, "light"], [1280, "dark"], [360, "light"], [360, "dark"]] as const);
  for (const name of shown) {
    await page.goto(`${ofSession.has(name) ? server.address : ui.address}/ui/${pages[name]}`);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    if (name === "tests") {
      await page.getByRole("button", { name: "Run the tests" }).click();
      await expect(page.getByRole("heading", { name: "Coverage" })).toBeVisible();
    }
    for (const [width, colorScheme] of looks) {
      await page.setViewportSize({ width, height: width === 1200 ? 760 : 900 });
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await expect(page.locator(".skeleton")).toHaveCount(0);
      if (name === "settings-end") await page.getByRole("region", { name: "Sessions of this server" }).scrollIntoViewIfNeeded();
      const path = WANTED === "1" ? `${DOCS}/${name}.png` : `${WANTED}/${name}-${width}-${colorScheme}.png`;
      await page.screenshot({ path });
    }
  }
});
