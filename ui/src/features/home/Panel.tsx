/** A question of the home page with its answer, and where to read more. */
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { Icon } from "../../design/Icon";
import { Loaded } from "../../design/Loaded";

export function Panel<Data, Item>({
  title,
  about,
  more,
  query,
  items,
  itemKey,
  nothing,
  children,
}: {
  title: string;
  about?: ReactNode;
  more: ReactNode;
  query: UseQueryResult<Data>;
  items: (data: Data) => Item[];
  itemKey: (item: Item) => string;
  nothing: string;
  children: (item: Item) => ReactNode;
}) {
  return (
    <section className="card card-flush" aria-label={title}>
      <div className="panel-head">
        <h2>{title}</h2>
        {about ? <span className="small muted">{about}</span> : null}
        <span className="panel-more small">{more}</span>
      </div>
      <Loaded query={query} lines={3}>
        {(data) => {
          const found = items(data);
          if (found.length === 0) {
            return (
              <p className="panel-nothing">
                <Icon name="check" />
                {nothing}
              </p>
            );
          }
          return (
            <ul className="panel-list">
              {found.map((item) => (
                <li key={itemKey(item)}>{children(item)}</li>
              ))}
            </ul>
          );
        }}
      </Loaded>
    </section>
  );
}
