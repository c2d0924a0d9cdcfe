/** What a command of the analysis is in the pages: a change of this execution, or the page where it is done. */

/** Changes of an execution, and what their buttons say. */
export const CHANGES = { cancel: "Cancel…", pause: "Pause…", resume: "Resume…", redrive: "Redrive…", patch: "Change context…" };

export type Change = keyof typeof CHANGES;

export type Remedy =
  | { kind: "change"; change: Change; from?: string }
  | { kind: "execution"; id: string }
  | { kind: "page"; to: "/limits" | "/dead-letters" | "/workers"; title: string };

const VERBS: Record<string, Change> = { cancel: "cancel", unpause: "resume", redrive: "redrive", ctx: "patch" };
const PAGES = {
  limit: { to: "/limits", title: "Limits" },
  "dead-letters": { to: "/dead-letters", title: "Dead letters" },
  worker: { to: "/workers", title: "Workers" },
} as const;

/** `noetl redrive 12 --from "price[failed]"` and the like; null for what only a terminal does. */
export function remedyOf(command: string, executionId: string): Remedy | null {
  const [program, verb = "", ...words] = command.split(" ");
  if (program !== "noetl") return null;
  const change = VERBS[verb];
  // A change of another execution is made on the page of that one.
  const id = words.find((word) => /^\d+$/.test(word));
  if (id !== undefined && id !== executionId) return { kind: "execution", id };
  if (change && id !== undefined) {
    const from = /--from "([^"]+)"/.exec(command)?.[1];
    return from === undefined ? { kind: "change", change } : { kind: "change", change, from };
  }
  const page = PAGES[verb as keyof typeof PAGES];
  return page ? { kind: "page", ...page } : null;
}
