import { queryOptions } from "@tanstack/react-query";

import { api, read, type Schemas } from "../../api/client";

export interface Approval {
  executionId: string;
  path: string;
  callback: Schemas["OpenCallbackView"];
}

const MOST_EXECUTIONS = 40;

export interface Approvals {
  open: Approval[];
  /** More executions wait than were looked at. */
  more: boolean;
}

/** Open callbacks of the newest executions that wait. */
export const approvals = () =>
  queryOptions({
    queryKey: ["approvals"],
    queryFn: async (): Promise<Approvals> => {
      const waiting = await read(
        api.GET("/api/executions", { params: { query: { status: "waiting", limit: MOST_EXECUTIONS } } }),
      );
      const found = await Promise.all(
        waiting.executions.map(async ({ execution_id, path }) => {
          const { callbacks } = await read(
            api.GET("/api/executions/{execution_id}/callbacks", { params: { path: { execution_id } } }),
          );
          return callbacks.map((callback): Approval => ({ executionId: execution_id, path, callback }));
        }),
      );
      return { open: found.flat(), more: waiting.next !== null };
    },
  });

/** The list without a question that was answered. */
export function withoutAnswered(before: Approvals, token: string): Approvals {
  return { ...before, open: before.open.filter(({ callback }) => callback.token !== token) };
}
