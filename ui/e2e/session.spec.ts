/** A code becomes a session, once; every request then proves that it comes from the page. */
import { startProxy } from "./proxy.mjs";
import { DIST, expect, test } from "./test";

test("without a session the page says how to get one; a code opens it, and leaves no trace in the address", { tag: "@gate" }, async ({
  page,
  server,
}) => {
  const ui = await startProxy({ dist: DIST, api: server.address, token: server.token, code: "only once" });
  await page.goto(`${ui.address}/ui/executions`);
  await expect(page.getByText("noetl ui", { exact: true })).toBeVisible();
  for (const wrong of ["wrong", "%"]) {
    await page.goto("about:blank");
    await page.goto(`${ui.address}/ui/enter#${wrong}`);
    await expect(page.getByRole("alert")).toContainText("There is no session.");
  }
  await page.goto("about:blank");
  await page.goto(`${ui.address}/ui/enter#${encodeURIComponent("only once")}`);
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
  expect(page.url()).toBe(`${ui.address}/ui/`);
  await expect(page.getByRole("region", { name: "Latest executions" }).getByRole("alert")).toHaveCount(0);
  await expect(page.getByText("Live", { exact: true })).toBeVisible();
  await page.goto(`${ui.address}/ui/settings`);
  await page.getByRole("button", { name: "End the session" }).click();
  await expect(page.getByText("noetl ui", { exact: true })).toBeVisible();
  ui.close();
  const other = await startProxy({ dist: DIST, api: server.address, token: server.token, code: "another", port: ui.port });
  await page.goto(`${other.address}/ui/enter#another`);
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
  // The session is revoked: the page knows by the next answer to what it reads again and again.
  await page.request.delete(`${other.address}/api/session`, { headers: { "X-CSRF-Token": "proof of the page" } });
  await expect(page.getByText("noetl ui", { exact: true })).toBeVisible();
  other.close();
});
