/** Dead letters of the deployment. A look hides them for a moment, so nothing asks again by itself. */
import { infiniteQueryOptions } from "@tanstack/react-query";

import { api, read, type Schemas } from "../../api/client";
import type { Verb } from "./wording";

export const deadLettersQuery = () =>
  infiniteQueryOptions({
    queryKey: ["dead-letters"],
    queryFn: ({ pageParam }) => read(api.GET("/api/dead-letters", { params: { query: { after: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    refetchOnWindowFocus: false,
  });

/** Send back or remove; with `dry_run`, say which. */
export function handle(verb: Verb, body: Schemas["DeadLetterRequest"]): Promise<Schemas["DeadLettersDone"]> {
  return verb === "retry"
    ? read(api.POST("/api/dead-letters/retry", { body }))
    : read(api.POST("/api/dead-letters/delete", { body }));
}
