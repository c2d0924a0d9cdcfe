import { type InfiniteData, infiniteQueryOptions } from "@tanstack/react-query";

import { api, read, type Schemas } from "../../api/client";

type Page = Schemas["CallbackPage"];

/** Open callbacks of all executions, the oldest executions first. */
export const approvals = () =>
  infiniteQueryOptions({
    queryKey: ["approvals"],
    queryFn: ({ pageParam }) => read(api.GET("/api/callbacks", { params: { query: { after: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
  });

/** The pages without a question that was answered. */
export function withoutAnswered(before: InfiniteData<Page, unknown>, token: string): typeof before {
  const pages = before.pages.map((page) => ({ ...page, callbacks: page.callbacks.filter((one) => one.token !== token) }));
  return { ...before, pages };
}
