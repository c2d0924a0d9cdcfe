/** A step of the graph: name, kind, and the status of its latest run. */
import { Handle, type Node, type NodeProps, Position } from "@xyflow/react";

import { Icon } from "../../design/Icon";
import { iconOf, toneOf } from "../../design/Status";
import type { GraphNode } from "./flowchart";
import { type NodeState, stateText } from "./overlay";

export type StepNodeData = {
  step: GraphNode;
  state: NodeState | undefined;
  /** Whether a case of the tests entered it; undefined where no tests are shown. */
  reached: boolean | undefined;
  selected: boolean;
  select: () => void;
};

export function StepNode({ data }: NodeProps<Node<StepNodeData>>) {
  const { step, state, reached, selected, select } = data;
  const tone = state ? toneOf(state.latest.status) : reached === undefined ? undefined : reached ? "good" : "warn";
  return (
    <>
      <Handle type="target" position={Position.Top} isConnectable={false} />
      <button
        type="button"
        className="graph-node nodrag nopan"
        data-kind={step.kind}
        data-tone={tone}
        aria-pressed={selected}
        title={[step.name, ...step.notes, ...(state ? [stateText(state)] : [])].join("\n")}
        onClick={select}
      >
        <span className="graph-node-name">{step.name}</span>
        <span className="graph-node-note">{step.notes.join(" · ") || step.kind}</span>
        {state ? (
          <span className={`graph-node-state tone-${tone}`}>
            <Icon name={iconOf(state.latest.status)} />
            <span>{stateText(state)}</span>
          </span>
        ) : reached === undefined ? null : (
          <span className={`graph-node-state tone-${tone}`}>
            <Icon name={reached ? "check" : "alert"} />
            <span>{reached ? "reached" : "not reached"}</span>
          </span>
        )}
      </button>
      <Handle type="source" position={Position.Bottom} isConnectable={false} />
    </>
  );
}
