/** The YAML that this execution runs, with its error at its line. */
import { useQuery } from "@tanstack/react-query";
import { lazy, useMemo } from "react";

import { Loaded } from "../../design/Loaded";
import type { Mark } from "../code/marks";
import type { TabProps } from "./ExecutionPage";
import { codeOf } from "./queries";
import { whyOf } from "./why";

const CodeView = lazy(() => import("../code/CodeView"));

export default function CodeTab({ execution }: TabProps) {
  const code = useQuery(codeOf(execution.execution_id, execution.path));
  const why = whyOf(execution);
  const marks = useMemo((): Mark[] => {
    if (why?.line === undefined) return [];
    return [{ line: why.line, column: why.column ?? 1, severity: "error", message: why.text }];
  }, [why?.line, why?.column, why?.text]);
  return (
    <Loaded query={code}>
      {(playbook) => (
        <div className="stack">
          <p className="muted small">
            {playbook.path}, version {playbook.version}
          </p>
          <CodeView
            label={`Text of ${playbook.path}`}
            identity={`${playbook.path}@${playbook.version} ${why?.line}`}
            text={playbook.content}
            marks={marks}
          />
        </div>
      )}
    </Loaded>
  );
}
