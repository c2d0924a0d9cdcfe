import { queryOptions } from "@tanstack/react-query";

import { api, read, type Schemas } from "../../api/client";

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

/** The next moments of a schedule: others when its next one is another, as after each start. */
export const nextOf = ({ name, next_at }: Pick<Schemas["ScheduleView"], "name" | "next_at">, count: number) =>
  queryOptions({
    queryKey: ["schedules", name, "next", count, next_at],
    queryFn: async () => (await read(api.GET("/api/schedules/{name}/next", { params: { path: { name }, query: { count } } }))).times,
  });
