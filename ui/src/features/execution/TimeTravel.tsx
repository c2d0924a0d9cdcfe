/** A slider over the history: every view shows the moment, and this bar what changed there. */
import { useNavigate } from "@tanstack/react-router";
import { useId } from "react";

import { Button } from "../../design/Button";
import { ChangeList } from "../../design/ChangeList";
import { Failure } from "../../design/Failure";
import { Icon } from "../../design/Icon";
import { Moment } from "../../design/Moment";
import { Status } from "../../design/Status";
import type { TabProps } from "./ExecutionPage";
import { END, type PastState } from "./queries";
import { usePast } from "./usePast";
import { usePlace } from "./usePlace";

export function TimeTravel({ execution }: TabProps) {
  const { at, query } = usePast(execution.execution_id);
  const navigate = useNavigate({ from: "/executions/$id" });
  const go = (moment: string | undefined) =>
    void navigate({ search: (before) => ({ ...before, at: moment }), replace: at !== undefined, resetScroll: false });
  if (at === undefined) return null;
  return (
    <section className="card stack past" aria-label="Time travel">
      {query.error ? <Failure error={query.error} retry={() => go(END)} /> : null}
      {query.data ? <Slider past={query.data} go={go} /> : query.error ? null : <p className="muted">Reading the history…</p>}
      {query.data ? <Changes past={query.data} /> : null}
    </section>
  );
}

function Slider({ past, go }: { past: PastState; go: (moment: string | undefined) => void }) {
  const id = useId();
  const { place, move, step } = usePlace(past.at, (fact) => go(String(fact)));
  return (
    <>
      <div className="past-line">
        <label htmlFor={id}>Fact</label>
        <output className="numeric past-count" htmlFor={id}>
          {place} of {past.total}
        </output>
        <Button label="One fact back" disabled={past.at === 0} onPress={() => step(past.at - 1)}>
          <Icon name="back" />
        </Button>
        <input
          id={id}
          type="range"
          min={0}
          max={past.total}
          value={place}
          aria-valuetext={`${place} of ${past.total}`}
          onChange={(event) => move(Number(event.target.value))}
        />
        <Button label="One fact on" disabled={past.at >= past.total} onPress={() => step(past.at + 1)}>
          <Icon name="on" />
        </Button>
        <Button onPress={() => go(undefined)}>Back to now</Button>
      </div>
      <div className="row past-fact">
        <Status of={past.status} />
        {past.fact ? (
          <>
            <span className="mono">{past.fact.name}</span>
            {past.fact.step ? (
              <span>
                {past.fact.step} #{past.fact.run}
              </span>
            ) : null}
            <Moment at={past.fact.at} precise />
          </>
        ) : (
          <span className="muted">before the first fact</span>
        )}
      </div>
    </>
  );
}

function Changes({ past }: { past: PastState }) {
  if (past.changes.length === 0) return <p className="muted small">This fact changed no status and no value.</p>;
  return <ChangeList label="What this fact changed" changes={past.changes} leftOut={past.changes_left_out} />;
}
