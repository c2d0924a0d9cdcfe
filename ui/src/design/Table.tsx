/** A plain table for lists of up to a few hundred rows; it scrolls sideways inside its frame, and on a
 * telephone each row is a list of its cells (roles are named because another display drops those of the elements). */
import type { ReactNode } from "react";

export interface Column<Row> {
  title: string;
  cell: (row: Row) => ReactNode;
  numeric?: boolean;
}

export function Table<Row>({
  label,
  columns,
  rows,
  rowKey,
}: {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string;
}) {
  return (
    <div className="table-frame" tabIndex={0} role="region" aria-label={label}>
      <table className="table" role="table">
        <thead role="rowgroup">
          <tr role="row">
            {columns.map((column) => (
              <th key={column.title} scope="col" role="columnheader" className={column.numeric ? "numeric" : undefined}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row) => (
            <tr key={rowKey(row)} role="row">
              {columns.map((column) => (
                <td key={column.title} role="cell" data-title={column.title} className={column.numeric ? "numeric" : undefined}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
