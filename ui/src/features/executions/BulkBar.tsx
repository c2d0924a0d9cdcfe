/** What can be done to the selected executions, or to all that fit the filter. */
import { Link } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";

import { ActionButton, Button } from "../../design/Button";
import type { BulkAction } from "./bulk";
import { bulkFilter, type ExecutionsSearch, isFiltered } from "./search";

const BulkDialog = lazy(() => import("./BulkDialog"));

const ACTIONS: [BulkAction, string][] = [
  ["pause", "Pause…"],
  ["resume", "Resume…"],
  ["redrive", "Redrive…"],
  ["cancel", "Cancel…"],
];

export function BulkBar({ ids, search, done }: { ids: ReadonlySet<string>; search: ExecutionsSearch; done: () => void }) {
  const [asked, setAsked] = useState<BulkAction | null>(null);
  const [byFilter, setByFilter] = useState(false);
  if (ids.size === 0) return null;
  const filter = byFilter ? bulkFilter(search, Date.now()) : { ids: [...ids] };
  const title = byFilter ? "all that fit the filter" : `${ids.size} selected`;
  return (
    <div className="bulk row spread" role="region" aria-label="Selected executions">
      <div className="row">
        <strong>{title}</strong>
        <Button look="plain" onPress={done}>
          Clear
        </Button>
        {isFiltered(search) ? (
          <Button look="plain" pressed={byFilter} onPress={() => setByFilter(!byFilter)}>
            All that fit the filter
          </Button>
        ) : null}
      </div>
      <div className="row">
        {ids.size === 2 && !byFilter ? <CompareLink ids={[...ids]} /> : null}
        {ACTIONS.map(([action, label]) => (
          <ActionButton
            key={action}
            scope="execute"
            look={action === "cancel" ? "risky" : undefined}
            onPress={() => setAsked(action)}
          >
            {label}
          </ActionButton>
        ))}
      </div>
      <Suspense>
        {asked ? (
          <BulkDialog
            action={asked}
            filter={filter}
            title={title}
            close={() => setAsked(null)}
            done={() => {
              setAsked(null);
              done();
            }}
          />
        ) : null}
      </Suspense>
    </div>
  );
}

/** The older of two executions is on the left; ids grow with time. */
function CompareLink({ ids }: { ids: string[] }) {
  const [a, b] = [...ids].sort((one, other) => one.length - other.length || (one < other ? -1 : 1));
  return (
    <Link className="button" to="/compare" search={{ a, b }}>
      Compare
    </Link>
  );
}
