// @vitest-environment jsdom
import { QueryClient } from "@tanstack/react-query";
import { expect, test } from "vitest";

import { keyOf } from "../../api/live/known";
import { failuresQuery, statsQuery } from "./queries";

test("a change of the list reads failures again, and not the figures of a whole day", () => {
  const client = new QueryClient();
  const failures = [...failuresQuery("2026-11-27T00:00:00Z").queryKey];
  for (const key of [failures, [...statsQuery().queryKey]]) client.setQueryData<unknown>(key, {});
  expect(client.getQueryCache().findAll({ queryKey: keyOf("executions") }).map(({ queryKey }) => queryKey)).toEqual([failures]);
});
