/** Text that playbooks print is shown as text, wherever it comes out. */
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

test("no text of a playbook becomes a part of the page", { tag: "@gate" }, async ({ page, server, ui }) => {
  await server.register(HOSTILE);
  const asking = await server.run("test/hostile", {}, 2);
  const failing = await server.run("test/hostile", {}, 2);
  const { callbacks } = await server.ask<{ callbacks: { token: string }[] }>(
    "GET",
    `/api/executions/${failing.execution_id}/callbacks`,
  );
  await server.ask("POST", `/api/callbacks/${callbacks[0]?.token}`, { approved: true, comment: CORPUS.join(" ") });
  await server.ask("GET", `/api/executions/${failing.execution_id}/status?wait=20`);
  const views = ["graph", "timeline", "events", "data", "logs", "code", "why"];
  const pages = [
    "",
    "executions",
    "approvals",
    "playbooks",
    "playbooks/test/hostile?view=graph",
    "playbooks/test/hostile?view=edit",
    `executions/${asking.execution_id}`,
    ...views.map((view) => `executions/${failing.execution_id}?view=${view}&run=3`),
    `executions?path=${encodeURIComponent(CORPUS[0] ?? "")}`,
    `playbooks/${encodeURIComponent(CORPUS[0] ?? "")}`,
  ];
  for (const path of pages) {
    await page.goto(`${ui.address}/ui/${path}`);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    await expect(page.locator(".skeleton")).toHaveCount(0);
    expect(await page.locator("img[src=x], iframe, svg[onload], script:not([src]), a[href^='javascript']").count(), path).toBe(0);
    expect(await page.title(), path).not.toBe("owned");
  }
  await page.goto(`${ui.address}/ui/executions/${failing.execution_id}?view=logs`);
  await expect(page.getByRole("list").getByText(CORPUS[0] ?? "")).toBeVisible();
});
