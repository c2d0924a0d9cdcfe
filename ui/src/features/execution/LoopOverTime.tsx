/** A loop over time as a table: what the columns of its bar show; each row leads to the items that begin there. */
import { useQuery } from "@tanstack/react-query";

import type { Schemas } from "../../api/client";
import { Loaded } from "../../design/Loaded";
import { Moment } from "../../design/Moment";
import { Table } from "../../design/Table";
import { durationText, toMillis } from "../../design/time";
import { bandsOf, type StepRun } from "./queries";

export type Band = Schemas["LoopBand"];

export function LoopOverTime({ executionId, step, open }: { executionId: string; step: StepRun; open: (band: Band) => void }) {
  const query = useQuery(bandsOf(executionId, step));
  const begin = toMillis(step.started_at);
  return (
    <Loaded query={query} lines={4}>
      {({ bands, running, span_ms: length }) =>
        bands.length === 0 ? (
          <p className="muted small">No item has ended yet.</p>
        ) : (
          <>
            <p className="muted small">
              Items by the time of their end, from <Moment at={step.started_at} precise /> on, in spans of {durationText(length)}
              {running > 0 ? `; ${running} are under way` : ""}.
            </p>
            <div className="loop-bands">
              <Table
                label={`${step.step} over time`}
                rows={bands}
                rowKey={({ at }) => at}
                columns={[
                  { title: "From", numeric: true, cell: ({ at }) => `+${durationText(Math.max(0, toMillis(at) - begin))}` },
                  { title: "Done", numeric: true, cell: ({ done }) => done },
                  { title: "Failed", numeric: true, cell: ({ failed }) => failed },
                  {
                    title: "Items",
                    cell: (band) => (
                      <button type="button" className="step-button" onClick={() => open(band)}>
                        from {band.first}
                      </button>
                    ),
                  },
                ]}
              />
            </div>
          </>
        )
      }
    </Loaded>
  );
}
