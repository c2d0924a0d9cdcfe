/** An arc from a step to itself: a loop at the right side of its node. */
import { BaseEdge, type EdgeProps } from "@xyflow/react";

import { LABEL_GAP_PX, LETTER_PX, NODE_WIDTH, SELF_ARC_PX } from "./sizes";

const SPREAD_PX = 14;

export function SelfArc({ sourceX, sourceY, targetY, label, markerEnd }: EdgeProps) {
  const side = sourceX + NODE_WIDTH / 2;
  const middle = (sourceY + targetY) / 2;
  const far = side + SELF_ARC_PX * 1.3;
  const path = `M ${side} ${middle + SPREAD_PX} C ${far} ${middle + 2.4 * SPREAD_PX}, ${far} ${middle - 2.4 * SPREAD_PX}, ${side + 2} ${middle - SPREAD_PX}`;
  const words = String(label ?? "");
  const labelX = side + SELF_ARC_PX + LABEL_GAP_PX + (words.length * LETTER_PX) / 2;
  return <BaseEdge path={path} markerEnd={markerEnd} label={words || undefined} labelX={labelX} labelY={middle} />;
}
