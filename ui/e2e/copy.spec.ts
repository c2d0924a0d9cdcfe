/** What *Copy as* gives on every page, pasted into a shell: it runs, and says what the page says. */
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

import type { Page } from "@playwright/test";

import { FAILING, GATE, HELLO, REFUND } from "./playbooks";
import { NOETL, type Server } from "./server";
import { expect, test } from "./test";

const CHANGES = /^(Send all back|Register|Approve|Reject|Pause|Resume|Cancel|Redrive|Start|Set|Remove|Enable|Disable)/;

interface Copied {
  what: string;
  curl: string;
  noetl: string | null;
}

/** Everything that the page offers to copy. */
async function copied(page: Page, open = () => page.getByRole("button", { name: "Copy as…" }).first().click()): Promise<Copied[]> {
  await open();
  const dialog = page.getByRole("dialog", { name: "Copy as" });
  await expect(dialog.getByRole("region", { name: "curl" })).toBeVisible();
  const select = dialog.getByLabel("What");
  const names = (await select.count()) > 0 ? await select.locator("option").allTextContents() : [""];
  const found: Copied[] = [];
  for (const what of names) {
    if (what) await select.selectOption({ label: what });
    const noetl = dialog.getByRole("region", { name: "noetl" }).locator("pre");
    const hasCommand = (await noetl.count()) > 0;
    found.push({
      what,
      curl: (await dialog.getByRole("region", { name: "curl" }).locator("pre").textContent()) ?? "",
      noetl: hasCommand ? await noetl.textContent() : null,
    });
  }
  await dialog.getByRole("button", { name: "Close" }).click();
  await expect(dialog).toHaveCount(0);
  return found;
}

/** A shell in which the token is where the commands look for it: in the home folder of the server. */
async function shell(server: Server): Promise<{ run: (line: string) => Promise<string>; end: () => Promise<void> }> {
  const home = await mkdtemp(join(tmpdir(), "noetl-shell-"));
  const env = { ...process.env, HOME: home, NOETL_HOME: server.home, PATH: `${dirname(NOETL)}:${process.env.PATH}` };
  return {
    run: async (line) => (await promisify(execFile)("bash", ["-c", line], { env, cwd: home })).stdout,
    end: () => rm(home, { recursive: true }),
  };
}

test("every page offers its requests and commands, and those that read run as they are", async ({ page, server, ui }) => {
  await server.register(HELLO);
  await server.register(GATE);
  await server.register(REFUND);
  await server.register(FAILING);
  const { execution_id } = await server.run("demo/hello");
  const failed = await server.run("sales/orders");
  await server.run("sales/refund", { amount: 1 }, 1);
  await server.ask("PUT", "/api/limits/warehouse", { concurrent: 4, rate: 10, per: 60 });
  await server.ask("POST", "/api/credentials", { name: "billing", type: "generic", data: { password: "x" } });
  await server.ask("POST", "/api/triggers", { name: "refunds", path: "sales/refund", source: { type: "webhook" } });
  const { run, end } = await shell(server);
  const pages: Record<string, RegExp> = {
    "": /list --status failed/,
    executions: /noetl list/,
    playbooks: /noetl register/,
    "playbooks/demo/hello": /noetl exec demo\/hello/,
    approvals: /noetl callback \S+ --set approved=true/,
    schedules: /noetl schedule pause/,
    limits: /noetl limit set warehouse --concurrent 4 --rate 10 --per 60 --burst 1/,
    workers: /^\s*$/,
    "dead-letters": /noetl dead-letters retry --all/,
    credentials: /noetl credential log billing/,
    settings: /noetl token list/,
    sql: /noetl sql 'SELECT/,
    [`compare?a=${execution_id}&b=${failed.execution_id}`]: /noetl compare/,
  };
  for (const [path, command] of Object.entries(pages)) {
    await page.goto(`${ui.address}/ui/${path}`);
    // What the page offers follows from what it has read.
    await expect(page.locator(".skeleton")).toHaveCount(0);
    const found = await copied(page);
    expect(found.map(({ noetl }) => noetl ?? "").join("\n"), path).toMatch(command);
    for (const { what, curl, noetl } of found.filter(({ what }) => !CHANGES.test(what))) {
      const answer = await run(`${curl} --silent --show-error`);
      expect(answer, `${path}: ${what}: ${curl}`).not.toMatch(/urn:noetl:problem|^$/);
      if (noetl && path !== "dead-letters") expect(await run(noetl), `${path}: ${noetl}`).toBeTruthy();
    }
  }
  await end();
});

test("what is typed into a dialog is copied as a request and a command that do it", async ({ page, server, ui }) => {
  await server.register(GATE);
  const { run, end } = await shell(server);
  for (const which of ["curl", "noetl"] as const) {
    const { execution_id } = await server.run("demo/gate", {}, 1);
    await page.goto(`${ui.address}/ui/executions/${execution_id}`);
    await page.getByRole("button", { name: "Change context…" }).click();
    const dialog = page.getByRole("dialog", { name: "Change the context" });
    await dialog.getByLabel("Merge patch (JSON)").fill('{"approved": true, "why": "it\'s fine"}');
    const [copy] = await copied(page, () => dialog.getByRole("button", { name: "Copy as…" }).click());
    await run(copy?.[which] ?? "");
    await server.until(execution_id, "completed");
  }
  await end();
});
