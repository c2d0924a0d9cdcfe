/** A deployment: the issuer signs people in, and every request carries its token. */
import { Issuer } from "./issuer";
import { startProxy } from "./proxy.mjs";
import { DIST, expect, test } from "./test";

test("an issuer signs in, tokens are refreshed, and signing out waits for a person", async ({ page, server }) => {
  const issuer = await Issuer.start();
  const ui = await startProxy({ dist: DIST, api: server.address, token: server.token, issuer });
  const failed = `${ui.address}/ui/executions?status=failed`;

  await page.goto(failed);
  await expect(page.getByRole("heading", { name: "Executions" })).toBeVisible();
  expect(page.url()).toBe(failed);
  expect(issuer.trades).toEqual(["authorization_code"]);

  // A page that opens again has the token still; one that the server no longer takes is traded for another. The tab is empty while the
  // issuer revokes: a page that is left between its trade and the answer loses the new token, and has to sign in again.
  await page.goto("about:blank");
  issuer.revokeAccess();
  await page.goto(failed);
  await expect(page.getByRole("heading", { name: "Executions" })).toBeVisible();
  expect(issuer.trades).toEqual(["authorization_code", "refresh_token"]);

  // When the issuer takes nothing any more, the page asks it to sign in again, and comes back to where it was.
  await page.goto("about:blank");
  issuer.revokeAll();
  await page.goto(failed);
  await expect(page.getByRole("heading", { name: "Executions" })).toBeVisible();
  expect(page.url()).toBe(failed);
  expect(issuer.trades.at(-1)).toBe("authorization_code");

  await page.goto(`${ui.address}/ui/settings`);
  await page.getByRole("button", { name: "Sign out" }).click();
  await expect(page.getByText("You have signed out.")).toBeVisible();
  expect(await page.evaluate(() => JSON.stringify({ ...sessionStorage, ...localStorage }))).not.toMatch(/[0-9a-f]{8}-[0-9a-f]{4}/);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();

  await page.goto(`${ui.address}/ui/enter?code=stolen&state=forged`);
  await expect(page.getByRole("alert")).toContainText("belongs to no sign-in that this tab has begun");
  expect(page.url()).toBe(`${ui.address}/ui/enter`);
  await expect(page.getByRole("button", { name: "Sign in" })).toBeVisible();
  expect(issuer.cookies).toBe(0);
  ui.close();
  issuer.close();
});
