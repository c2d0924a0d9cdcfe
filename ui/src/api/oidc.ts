/**
 * Sign-in at an OIDC issuer: authorization code with PKCE. Tokens stay in this tab (sessionStorage) and go out in a header, never in a
 * cookie, so no other page can make this browser send one.
 */

/** What a deployment says in `sign-in.json`; endpoints it does not name are read from the issuer's discovery document. */
export interface SignIn {
  issuer: string;
  client_id: string;
  scope: string;
  parameters?: Record<string, string>;
  authorization_endpoint?: string;
  token_endpoint?: string;
  end_session_endpoint?: string;
}

interface Tokens {
  access: string;
  refresh: string | null;
  /** Milliseconds since 1970, by this browser's clock. */
  until: number;
}

/** A sign-in that has begun: the issuer's answer has to carry its state. */
interface Begun {
  state: string;
  verifier: string;
  path: string;
}

const TOKENS = "noetl-tokens";
const BEGUN = "noetl-sign-in";
const LEFT = "noetl-signed-out";
/** A token that ends this soon is refreshed before it is used. */
const EARLY_MS = 30_000;
const HOUR_S = 3_600;

const tabs = new BroadcastChannel("noetl-sign-out");
tabs.onmessage = () => forgetTokens();

/** The issuer refused, or its answer is not the one that was asked for. */
export class SignInError extends Error {}

/** Read how this deployment signs people in; null where it does not: `noetl serve`, or an emulator. */
export async function readSignIn(): Promise<SignIn | null> {
  const answer = await fetch(new URL("sign-in.json", document.baseURI), { credentials: "omit" });
  if (!answer.ok || !answer.headers.get("Content-Type")?.includes("json")) return null;
  const found = (await answer.json()) as Partial<SignIn>;
  return found.issuer && found.client_id ? (found as SignIn) : null;
}

/** Return the address at the issuer that begins a sign-in, and remember what its answer has to fit to. */
export async function beginSignIn(signIn: SignIn, path: string): Promise<string> {
  const [state, verifier] = [random(), random()];
  const { authorization_endpoint } = await endpoints(signIn);
  if (!authorization_endpoint) throw new SignInError(`${signIn.issuer} names no authorization_endpoint.`);
  write<Begun>(BEGUN, { state, verifier, path });
  sessionStorage.removeItem(LEFT);
  const address = new URL(authorization_endpoint);
  const asked = {
    ...signIn.parameters,
    response_type: "code",
    client_id: signIn.client_id,
    redirect_uri: redirectUri(),
    scope: signIn.scope,
    state,
    code_challenge: await challengeOf(verifier),
    code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(asked)) address.searchParams.set(name, value);
  return address.href;
}

/** Trade the issuer's answer for tokens; return the path to go back to. Each answer works once. */
export async function finishSignIn(signIn: SignIn, answer: URLSearchParams): Promise<string> {
  const begun = stored<Begun>(BEGUN);
  sessionStorage.removeItem(BEGUN);
  if (!begun || answer.get("state") !== begun.state) {
    throw new SignInError("This answer belongs to no sign-in that this tab has begun.");
  }
  const from = answer.get("iss");
  if (from !== null && from.replace(/\/$/, "") !== signIn.issuer) throw new SignInError(`The answer comes from ${from}, not ${signIn.issuer}.`);
  const refused = answer.get("error");
  if (refused) throw new SignInError(`The issuer refused: ${answer.get("error_description") ?? refused}`);
  await trade(signIn, {
    grant_type: "authorization_code",
    code: answer.get("code") ?? "",
    redirect_uri: redirectUri(),
    code_verifier: begun.verifier,
  });
  return begun.path;
}

/** Whether a query is an issuer's answer. */
export function isAnswer(query: URLSearchParams): boolean {
  return query.has("state") && (query.has("code") || query.has("error"));
}

let refreshing: Promise<string | null> | null = null;

/**
 * The token to send, refreshed when it ends soon; null in a browser that did not sign in here. `refused`: a token that the server no
 * longer takes. Of several requests that were refused with it, the first one refreshes, also for those whose answer comes later.
 */
export async function accessToken(refused: string | null = null): Promise<string | null> {
  const tokens = stored<Tokens>(TOKENS);
  if (!tokens) return null;
  if (tokens.access !== refused && tokens.until - EARLY_MS > Date.now()) return tokens.access;
  refreshing ??= refreshed(tokens).finally(() => (refreshing = null));
  return refreshing;
}

async function refreshed(tokens: Tokens): Promise<string | null> {
  const signIn = tokens.refresh ? await readSignIn() : null;
  if (signIn && tokens.refresh) {
    try {
      return await trade(signIn, { grant_type: "refresh_token", refresh_token: tokens.refresh }, tokens.refresh);
    } catch (failure) {
      // Without an answer the issuer may have one later; what it refuses is over.
      if (!(failure instanceof SignInError)) {
        if (tokens.until > Date.now()) return tokens.access;
        throw failure;
      }
    }
  }
  forgetTokens();
  return null;
}

/** Forget the tokens in all tabs; return where the issuer ends its own session, if it says. */
export async function signOut(signIn: SignIn): Promise<string | null> {
  forgetTokens();
  tabs.postMessage("out");
  sessionStorage.setItem(LEFT, "1");
  const { end_session_endpoint } = await endpoints(signIn).catch(() => ({ end_session_endpoint: undefined }));
  if (!end_session_endpoint) return null;
  const address = new URL(end_session_endpoint);
  address.searchParams.set("client_id", signIn.client_id);
  // OpenID Connect names the first, Cognito the second.
  const back = new URL(".", document.baseURI).href;
  address.searchParams.set("post_logout_redirect_uri", back);
  address.searchParams.set("logout_uri", back);
  return address.href;
}

/** Whether this tab has signed out: then a person asks for the next sign-in. */
export function hasSignedOut(): boolean {
  return sessionStorage.getItem(LEFT) !== null;
}

function forgetTokens(): void {
  sessionStorage.removeItem(TOKENS);
}

async function trade(signIn: SignIn, body: Record<string, string>, before: string | null = null): Promise<string> {
  const { token_endpoint } = await endpoints(signIn);
  if (!token_endpoint) throw new SignInError(`${signIn.issuer} names no token_endpoint.`);
  const answer = await fetch(token_endpoint, {
    method: "POST",
    body: new URLSearchParams({ ...body, client_id: signIn.client_id }),
    credentials: "omit",
  });
  const found = (await answer.json().catch(() => ({}))) as Record<string, unknown>;
  if (answer.status >= 500) throw new Error(`The issuer answered ${answer.status}.`);
  if (!answer.ok) throw new SignInError(`The issuer refused: ${String(found.error_description ?? found.error ?? answer.status)}`);
  if (typeof found.access_token !== "string") throw new SignInError("The issuer's answer has no access token.");
  const lasts = Number(found.expires_in ?? HOUR_S);
  const refresh = typeof found.refresh_token === "string" ? found.refresh_token : before;
  write<Tokens>(TOKENS, { access: found.access_token, refresh, until: Date.now() + lasts * 1_000 });
  return found.access_token;
}

async function endpoints(signIn: SignIn): Promise<Partial<SignIn>> {
  if (signIn.authorization_endpoint && signIn.token_endpoint) return signIn;
  const answer = await fetch(`${signIn.issuer}/.well-known/openid-configuration`, { credentials: "omit" });
  if (!answer.ok) throw new Error(`The issuer's discovery document answered ${answer.status}.`);
  return { ...((await answer.json()) as Partial<SignIn>), ...signIn };
}

function redirectUri(): string {
  return new URL("enter", document.baseURI).href;
}

function random(): string {
  return text64(crypto.getRandomValues(new Uint8Array(32)));
}

/** The S256 challenge of RFC 7636. */
export async function challengeOf(verifier: string): Promise<string> {
  return text64(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier))));
}

function text64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function stored<Value>(key: string): Value | null {
  const text = sessionStorage.getItem(key);
  return text === null ? null : (JSON.parse(text) as Value);
}

function write<Value>(key: string, value: Value): void {
  sessionStorage.setItem(key, JSON.stringify(value));
}
