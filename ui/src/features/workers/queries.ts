import { queryOptions } from "@tanstack/react-query";

import { api, read } from "../../api/client";

const EVERY_MS = 5_000;

export const queuesQuery = () =>
  queryOptions({ queryKey: ["queues"], queryFn: () => read(api.GET("/api/queue")), refetchInterval: EVERY_MS });

export const workersQuery = () =>
  queryOptions({ queryKey: ["workers"], queryFn: () => read(api.GET("/api/worker/pools")), refetchInterval: EVERY_MS });
