import { queryOptions } from "@tanstack/react-query";

import { api, read } from "../../api/client";

const MOST = 500;

export const schedulesQuery = () =>
  queryOptions({
    queryKey: ["schedules"],
    queryFn: async () => (await read(api.GET("/api/schedules", { params: { query: { limit: MOST } } }))).schedules,
    refetchInterval: 30_000,
  });

export const triggersQuery = () =>
  queryOptions({
    queryKey: ["triggers"],
    queryFn: async () => (await read(api.GET("/api/triggers", { params: { query: { limit: MOST } } }))).triggers,
  });

/** The next moments of a schedule. */
export const nextOf = (name: string, count: number) =>
  queryOptions({
    queryKey: ["schedules", name, "next", count],
    queryFn: async () => (await read(api.GET("/api/schedules/{name}/next", { params: { path: { name }, query: { count } } }))).times,
  });
