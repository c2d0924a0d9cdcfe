/** What tasks have printed: searched by the server, from the start, the newest first, or the end as it grows. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useEffect, useState } from "react";

import { api, read } from "../../api/client";
import { useZone } from "../../app/preferences";
import { Button } from "../../design/Button";
import { Empty } from "../../design/Empty";
import { Failure } from "../../design/Failure";
import { SelectField } from "../../design/Field";
import { Icon } from "../../design/Icon";
import { Moment } from "../../design/Moment";
import { Skeleton } from "../../design/Skeleton";
import { iconOf, toneOf } from "../../design/Status";
import { TextFilter } from "../../design/TextFilter";
import { momentText, toMillis } from "../../design/time";
import { VirtualList } from "../../design/VirtualList";
import type { TabProps } from "./ExecutionPage";
import { type Line, type LogQuery, PAGE, type Part, readLines } from "./logPages";
import { type ExecutionSearch, LEVELS, PARTS } from "./search";
import { choicesOf, useStepNames } from "./stepChoices";
import { usePages } from "./usePages";

const PART_CHOICES = [
  { value: "start", label: "From the start" },
  { value: "newest", label: "Newest first" },
  { value: "end", label: "The end, followed" },
];
/** A graver level fits, too. */
const LEVEL_CHOICES = [
  { value: "", label: "any or none" },
  ...LEVELS.map((level) => ({ value: level, label: level === "critical" ? level : `${level} and worse` })),
];
/** Between two looks at the end: what a task prints is no event of its own. */
const FOLLOW_MS = 2_000;

type Filter = Pick<ExecutionSearch, "search" | "step" | "attempt" | "ofRun" | "show" | "level">;

export default function LogsTab({ execution }: TabProps) {
  const { search, step, attempt, ofRun, level, show = "start" } = useSearch({ from: "/shell/executions/$id" });
  const navigate = useNavigate({ from: "/executions/$id" });
  const steps = useStepNames(execution.execution_id);
  const [looks, setLooks] = useState(0);
  const change = (part: Filter) =>
    void navigate({ search: (before) => ({ ...before, ...part }), replace: true, resetScroll: false });
  const ended = execution.ended_at !== null;
  const lookAgain = show === "newest" && !ended ? () => setLooks(looks + 1) : null;
  return (
    <div className="stack">
      <search className="filters">
        <SelectField
          label="Show"
          value={show}
          choices={PART_CHOICES}
          onChange={(value) => change({ show: PARTS.find((one) => one === value && one !== "start") })}
        />
        <TextFilter label="Search" placeholder="text of a line" value={search} apply={(text) => change({ search: text })} />
        <SelectField label="Step" value={step ?? ""} choices={choicesOf(steps, step)} onChange={(value) => change({ step: value || undefined, ofRun: undefined })} />
        <SelectField
          label="Level"
          value={level ?? ""}
          choices={LEVEL_CHOICES}
          onChange={(value) => change({ level: LEVELS.find((one) => one === value) })}
        />
        <TextFilter
          label="Attempt"
          placeholder="any"
          value={attempt === undefined ? undefined : String(attempt)}
          apply={(text) => change({ attempt: text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : undefined })}
        />
        {ofRun === undefined ? null : (
          <div className="field">
            <span className="label">Step run</span>
            <Button onPress={() => change({ ofRun: undefined })} label={`Remove the filter by step run ${ofRun}`}>
              Run {ofRun}
            </Button>
          </div>
        )}
      </search>
      <Lines
        key={JSON.stringify([search, step, attempt, ofRun, level, show, looks])}
        id={execution.execution_id}
        ended={ended}
        filter={{ search, step, attempt, ofRun, level }}
        part={show}
        lookAgain={lookAgain}
      />
    </div>
  );
}

interface LinesProps {
  id: string;
  ended: boolean;
  filter: Filter;
  part: Part;
  /** Reads the newest lines again, where there may be newer ones. */
  lookAgain: (() => void) | null;
}

function Lines({ id, ended, filter, part, lookAgain }: LinesProps) {
  const { search, step, attempt, ofRun: run, level } = filter;
  const readPage = useCallback(
    (after: string | undefined) => {
      const ask = (query: LogQuery) =>
        read(
          api.GET("/api/executions/{execution_id}/logs", {
            params: { path: { execution_id: id }, query: { ...query, search, step, run, attempt, level } },
          }),
        );
      return readLines(part, ask, after);
    },
    [id, search, step, run, attempt, level, part],
  );
  const logs = usePages(part === "newest" ? "" : `execution:${id}`, PAGE, readPage);
  const { caughtUp, complete, error, reading, readOn } = logs;
  const follow = part === "end";
  useFollowed(follow && !complete, follow && !caughtUp && !error && !reading, readOn);
  const filtered = [search, step, run, attempt, level].some((value) => value !== undefined);
  if (logs.items.length === 0) {
    if (error) return <Failure error={error} retry={() => void readOn()} />;
    if (logs.next === undefined) return <Skeleton lines={8} />;
  }
  return (
    <>
      {logs.items.length === 0 ? (
        <Empty title={emptyTitle(filtered, caughtUp, ended)} />
      ) : (
        <VirtualList label="Lines" items={logs.items} itemKey={(_line, index) => String(index)} estimate={20} follow={follow}>
          {(line) => <LogLine line={line} />}
        </VirtualList>
      )}
      {error ? <Failure error={error} /> : null}
      <div className="row spread">
        <span className="muted small" role="status">
          <HowFar logs={logs} filtered={filtered} part={part} />
        </span>
        {lookAgain ? <Button onPress={lookAgain}>Look again</Button> : null}
        {caughtUp || complete || follow ? null : (
          <Button onPress={() => void readOn()} disabled={reading}>
            {reading ? "Reading…" : "Read on"}
          </Button>
        )}
      </div>
    </>
  );
}

/** Reads what follows: at once what is there already, and what tasks print meanwhile, while the page is visible. */
function useFollowed(open: boolean, behind: boolean, readOn: () => Promise<void>) {
  useEffect(() => {
    if (behind) void readOn();
  }, [behind, readOn]);
  useEffect(() => {
    if (!open) return;
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") void readOn();
    }, FOLLOW_MS);
    return () => clearInterval(timer);
  }, [open, readOn]);
}

function emptyTitle(filtered: boolean, caughtUp: boolean, ended: boolean): string {
  if (filtered) return caughtUp ? "No line fits the filter." : "No line that was looked at fits the filter.";
  return ended ? "No task has printed anything." : "No task has printed anything yet.";
}

/** How many lines are shown, and how far the server has looked for them. */
function HowFar({
  logs: { items, caughtUp, complete, scannedUntil },
  filtered,
  part,
}: {
  logs: { items: Line[]; caughtUp: boolean; complete: boolean; scannedUntil: string | null };
  filtered: boolean;
  part: Part;
}) {
  const count = `${items.length} ${items.length === 1 ? "line" : "lines"}`;
  if (part === "end") return <>{`The last ${count}${filtered ? " that fit" : ""}${complete ? "" : ", followed"}`}</>;
  if (caughtUp) return <>{`${count}${filtered ? " that fit" : ""}, all so far`}</>;
  if (!filtered || scannedUntil === null) return <>{`${count} read`}</>;
  return (
    <>
      {count} that fit until <Moment at={scannedUntil} precise />
    </>
  );
}

/** The level with which a line begins, as icon and word; lines without one have an empty place. */
function Level({ of: level }: { of: Line["level"] }) {
  if (!level) return <span />;
  return (
    <span className={`log-level tone-only-${toneOf(level)}`}>
      <Icon name={iconOf(level)} />
      {level}
    </span>
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
      <Level of={line.level} />
      <span>{line.line}</span>
    </div>
  );
}
