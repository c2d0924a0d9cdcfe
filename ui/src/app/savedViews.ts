/** Filters that the server keeps by name, for all who use it. */
import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { api, read, type Schemas } from "../api/client";

export type SavedPage = Schemas["SavedViewAnswer"]["page"];
export type SavedView = Schemas["SavedViewAnswer"];

const savedViewsQuery = (page: SavedPage) =>
  queryOptions({
    queryKey: ["saved-views", page],
    queryFn: async () => (await read(api.GET("/api/views/{page}", { params: { path: { page } } }))).views,
  });

/** The views of a page, and how to change them; `error` is of the last change or of the reading. */
export function useSavedViews(page: SavedPage) {
  const client = useQueryClient();
  const query = useQuery(savedViewsQuery(page));
  const changed = () => client.invalidateQueries({ queryKey: ["saved-views", page] });
  const save = useMutation({
    mutationFn: ({ name, search }: { name: string; search: Record<string, string> }) =>
      read(api.PUT("/api/views/{page}/{name}", { params: { path: { page, name } }, body: { search } })),
    onSuccess: changed,
  });
  const remove = useMutation({
    mutationFn: (name: string) => read(api.DELETE("/api/views/{page}/{name}", { params: { path: { page, name } } })),
    onSuccess: changed,
  });
  return { views: query.data ?? [], save, remove, error: save.error ?? remove.error ?? query.error };
}
