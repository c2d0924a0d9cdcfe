import { queryOptions } from "@tanstack/react-query";

import { api, read } from "../../api/client";

export const failuresQuery = (since: string) =>
  queryOptions({
    queryKey: ["executions", "failures", since],
    queryFn: () => read(api.GET("/api/executions/failures", { params: { query: { ended_after: since, limit: 20 } } })),
    staleTime: 15_000,
  });

export const statsQuery = () =>
  queryOptions({
    queryKey: ["executions", "stats"],
    queryFn: () => read(api.GET("/api/executions/stats", { params: { query: { bucket: 3_600 } } })),
    staleTime: 15_000,
  });
