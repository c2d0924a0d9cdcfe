/** Text that playbooks print is shown as text, wherever it comes out. */
import type { Page } from "@playwright/test";

import type { Server } from "./server";
import { expect, test } from "./test";

const CORPUS = [
  `<img src=x onerror="document.title='owned'">`,
  `<script>document.title='owned'</script>`,
  `"><svg onload=alert(1)>`,
  `javascript:alert(1)`,
  `</textarea><iframe src="javascript:alert(1)">`,
  `{{constructor.constructor('alert(1)')()}}`,
  `\u202Egnp.exe`,
  `[a](javascript:alert(1))`,
];

const text = JSON.stringify(CORPUS.join(" "));

const HOSTILE = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: hostile, path: test/hostile, description: ${JSON.stringify(CORPUS[0])} }
workload: { said: ${JSON.stringify(CORPUS.slice(0, 5).join(" "))} }
workflow:
  - step: start
    desc: ${JSON.stringify(CORPUS[1])}
    tool:
      kind: python
      args: { said: "{{ workload.said }}" }
      code: |
        print(${text.replaceAll("{{", "{ {")})
        result = {"said": said, ${JSON.stringify(CORPUS[0])}: said}
    vars: { said: "{{ result.said }}" }
    next: ask
  - step: ask
    tool: { kind: wait, approve: true, message: "{{ workload.said }}" }
    next: fail
  - step: fail
    tool:
      kind: python
      args: { said: "{{ workload.said }}" }
      code: raise ValueError(said)
`;

interface Made {
  asking: string;
  failing: string;
}

/** One execution that waits for an approval, and one that was approved and failed. */
async function make(server: Server): Promise<Made> {
  await server.register(HOSTILE);
  const asking = await server.run("test/hostile", {}, 0);
  const failing = await server.run("test/hostile", {}, 0);
  for (const { execution_id } of [asking, failing]) await server.until(execution_id, "waiting");
  const { callbacks } = await server.ask<{ callbacks: { token: string }[] }>(
    "GET",
    `/api/executions/${failing.execution_id}/callbacks`,
  );
  await server.ask("POST", `/api/callbacks/${callbacks[0]?.token}`, { approved: true, comment: CORPUS.join(" ") });
  await server.until(failing.execution_id, "failed");
  return { asking: asking.execution_id, failing: failing.execution_id };
}

async function visit(page: Page, address: string, paths: string[]): Promise<void> {
  for (const path of paths) {
    await page.goto(`${address}/ui/${path}`);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    await expect(page.locator(".skeleton")).toHaveCount(0);
    expect(await page.locator("img[src=x], iframe, svg[onload], script:not([src]), a[href^='javascript']").count(), path).toBe(0);
    expect(await page.title(), path).not.toBe("owned");
  }
}

test("no text of a playbook becomes a part of the page", { tag: "@gate" }, async ({ page, server, ui }) => {
  const { asking, failing } = await make(server);
  await visit(page, ui.address, [
    "",
    "approvals",
    "playbooks/test/hostile?view=graph",
    `executions/${asking}`,
    ...["data", "why", "logs"].map((view) => `executions/${failing}?view=${view}&run=3`),
    `playbooks/${encodeURIComponent(CORPUS[0] ?? "")}`,
  ]);
  await page.goto(`${ui.address}/ui/executions/${failing}?view=logs`);
  await expect(page.getByRole("list").getByText(CORPUS[0] ?? "")).toBeVisible();
});

test("nor does it on the pages that are left", async ({ page, server, ui }) => {
  const { asking, failing } = await make(server);
  await server.ask("POST", "/api/schedules", { path: "test/hostile", cron: "0 6 * * *", payload: { said: CORPUS.join(" ") } });
  await visit(page, ui.address, [
    "executions",
    "playbooks",
    "schedules",
    ...["edit", "run", "tests", "versions", "relations"].map((view) => `playbooks/test/hostile?view=${view}`),
    ...["graph", "timeline", "events", "code", "cost"].map((view) => `executions/${failing}?view=${view}&run=3`),
    ...["graph", "data"].map((view) => `executions/${failing}?view=${view}&at=9`),
    `compare?a=${asking}&b=${failing}`,
    `executions?path=${encodeURIComponent(CORPUS[0] ?? "")}`,
  ]);
  await page.goto(`${ui.address}/ui/sql`);
  await page.getByRole("textbox", { name: "Query" }).fill(`select '${(CORPUS[0] ?? "").replaceAll("'", "''")}' AS said, 1 AS n`);
  await page.getByRole("button", { name: "Run" }).click();
  await expect(page.getByRole("region", { name: "Rows of the query" }).getByText(CORPUS[0] ?? "")).toBeVisible();
  await page.getByRole("button", { name: "Chart" }).click();
  await expect(page.getByRole("list", { name: "n along said" }).getByText(CORPUS[0] ?? "")).toBeVisible();
  expect(await page.locator("img[src=x]").count()).toBe(0);
});
