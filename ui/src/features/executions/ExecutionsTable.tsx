/** Thousands of rows of which only those on the screen are in the document. */
import { Link } from "@tanstack/react-router";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useRef, useState } from "react";

import { isTyping } from "../../app/keys";
import { Moment } from "../../design/Moment";
import { Status } from "../../design/Status";
import { durationText } from "../../design/time";
import { type ExecutionRow, useFreshRows } from "./useExecutions";

const ROW_PX = 41;
const OVERSCAN = 8;

interface Selection {
  ids: ReadonlySet<string>;
  toggle: (id: string) => void;
  toggleAll: () => void;
}

export function ExecutionsTable({
  rows,
  selection,
  onEnd,
}: {
  rows: ExecutionRow[];
  selection: Selection;
  onEnd: () => void;
}) {
  const body = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  useLayoutEffect(() => {
    const measure = () => setTop((body.current?.getBoundingClientRect().top ?? 0) + window.scrollY);
    measure();
    addEventListener("resize", measure);
    return () => removeEventListener("resize", measure);
  }, []);
  const list = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
    scrollMargin: top,
    getItemKey: (index) => rows[index]?.execution_id ?? index,
  });
  const items = list.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (last >= rows.length - OVERSCAN) onEnd();
  }, [last, rows.length, onEnd]);
  const fresh = useFreshRows(
    rows,
    items.flatMap(({ index }) => rows[index] ?? []),
  );
  useRowKeys(rows, selection.toggle, (index) => list.scrollToIndex(index));
  const all = selection.ids.size > 0 && rows.every((row) => selection.ids.has(row.execution_id));
  return (
    <div className="list" role="table" aria-label="Executions" aria-rowcount={rows.length + 1}>
      <div role="rowgroup">
        <div className="list-row list-head" role="row" aria-rowindex={1}>
          <span role="columnheader" className="list-check">
            <input type="checkbox" aria-label="Select all rows that are loaded" checked={all} onChange={selection.toggleAll} />
          </span>
          <span role="columnheader">Status</span>
          <span role="columnheader">Playbook</span>
          <span role="columnheader">Execution</span>
          <span role="columnheader">Started</span>
          <span role="columnheader" className="numeric">
            At work
          </span>
        </div>
      </div>
      <div role="rowgroup" ref={body} className="list-body" style={{ height: list.getTotalSize() }}>
        {items.map((item) => {
          const row = rows[item.index];
          return row ? (
            <div
              key={item.key}
              ref={list.measureElement}
              data-index={item.index}
              className="list-item"
              style={{ transform: `translateY(${item.start - top}px)` }}
              role="none"
            >
              <Row
                row={fresh.get(row.execution_id) ?? row}
                index={item.index}
                selected={selection.ids.has(row.execution_id)}
                toggle={() => selection.toggle(row.execution_id)}
              />
            </div>
          ) : null;
        })}
      </div>
    </div>
  );
}

function Row({ row, index, selected, toggle }: { row: ExecutionRow; index: number; selected: boolean; toggle: () => void }) {
  return (
    <div className="list-row" role="row" aria-rowindex={index + 2} data-selected={selected || undefined}>
      <span role="cell" className="list-check">
        <input type="checkbox" aria-label={`Select ${row.execution_id}`} checked={selected} onChange={toggle} />
      </span>
      <span role="cell" className="list-status">
        <Status of={row.status} />
      </span>
      <span role="cell" className="list-path">
        {row.path}
      </span>
      <span role="cell" className="list-id mono">
        <Link to="/executions/$id" params={{ id: row.execution_id }} data-row={index}>
          {row.execution_id}
        </Link>
      </span>
      <span role="cell" className="list-time">
        <Moment at={row.started_at} />
      </span>
      <span role="cell" className="list-duration numeric">
        {durationText((row.active_seconds ?? row.duration_ms / 1000) * 1000)}
      </span>
    </div>
  );
}

/** j and k move the focus from link to link, x selects; Enter follows the link by itself. */
function useRowKeys(rows: ExecutionRow[], toggle: (id: string) => void, scrollTo: (index: number) => void): void {
  /** The row that gets the focus as soon as it is drawn: keys that come before count from it. */
  const aimed = useRef<number | null>(null);
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (isTyping(event) && !(event.target as HTMLInputElement).matches("[type=checkbox]")) return;
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector(".overlay")) return;
      const focused = document.activeElement;
      const at = aimed.current ?? (focused instanceof HTMLElement && focused.dataset.row ? Number(focused.dataset.row) : -1);
      const step = { j: 1, k: -1 }[event.key];
      if (step !== undefined) {
        const next = Math.max(0, Math.min(rows.length - 1, at + step));
        scrollTo(next);
        aimed.current = next;
        if (focusRow(next)) aimed.current = null;
        else
          requestAnimationFrame(() => {
            if (aimed.current === null) return;
            focusRow(aimed.current);
            aimed.current = null;
          });
      } else if (event.key === "x" && at >= 0) {
        toggle(rows[at]?.execution_id ?? "");
      }
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, [rows, toggle, scrollTo]);
}

/** Give a row the focus; false: it is not drawn yet. */
function focusRow(index: number): boolean {
  const link = document.querySelector<HTMLElement>(`[data-row="${index}"]`);
  link?.focus();
  return link !== null;
}
