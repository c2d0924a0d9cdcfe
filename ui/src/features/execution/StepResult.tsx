/** The result of a step, read when it is asked for: large values stay where they are until then. */
import { useMutation } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";

import { api, read } from "../../api/client";
import type { Json } from "../../api/json";
import { Button } from "../../design/Button";
import { Failure } from "../../design/Failure";
import { JsonTree } from "../../design/JsonTree";
import { Note } from "../../design/Note";
import { END } from "./queries";

/** Render a template against an execution as it is now, or was at a moment of its history. */
export function renderTemplate(execution_id: string, template: string, at?: string) {
  return read(api.POST("/api/context/render", { body: { execution_id, template, at } }));
}

export function StepResult({ executionId, step }: { executionId: string; step: string }) {
  const { at } = useSearch({ from: "/shell/executions/$id" });
  const moment = at === END ? undefined : at;
  const load = useMutation({ mutationFn: (asked: { at?: string }) => renderTemplate(executionId, `{{ ${step} }}`, asked.at) });
  // A result of another moment would be read as one of this.
  const found = load.variables?.at === moment ? load : undefined;
  if (!canBeNamed(step)) return null;
  return (
    <div className="stack">
      <div>
        <Button onPress={() => load.mutate({ at: moment })} disabled={load.isPending}>
          {found?.data ? "Read the result again" : "Show the result"}
        </Button>
      </div>
      {found?.error ? <Failure error={found.error} /> : null}
      {found?.data ? <Rendered label={`result of ${step}`} answer={found.data} /> : null}
    </div>
  );
}

/** A rendered value, and what could not be rendered. */
export function Rendered({ label, answer }: { label: string; answer: Awaited<ReturnType<typeof renderTemplate>> }) {
  return (
    <>
      {answer.errors.map((error) => (
        <Note key={error.path + error.code} tone="warn">
          <p>{error.message}</p>
          {error.hint ? <p className="small">{error.hint}</p> : null}
        </Note>
      ))}
      {answer.errors.length === 0 ? <JsonTree label={label} value={answer.rendered as Json} /> : null}
    </>
  );
}

/** Whether a template can name a step. */
function canBeNamed(step: string): boolean {
  return /^[A-Za-z_]\w*$/.test(step);
}
