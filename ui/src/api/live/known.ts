/** What of a topic has been read already, so that a hint which says no more is not followed. */
import type { QueryClient } from "@tanstack/react-query";

import type { Change } from "./source";

/** For each topic a version that everything in the cache is of, or later. */
const versions = new Map<string, number>();

/** `execution:12` is the topic of the queries of ["execution", "12"]. */
export function keyOf(topic: string): string[] {
  return topic.split(":");
}

/** Note the version of the first answer about a topic; what is read after it is of that version, or later. */
export function noteOpening(client: QueryClient, topic: string, version: number | undefined): void {
  const earlier = client.getQueryCache().findAll({ queryKey: keyOf(topic) });
  if (version !== undefined && earlier.every(({ state }) => state.data === undefined)) versions.set(topic, Number(version));
}

/** Whether a hint says more than what has been read. Loops move within a version. */
export function isNews({ topic, version = 0, status, loops = [] }: Change): boolean {
  const known = versions.get(topic);
  if (known === undefined) return true;
  const now = Number(version);
  const moving = loops.some(({ done, failed, total }) => Number(done) + Number(failed) < Number(total));
  if (now > known) versions.set(topic, now);
  return now > known || moving || status === "gone";
}
