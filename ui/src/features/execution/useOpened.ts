/** The sub-executions whose steps are shown within the page; its link has them. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";

/** More than a person follows at once, and than a page should watch. */
const MOST = 20;

export function useOpened(): { opened: string[]; toggle: (id: string) => void } {
  const { open } = useSearch({ from: "/shell/executions/$id" });
  const navigate = useNavigate({ from: "/executions/$id" });
  const opened = useMemo(() => [...new Set(open?.split(",").filter((id) => /^\d+$/.test(id)))].slice(0, MOST), [open]);
  const toggle = useCallback(
    (id: string) => {
      const next = opened.includes(id) ? opened.filter((one) => one !== id) : [...opened, id].slice(-MOST);
      void navigate({ search: (before) => ({ ...before, open: next.join() || undefined }), replace: true, resetScroll: false });
    },
    [opened, navigate],
  );
  return { opened, toggle };
}
