/** The session of this browser: a cookie that scripts cannot read or a token of the issuer, and what it may do. */
import { parseJson } from "./json";
import { Problem, problemOf } from "./problem";
import { accessToken, readSignIn, signOut } from "./oidc";
import { keepCsrf, serverFetch, serverRoot } from "./client";

export type Scope = "read" | "execute" | "write" | "admin" | "worker";

export interface Session {
  csrf: string;
  scopes: Scope[];
  principal: string;
  expires_at: number | string | null;
  /** By a token of the issuer; there is no session at the server then. */
  signed_in: boolean;
}

/** Read the session; null where there is none. */
export async function readSession(): Promise<Session | null> {
  try {
    return await askSession();
  } catch (failure) {
    if (failure instanceof Problem && failure.status === 401) return null;
    throw failure;
  }
}

/** Trade a one-time code for a session. */
export function enterSession(code: string): Promise<Session> {
  return askSession({
    method: "POST",
    body: JSON.stringify({ code }),
    headers: { "Content-Type": "application/json" },
  });
}

/** End the session of this browser; return the address at which the issuer ends its own, if it signed this tab in. */
export async function leaveSession(): Promise<string | null> {
  const signIn = (await hasToken()) ? await readSignIn() : null;
  if (signIn) return signOut(signIn);
  const answer = await serverFetch(`${serverRoot}/api/session`, { method: "DELETE" });
  if (!answer.ok) throw problemOf(answer.status, null);
  return null;
}

/** Whether the issuer has signed this tab in. */
export async function hasToken(): Promise<boolean> {
  return (await accessToken()) !== null;
}

async function askSession(init?: RequestInit): Promise<Session> {
  const answer = await serverFetch(`${serverRoot}/api/session`, init);
  const text = await answer.text();
  if (!answer.ok) throw problemOf(answer.status, bodyOf(text));
  const session = parseJson(text) as unknown as Session;
  if (session.csrf) keepCsrf(session.csrf);
  return { ...session, signed_in: await hasToken() };
}

function bodyOf(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return null;
  }
}

/** Whether a session may do what needs a scope; `admin` has every scope but `worker`. */
export function allows(session: Session, scope: Scope): boolean {
  return session.scopes.includes(scope) || (scope !== "worker" && session.scopes.includes("admin"));
}
