/** Pictures of the pages: of docs/ui.md with `npm run pictures`, and of every page at both widths and themes with NOETL_PICTURES=FOLDER. */
import { fileURLToPath } from "node:url";

import { COUNTER, FAILING, HELLO, REFUND } from "./playbooks";
import { expect, test } from "./test";

const WANTED = process.env.NOETL_PICTURES ?? "";
const DOCS = fileURLToPath(new URL("../../docs/pictures", import.meta.url));

test.skip(WANTED === "", "pictures are taken when NOETL_PICTURES asks for them");
test.describe.configure({ mode: "serial" });

test("pictures", async ({ page, server, ui }) => {
  test.setTimeout(500_000);
  for (const playbook of [FAILING, REFUND, HELLO, COUNTER]) await server.register(playbook);
  const failed = (await server.run("sales/orders")).execution_id;
  const done = (await server.run("demo/hello")).execution_id;
  const asking = (await server.run("sales/refund", {}, 1)).execution_id;
  const counted = (await server.run("demo/counter")).execution_id;
  const other = (await server.run("demo/counter", { count: 5 })).execution_id;
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
  };
  const shown = WANTED === "1" ? ["home", "graph", "time-travel", "compare"] : Object.keys(pages);
  const looks = WANTED === "1" ? ([[1200, "light"]] as const) : ([[1280, "light"], [1280, "dark"], [360, "light"], [360, "dark"]] as const);
  for (const name of shown) {
    await page.goto(`${ui.address}/ui/${pages[name]}`);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    if (name === "tests") {
      await page.getByRole("button", { name: "Run the tests" }).click();
      await expect(page.getByRole("heading", { name: "Coverage" })).toBeVisible();
    }
    for (const [width, colorScheme] of looks) {
      await page.setViewportSize({ width, height: width === 1200 ? 760 : 900 });
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await expect(page.locator(".skeleton")).toHaveCount(0);
      const path = WANTED === "1" ? `${DOCS}/${name}.png` : `${WANTED}/${name}-${width}-${colorScheme}.png`;
      await page.screenshot({ path });
    }
  }
});
