/** Read the queries of a topic again, however quickly changes come. */
import type { Query, QueryClient } from "@tanstack/react-query";

import { keyOf } from "./known";

/** Queries that are read once more when the read under way has ended. */
const waiting = new WeakSet<Query>();

/**
 * `execution:12` refreshes queries of ["execution", "12"]. A read that is under way is neither dropped, or changes that come quicker
 * than answers would never be shown, nor does another one start beside it: it is followed by one, which has all changes until then.
 */
export function refresh(client: QueryClient, topic: string): void {
  for (const query of client.getQueryCache().findAll({ queryKey: keyOf(topic) })) void refreshOne(client, query);
}

async function refreshOne(client: QueryClient, query: Query): Promise<void> {
  if (waiting.has(query)) return;
  if (query.state.fetchStatus === "fetching") {
    waiting.add(query);
    await query.promise?.catch(() => undefined);
    waiting.delete(query);
  }
  await client.invalidateQueries({ queryKey: query.queryKey, exact: true }, { cancelRefetch: false });
}
