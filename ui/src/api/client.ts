/** The REST API with the types of docs/openapi.json; integers survive, failures are thrown. */
import createClient, { type Middleware } from "openapi-fetch";

import { accessToken } from "./oidc";
import { parseJson, printJson } from "./json";
import { problemOf, Unreachable } from "./problem";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

/** The root of the API: one level above the pages. */
export const serverRoot = new URL("..", document.baseURI).href.replace(/\/$/, "");

const CSRF = "noetl-csrf";

/**
 * Keep the value that proves to the server that a request comes from its page. The storage belongs to this origin alone, while
 * the cookie is sent to every port of the host.
 */
export function keepCsrf(value: string): void {
  localStorage.setItem(CSRF, value);
}

/**
 * Fetch from the server, with the token of the issuer or else with the cookie and the CSRF header; throw `Unreachable` when no answer
 * comes.
 */
export async function serverFetch(input: Request | string, init?: RequestInit): Promise<Response> {
  const request = new Request(input, init);
  const token = await accessToken();
  if (token === null) {
    request.headers.set("X-CSRF-Token", localStorage.getItem(CSRF) ?? "");
    return send(request, "same-origin");
  }
  const again = request.clone();
  const answer = await send(withToken(request, token), "omit");
  if (answer.status !== 401) return answer;
  // The issuer may have revoked it, or the clocks differ.
  const other = await accessToken(token);
  return other === null ? answer : send(withToken(again, other), "omit");
}

function withToken(request: Request, token: string): Request {
  request.headers.set("Authorization", `Bearer ${token}`);
  return request;
}

async function send(request: Request, credentials: RequestCredentials): Promise<Response> {
  try {
    return await fetch(request, { credentials });
  } catch (failure) {
    if (request.signal.aborted) throw failure;
    throw new Unreachable();
  }
}

const lossless: Middleware = {
  async onResponse({ response }) {
    if (!response.ok) throw problemOf(response.status, await parsedBody(response));
    if (!response.headers.get("Content-Type")?.includes("json")) return response;
    const text = await response.text();
    // openapi-fetch calls json() of an answer that has a length.
    const copy = new Response(text, { status: response.status, headers: { "Content-Length": String(text.length) } });
    copy.json = () => Promise.resolve(parseJson(text));
    return copy;
  },
};

async function parsedBody(response: Response): Promise<unknown> {
  try {
    return parseJson(await response.text());
  } catch {
    return null;
  }
}

export const api = createClient<paths>({
  baseUrl: serverRoot,
  headers: { Accept: "application/json" },
  fetch: (request: Request) => serverFetch(request),
  bodySerializer: (body: unknown) => printJson(body),
});
api.use(lossless);

/** The data of an answer; the client throws before when there is none. */
export async function read<Data>(asked: Promise<{ data?: Data }>): Promise<Data> {
  const { data } = await asked;
  return data as Data;
}
