/** What the page says about dead letters and about what was done to them. */
import type { Schemas } from "../../api/client";

export type Verb = "retry" | "delete";

/** Ids that one request takes; `all` has no such limit. */
export const MOST_IDS = 100;

export const VERBS: Record<Verb, { title: string; done: string }> = {
  retry: { title: "Send back", done: "sent back" },
  delete: { title: "Delete", done: "deleted" },
};

export function lettersText(count: number): string {
  return count === 1 ? "1 letter" : `${count} letters`;
}

/** What the dialog says before anything is done. */
export function plannedText(verb: Verb, planned: number, left: number): string {
  const one = planned === 1;
  const what =
    verb === "retry"
      ? `will be sent back to the ${one ? "queue that it" : "queues that they"} came from`
      : `will be deleted for good; ${one ? "its execution never receives it" : "their executions never receive them"}`;
  return `${lettersText(planned)} ${what}. ${lettersText(left)} ${left === 1 ? "stays" : "stay"}.`;
}

/** One sentence for the notice after an action. */
export function outcomeText(verb: Verb, done: Schemas["DeadLettersDone"]): string {
  const parts = [`${lettersText(done.ids.length)} ${VERBS[verb].done}`];
  if (done.unsent.length > 0) parts.push(`${done.unsent.length} not taken by the queue`);
  if (done.missing.length > 0) parts.push(`${done.missing.length} not found`);
  parts.push(`${done.left} left`);
  return `${parts.join(", ")}.${done.status === "partly" ? " There may be more: do it again." : ""}`;
}

/** The queues of which not every letter could be read. */
export function unreadText(queues: Schemas["LetterQueueView"][]): string | null {
  const parts = queues.filter(({ read, count }) => read < count).map(({ queue, read, count }) => `${read} of ${count} in ${queue}`);
  return parts.length > 0 ? `Only ${parts.join(" and ")} could be read.` : null;
}
