/** What tasks have printed: read page by page, filtered, followed to its end. */
import { useCallback, useEffect, useMemo, useState } from "react";

import { api, read, type Schemas } from "../../api/client";
import { useZone } from "../../app/preferences";
import { Button } from "../../design/Button";
import { Empty } from "../../design/Empty";
import { Failure } from "../../design/Failure";
import { Check, SelectField, TextField } from "../../design/Field";
import { Skeleton } from "../../design/Skeleton";
import { momentText, toMillis } from "../../design/time";
import { VirtualList } from "../../design/VirtualList";
import type { TabProps } from "./ExecutionPage";
import { usePages } from "./usePages";

type Line = Schemas["TaskLine"];

const PAGE = 1_000;

export default function LogsTab({ execution }: TabProps) {
  const id = execution.execution_id;
  const readPage = useCallback(
    async (after: string | undefined) => {
      const page = await read(
        api.GET("/api/executions/{execution_id}/logs", {
          params: { path: { execution_id: id }, query: { after, limit: PAGE } },
        }),
      );
      return { items: page.lines, next: page.next, complete: page.complete };
    },
    [id],
  );
  const logs = usePages(`execution:${id}`, PAGE, readPage);
  const [text, setText] = useState("");
  const [step, setStep] = useState("");
  const [follow, setFollow] = useState(false);
  const steps = useMemo(() => [...new Set(logs.items.map((line) => line.step))].sort(), [logs.items]);
  const shown = useMemo(() => logs.items.filter((line) => fits(line, step, text)), [logs.items, step, text]);
  const { caughtUp, complete, error, reading, readOn } = logs;
  const behind = follow && !caughtUp && !complete && !error && !reading;
  useEffect(() => {
    if (behind) void readOn();
  }, [behind, readOn]);
  if (logs.items.length === 0) {
    if (error) return <Failure error={error} retry={() => void readOn()} />;
    if (logs.next === undefined) return <Skeleton lines={8} />;
    return <Empty title={execution.ended_at === null ? "No task has printed anything yet." : "No task has printed anything."} />;
  }
  return (
    <div className="stack">
      <div className="filters">
        <SelectField
          label="Step"
          value={step}
          choices={[{ value: "", label: "any" }, ...steps.map((value) => ({ value, label: value }))]}
          onChange={setStep}
        />
        <div className="filters-path">
          <TextField label="Search in what was read" type="search" value={text} onChange={setText} />
        </div>
        <Check label="Follow" value={follow} onChange={setFollow} />
      </div>
      {shown.length === 0 ? (
        <Empty title="No line that was read fits the filter." />
      ) : (
        <VirtualList label="Lines" items={shown} itemKey={(_line, index) => String(index)} estimate={20} follow={follow}>
          {(line) => <LogLine line={line} />}
        </VirtualList>
      )}
      {error ? <Failure error={error} /> : null}
      <div className="row spread">
        <span className="muted small" role="status">
          {shown.length} of {logs.items.length} lines read{caughtUp ? ", all so far" : ""}
        </span>
        {caughtUp || complete ? null : (
          <Button onPress={() => void readOn()} disabled={reading}>
            Read on
          </Button>
        )}
      </div>
    </div>
  );
}

function LogLine({ line }: { line: Line }) {
  const zone = useZone();
  const place = [line.step, line.index === null || line.index === undefined ? "" : `[${line.index}]`].join("");
  return (
    <div className="log-line">
      <span className="muted">{momentText(toMillis(line.time), zone, "milli")}</span>
      <span className="muted" title={`run ${line.run ?? ""}, attempt ${line.attempt ?? 1}`}>
        {place}
      </span>
      <span>{line.line}</span>
    </div>
  );
}

function fits(line: Line, step: string, text: string): boolean {
  return (!step || line.step === step) && (!text || line.line.toLowerCase().includes(text.toLowerCase()));
}
