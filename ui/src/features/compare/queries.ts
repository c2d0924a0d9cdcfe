import { queryOptions } from "@tanstack/react-query";

import { api, read, type Schemas } from "../../api/client";

export type Comparison = Schemas["Comparison"];
export type AlignedRun = Schemas["AlignedRun"];

export const comparisonOf = (a: string, b: string) =>
  queryOptions({
    queryKey: ["compare", a, b],
    queryFn: () => read(api.GET("/api/compare", { params: { query: { a, b } } })),
  });

/** Executions of the same playbook, newest first: what one is most often compared with. */
export const alikeOf = (id: string) =>
  queryOptions({
    queryKey: ["compare-alike", id],
    queryFn: async () => {
      const { path } = await read(api.GET("/api/executions/{execution_id}/status", { params: { path: { execution_id: id } } }));
      return (await read(api.GET("/api/executions", { params: { query: { path, limit: 20 } } }))).executions;
    },
  });
