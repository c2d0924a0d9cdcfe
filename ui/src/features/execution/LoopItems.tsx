/** The items of a loop, by pages: how each ended, its error, the beginning of its result. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";

import type { Schemas } from "../../api/client";
import { Button } from "../../design/Button";
import { Failure } from "../../design/Failure";
import { Check } from "../../design/Field";
import { Moment } from "../../design/Moment";
import { Skeleton } from "../../design/Skeleton";
import { Status } from "../../design/Status";
import { VirtualList } from "../../design/VirtualList";
import { durationText } from "../../design/time";
import { type Band, LoopOverTime } from "./LoopOverTime";
import { itemsOf, type StepRun } from "./queries";

type LoopItem = Schemas["LoopItem"];

const ROW_PX = 52;

export function LoopItems({ executionId, step }: { executionId: string; step: StepRun }) {
  const [failed, setFailed] = useState((step.loop?.failed ?? 0) > 0);
  const [from, setFrom] = useState<Band | null>(null);
  const [overTime, setOverTime] = useState(false);
  const query = useInfiniteQuery(itemsOf(executionId, step.run, failed, from?.after ?? undefined));
  const items = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data]);
  return (
    <section className="stack" aria-label={`Items of ${step.step}`}>
      <div className="row spread">
        <h3>Items</h3>
        <Check label="Only those that failed" value={failed} onChange={setFailed} />
      </div>
      <div className="row">
        <Button pressed={overTime} onPress={() => setOverTime(!overTime)}>
          Over time
        </Button>
        {from ? <Button onPress={() => setFrom(null)}>From the first item</Button> : null}
      </div>
      {overTime ? (
        <LoopOverTime
          executionId={executionId}
          step={step}
          open={(band) => {
            setFailed(false);
            setFrom(band);
          }}
        />
      ) : null}
      {query.error ? <Failure error={query.error} retry={() => void query.refetch()} /> : null}
      {query.isPending ? <Skeleton lines={4} /> : null}
      {query.isSuccess && items.length === 0 ? (
        <p className="muted small">{failed ? "No item has failed." : "No item has ended yet."}</p>
      ) : null}
      {items.length > 0 ? (
        <div className="loop-items">
          <VirtualList label={`Items of ${step.step}`} items={items} itemKey={(item) => String(item.index)} estimate={ROW_PX}>
            {(item) => <Row item={item} />}
          </VirtualList>
        </div>
      ) : null}
      {query.hasNextPage ? (
        <div>
          <Button onPress={() => void query.fetchNextPage()} disabled={query.isFetchingNextPage}>
            Read on
          </Button>
        </div>
      ) : null}
    </section>
  );
}

function Row({ item }: { item: LoopItem }) {
  const text = item.unreadable ?? item.error?.message ?? item.preview ?? "";
  return (
    <div className="loop-item">
      <span className="numeric">{item.index}</span>
      <Status of={item.status} />
      <span className="loop-item-facts muted">
        <Moment at={item.at} precise />
        {(item.attempts ?? 1) > 1 ? <span>{item.attempts} calls</span> : null}
        {item.tool_ms ? <span>{durationText(item.tool_ms)}</span> : null}
      </span>
      <span className="loop-item-text">{text}</span>
    </div>
  );
}
