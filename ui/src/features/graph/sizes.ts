/** The box of a node in pixels, as graph.css draws it, and where nodes are. */
export const NODE_WIDTH = 208;
export const NODE_HEIGHT = 72;
/** How far the arc of a step to itself reaches beyond its node. */
export const SELF_ARC_PX = 40;

/** The upper left corner of each node, by its id. */
export type Layout = Record<string, { x: number; y: number }>;
