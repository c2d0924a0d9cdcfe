import { MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";

import { Problem } from "../api/problem";

/** A session that has ended: the gate says how to get another one. */
function noticeEnd(error: unknown): void {
  if (error instanceof Problem && error.status === 401) queries.setQueryData(["session"], null);
}

/** Data stays on the screen while the server is unreachable; only what may succeed later is asked again. */
export const queries: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError: noticeEnd }),
  mutationCache: new MutationCache({ onError: noticeEnd }),
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // An answer that is not JSON comes from something else than the server, and would come again.
      retry: (failures, error) => failures < 2 && !(error instanceof SyntaxError || (error instanceof Problem && !error.body.retryable)),
      refetchOnWindowFocus: true,
    },
  },
});
