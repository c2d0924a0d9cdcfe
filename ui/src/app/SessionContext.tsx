import { createContext, use } from "react";

import { allows, type Scope, type Session } from "../api/session";

export const SessionContext = createContext<Session | null>(null);

/** The session; pages below the gate always have one. */
export function useSession(): Session {
  const session = use(SessionContext);
  if (!session) throw new Error("This page is shown inside of a session only.");
  return session;
}

export function useScope(scope: Scope): boolean {
  const session = use(SessionContext);
  return session !== null && allows(session, scope);
}
