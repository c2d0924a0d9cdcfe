import { queryOptions } from "@tanstack/react-query";

import { api, read } from "../../api/client";

export const limitsQuery = () =>
  queryOptions({
    queryKey: ["limits"],
    queryFn: async () => (await read(api.GET("/api/limits", { params: { query: { limit: 500 } } }))).limits,
    refetchInterval: 10_000,
  });
