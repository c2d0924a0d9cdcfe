/**
 * A table that scrolls sideways inside its frame. On a telephone each row is a list of its cells (roles are named because another
 * display drops those of the elements). Of a long one only the rows on the screen are in the document.
 */
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { type CSSProperties, type ReactNode, useLayoutEffect, useRef, useState } from "react";

export interface Column<Row> {
  title: string;
  cell: (row: Row) => ReactNode;
  numeric?: boolean;
  /** The share of the width in a long table, whose columns keep their widths while it scrolls. */
  share?: number;
}

interface TableProps<Row> {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string;
}

const LONG = 60;
const ROW_PX = 41;
const OVERSCAN = 8;
/** The least width of a share: less would cut a moment. */
const SHARE_REM = 6.5;

export function Table<Row>(props: TableProps<Row>) {
  return props.rows.length > LONG ? <LongTable {...props} /> : <ShortTable {...props} />;
}

function ShortTable<Row>({ label, columns, rows, rowKey }: TableProps<Row>) {
  return (
    <div className="table-frame" tabIndex={0} role="region" aria-label={label}>
      <table className="table" role="table">
        <Head columns={columns} />
        <tbody role="rowgroup">
          {rows.map((row) => (
            <tr key={rowKey(row)} role="row">
              <Cells columns={columns} row={row} />
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function LongTable<Row>({ label, columns, rows, rowKey }: TableProps<Row>) {
  const body = useRef<HTMLTableSectionElement>(null);
  const [top, setTop] = useState(0);
  // What stands above may grow while it loads, so the place is looked up after each drawing.
  useLayoutEffect(() => {
    const measure = () => setTop((body.current?.getBoundingClientRect().top ?? 0) + window.scrollY);
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(document.body);
    return () => watch.disconnect();
  }, []);
  const list = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
    scrollMargin: top,
    getItemKey: (index) => {
      const row = rows[index];
      return row === undefined ? index : rowKey(row);
    },
  });
  const items = list.getVirtualItems();
  const before = (items[0]?.start ?? top) - top;
  const after = list.getTotalSize() - ((items.at(-1)?.end ?? top) - top);
  const all = columns.reduce((sum, { share = 1 }) => sum + share, 0);
  return (
    <div className="table-frame" tabIndex={0} role="region" aria-label={label}>
      <table
        className="table table-long"
        role="table"
        aria-rowcount={rows.length + 1}
        style={{ "--least": `${all * SHARE_REM}rem` } as CSSProperties}
      >
        <colgroup>
          {columns.map(({ title, share = 1 }) => (
            <col key={title} style={{ width: `${(100 * share) / all}%` }} />
          ))}
        </colgroup>
        <Head columns={columns} />
        <tbody role="rowgroup" ref={body} style={{ "--before": `${before}px`, "--after": `${after}px` } as CSSProperties}>
          {items.map(({ index, key }) => {
            const row = rows[index];
            return row === undefined ? null : (
              <tr key={key} role="row" aria-rowindex={index + 2} data-index={index} ref={list.measureElement}>
                <Cells columns={columns} row={row} />
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function Head<Row>({ columns }: { columns: Column<Row>[] }) {
  return (
    <thead role="rowgroup">
      <tr role="row" aria-rowindex={1}>
        {columns.map((column) => (
          <th key={column.title} scope="col" role="columnheader" className={column.numeric ? "numeric" : undefined}>
            {column.title}
          </th>
        ))}
      </tr>
    </thead>
  );
}

function Cells<Row>({ columns, row }: { columns: Column<Row>[]; row: Row }) {
  return columns.map((column) => (
    <td key={column.title} role="cell" data-title={column.title} className={column.numeric ? "numeric" : undefined}>
      {column.cell(row)}
    </td>
  ));
}
