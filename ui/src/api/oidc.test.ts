// @vitest-environment jsdom
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { accessToken, beginSignIn, challengeOf, finishSignIn, hasSignedOut, type SignIn, signOut } from "./oidc";

const SIGN_IN: SignIn = {
  issuer: "https://id.test",
  client_id: "noetl",
  scope: "openid noetl/read",
  parameters: { audience: "api", state: "not this one" },
  authorization_endpoint: "https://id.test/authorize?tenant=1",
  token_endpoint: "https://id.test/token",
  end_session_endpoint: "https://id.test/logout",
};
let answers: { status: number; body: unknown }[] = [];
let asked: URLSearchParams[] = [];

beforeEach(() => {
  sessionStorage.clear();
  [answers, asked] = [[], []];
  vi.stubGlobal("fetch", (address: URL | string, init?: RequestInit) => {
    if (String(address).endsWith("sign-in.json")) return Promise.resolve(Response.json(SIGN_IN));
    asked.push(init?.body as URLSearchParams);
    const { status, body } = answers.shift() ?? { status: 400, body: { error: "invalid_grant" } };
    return Promise.resolve(Response.json(body, { status }));
  });
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

async function signedIn(body: Record<string, unknown> = {}): Promise<void> {
  answers.push({ status: 200, body: { access_token: "first", refresh_token: "again", expires_in: 600, ...body } });
  const state = new URL(await beginSignIn(SIGN_IN, "/ui/executions?status=failed")).searchParams.get("state") ?? "";
  const path = await finishSignIn(SIGN_IN, new URLSearchParams({ code: "c", state }));
  expect(path).toBe("/ui/executions?status=failed");
}

test("the challenge is that of RFC 7636", async () => {
  expect(await challengeOf("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")).toBe("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
});

test("the request names the challenge, and the trade proves that it knows the verifier", async () => {
  answers.push({ status: 200, body: { access_token: "first" } });
  const address = new URL(await beginSignIn(SIGN_IN, "/"));
  const query = Object.fromEntries(address.searchParams);
  expect(query).toMatchObject({ tenant: "1", audience: "api", response_type: "code", code_challenge_method: "S256", scope: SIGN_IN.scope });
  await finishSignIn(SIGN_IN, new URLSearchParams({ code: "c", state: query.state ?? "", iss: "https://id.test/" }));
  const verifier = asked[0]?.get("code_verifier") ?? "";
  expect(await challengeOf(verifier)).toBe(query.code_challenge);
  expect(asked[0]?.has("client_secret")).toBe(false);
});

test.each([
  ["a state of another sign-in", { code: "c", state: "forged" }, "belongs to no sign-in"],
  ["another issuer", { code: "c", iss: "https://evil.test" }, "comes from https://evil.test"],
  ["a refusal", { error: "access_denied", error_description: "not in the group" }, "not in the group"],
  ["a code that was used", { code: "c" }, "invalid_grant"],
])("%s is refused, and a second answer with it", async (_name, answer, message) => {
  const state = new URL(await beginSignIn(SIGN_IN, "/")).searchParams.get("state") ?? "";
  const query = new URLSearchParams({ state, ...answer } as Record<string, string>);
  await expect(finishSignIn(SIGN_IN, query)).rejects.toThrow(message);
  answers.push({ status: 200, body: { access_token: "late" } });
  await expect(finishSignIn(SIGN_IN, new URLSearchParams({ state, code: "c" }))).rejects.toThrow("belongs to no sign-in");
  expect(await accessToken()).toBeNull();
});

test("a token that ends is refreshed once for all who ask, and its refresh token is kept or replaced", async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  await signedIn();
  expect(await accessToken()).toBe("first");
  vi.setSystemTime(Date.now() + 590_000);
  answers.push({ status: 200, body: { access_token: "second", expires_in: 600 } });
  expect(await Promise.all([accessToken(), accessToken()])).toEqual(["second", "second"]);
  expect(asked.map((one) => one.get("grant_type"))).toEqual(["authorization_code", "refresh_token"]);
  vi.setSystemTime(Date.now() + 600_000);
  answers.push({ status: 503, body: {} });
  await expect(accessToken()).rejects.toThrow("503");
  answers.push({ status: 200, body: { access_token: "third", refresh_token: "new", expires_in: 600 } });
  expect(await accessToken()).toBe("third");
  expect(asked.at(-1)?.get("refresh_token")).toBe("again");
  expect(await accessToken("second"), "another request has refreshed it already").toBe("third");
  expect(await accessToken("third")).toBeNull();
  expect(asked.at(-1)?.get("refresh_token")).toBe("new");
});

test("signing out forgets the tokens and leads to the issuer's own end of session", async () => {
  await signedIn();
  const address = new URL((await signOut(SIGN_IN)) ?? "");
  expect(address.pathname).toBe("/logout");
  expect(address.searchParams.get("client_id")).toBe("noetl");
  expect(await accessToken()).toBeNull();
  expect(hasSignedOut()).toBe(true);
});
