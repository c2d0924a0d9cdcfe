/** A scrolling list of which only what is on the screen is in the document. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useRef } from "react";

export function VirtualList<Item>({
  label,
  items,
  itemKey,
  estimate,
  follow,
  children,
}: {
  label: string;
  items: Item[];
  itemKey: (item: Item, index: number) => string;
  estimate: number;
  /** Keep the last item in sight as items arrive. */
  follow?: boolean;
  children: (item: Item) => ReactNode;
}) {
  const frame = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    count: items.length,
    estimateSize: () => estimate,
    getScrollElement: () => frame.current,
    getItemKey: (index) => {
      const item = items[index];
      return item === undefined ? index : itemKey(item, index);
    },
    overscan: 12,
  });
  useEffect(() => {
    if (follow && items.length > 0) list.scrollToIndex(items.length - 1);
  }, [follow, items.length, list]);
  return (
    <div className="scroller" ref={frame} tabIndex={0} role="region" aria-label={label}>
      <div className="scroller-inner" role="list" style={{ height: list.getTotalSize() }}>
        {list.getVirtualItems().map(({ index, key, start }) => {
          const item = items[index];
          return item === undefined ? null : (
            <div
              key={key}
              ref={list.measureElement}
              data-index={index}
              role="listitem"
              aria-posinset={index + 1}
              aria-setsize={items.length}
              className="scroller-item"
              style={{ transform: `translateY(${start}px)` }}
            >
              {children(item)}
            </div>
          );
        })}
      </div>
    </div>
  );
}
