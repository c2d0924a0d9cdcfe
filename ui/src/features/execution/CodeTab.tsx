/** The YAML that this execution runs, with its error at its line. */
import { useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { lazy, useCallback, useMemo } from "react";

import { type Json, printJson } from "../../api/json";
import { Loaded } from "../../design/Loaded";
import type { Mark } from "../code/marks";
import type { TabProps } from "./ExecutionPage";
import { codeOf, END } from "./queries";
import { renderTemplate } from "./StepResult";
import { whyOf } from "./why";

const CodeView = lazy(() => import("../code/CodeView"));

export default function CodeTab({ execution }: TabProps) {
  const code = useQuery(codeOf(execution));
  const why = whyOf(execution);
  const marks = useMemo((): Mark[] => {
    if (why?.line === undefined) return [];
    return [{ line: why.line, column: why.column ?? 1, severity: "error", message: why.text }];
  }, [why?.line, why?.column, why?.text]);
  const { at } = useSearch({ from: "/shell/executions/$id" });
  const templateValue = useCallback(
    (template: string) =>
      renderTemplate(execution.execution_id, template, at === END ? undefined : at).then(
        ({ rendered, errors }) => errors[0]?.message ?? shortened(printJson(rendered as Json, 2)),
        (failure: unknown) => (failure instanceof Error ? failure.message : "It has no value."),
      ),
    [execution.execution_id, at],
  );
  return (
    <Loaded query={code}>
      {(playbook) => (
        <div className="stack">
          <p className="muted small">
            {playbook.path}, version {playbook.version}. Point at a template, or put the cursor in it and press Control+I, to see its value
            {at === undefined ? " now" : " at the moment that is shown"}.
          </p>
          <CodeView
            label={`Text of ${playbook.path}`}
            identity={`${playbook.path}@${playbook.version} ${why?.line} ${at}`}
            text={playbook.content}
            marks={marks}
            templateValue={templateValue}
          />
        </div>
      )}
    </Loaded>
  );
}

const MOST_SHOWN = 4_000;

function shortened(text: string): string {
  return text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}…` : text;
}
