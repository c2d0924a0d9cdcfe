import { queryOptions } from "@tanstack/react-query";

import { api, read } from "../../api/client";

export const failuresQuery = (since: string) =>
  queryOptions({
    queryKey: ["executions", "failures", since],
    queryFn: () => read(api.GET("/api/executions/failures", { params: { query: { ended_after: since, limit: 20 } } })),
    staleTime: 15_000,
  });

const STATS_EVERY_MS = 15_000;

/** How executions ended. Up to 20,000 of them are counted for it, so it is read again from time to time and not with each change of the list. */
export const statsQuery = () =>
  queryOptions({
    queryKey: ["execution-stats"],
    queryFn: () => read(api.GET("/api/executions/stats", { params: { query: { bucket: 3_600 } } })),
    staleTime: STATS_EVERY_MS,
    refetchInterval: STATS_EVERY_MS,
  });
