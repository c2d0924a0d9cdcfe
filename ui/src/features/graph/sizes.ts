/** The box of a node in pixels, as graph.css draws it, and where nodes are. */
export const NODE_WIDTH = 208;
export const NODE_HEIGHT = 72;
/** How far the arc of a step to itself reaches beyond its node. */
export const SELF_ARC_PX = 40;

export const LABEL_GAP_PX = 6;
export const LETTER_PX = 5.6;

/** How far the arc of a step to itself and its label reach beyond the node. */
export function reachOfSelfArc(label: string): number {
  return label ? SELF_ARC_PX + LABEL_GAP_PX + label.length * LETTER_PX : SELF_ARC_PX;
}

/** The upper left corner of each node, by its id. */
export type Layout = Record<string, { x: number; y: number }>;
