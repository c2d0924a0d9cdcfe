/** A playbook's graph out of the Mermaid text that the server draws. */

export type NodeKind = "step" | "loop" | "gate" | "route" | "end" | "undo" | "playbook";
export type ArcKind = "arc" | "failure" | "cancels" | "undoes" | "calls";

export interface GraphNode {
  id: string;
  kind: NodeKind;
  name: string;
  notes: string[];
}

export interface GraphArc {
  id: string;
  source: string;
  target: string;
  kind: ArcKind;
  label: string;
}

export interface Flowchart {
  nodes: GraphNode[];
  arcs: GraphArc[];
  entry: string | null;
  final: string | null;
}

// The longest opening first: `[` begins several shapes.
const SHAPES: [string, string, NodeKind][] = [
  ['((("', '")))', "end"],
  ['[["', '"]]', "loop"],
  ['{{"', '"}}', "gate"],
  ['[/"', '"/]', "playbook"],
  ['["', '"]', "step"],
  ['("', '")', "route"],
  ['>"', '"]', "undo"],
];

const ARCS: Record<string, ArcKind> = {
  "-->": "arc",
  "-.->": "failure",
  "-.-x": "cancels",
  "-.-o": "undoes",
  "==>": "calls",
};

/** The same graph out of the nodes and edges that the API answers. */
export function chartOf(graph: {
  nodes: { id: string; name: string; kind: string; notes: string[] }[];
  edges: { source: string; target: string; kind: ArcKind; label: string }[];
  entry?: string | null;
  final?: string | null;
}): Flowchart {
  return {
    nodes: graph.nodes.map(({ id, name, kind, notes }) => ({ id, name, notes, kind: (kind === "ends_all" ? "end" : kind) as NodeKind })),
    arcs: graph.edges.map(({ source, target, kind, label }, index) => ({ id: `a${index}`, source, target, kind, label })),
    entry: graph.entry ?? null,
    final: graph.final ?? null,
  };
}

/** A name of a graph's layout: equal for graphs with the same nodes and arcs. */
export function shapeOf({ nodes, arcs }: Flowchart): string {
  return `${nodes.map(({ id }) => id).join()}|${arcs.map(({ source, target }) => `${source}>${target}`).join()}`;
}

const ARC_LINE = /^(\w+) (-->|-\.->|-\.-x|-\.-o|==>)(?:\|"(.*)"\|)? (\w+)$/;

/** Read the lines that `noetl graph` prints; lines of other kinds are left out. */
export function readFlowchart(text: string): Flowchart {
  const chart: Flowchart = { nodes: [], arcs: [], entry: null, final: null };
  for (const line of text.split("\n").map((each) => each.trim())) {
    const begin = /^begin\(\( \)\) --> (\w+)$/.exec(line)?.[1];
    const finish = /^finish\(\[.*\]\) -\.-> (\w+)$/.exec(line)?.[1];
    const arc = ARC_LINE.exec(line);
    if (begin) chart.entry = begin;
    else if (finish) chart.final = finish;
    else if (arc) chart.arcs.push(arcOf(arc, chart.arcs.length));
    else {
      const node = nodeOf(line);
      if (node) chart.nodes.push(node);
    }
  }
  return chart;
}

function arcOf([, source = "", line = "", label = "", target = ""]: RegExpExecArray, index: number): GraphArc {
  return { id: `a${index}`, source, target, kind: ARCS[line] ?? "arc", label: unescapeText(label) };
}

function nodeOf(line: string): GraphNode | null {
  const id = /^\w+/.exec(line)?.[0];
  if (!id) return null;
  const rest = line.slice(id.length);
  const shape = SHAPES.find(([opening, closing]) => rest.startsWith(opening) && rest.endsWith(closing));
  if (!shape) return null;
  const [name = "", ...notes] = rest.slice(shape[0].length, -shape[1].length).split("<br/>").map(unescapeText);
  return { id, kind: shape[2], name, notes };
}

/** `#39;` is the character with that code; nothing is ever read as HTML. */
function unescapeText(text: string): string {
  return text.replace(/#(\d+);/g, (_all, code: string) => String.fromCodePoint(Number(code)));
}
