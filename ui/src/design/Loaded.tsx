/** The four states of a query: loading, failed, stale after a failure, there. */
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { Failure } from "./Failure";
import { Skeleton } from "./Skeleton";

export function Loaded<Data>({
  query,
  lines,
  children,
}: {
  query: UseQueryResult<Data>;
  lines?: number;
  children: (data: Data) => ReactNode;
}) {
  const retry = () => void query.refetch();
  if (query.data === undefined) {
    return query.error ? <Failure error={query.error} retry={retry} /> : <Skeleton lines={lines} />;
  }
  return (
    <>
      {query.error ? <Failure error={query.error} retry={retry} /> : null}
      {children(query.data)}
    </>
  );
}
