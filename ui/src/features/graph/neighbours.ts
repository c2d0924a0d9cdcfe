/** The step that an arrow key leads to. */
import type { Flowchart } from "./flowchart";
import type { Layout } from "./sizes";

export const ARROWS = ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"] as const;
export type Arrow = (typeof ARROWS)[number];

/** Up and down: the nearest connected step there. To the sides: the next step that is connected with the same one. */
export function neighbourOf({ arcs }: Pick<Flowchart, "arcs">, positions: Layout, id: string, arrow: Arrow): string | undefined {
  const connected = new Map<string, Set<string>>();
  for (const { source, target } of arcs) {
    if (source === target) continue;
    connected.set(source, (connected.get(source) ?? new Set()).add(target));
    connected.set(target, (connected.get(target) ?? new Set()).add(source));
  }
  const here = positions[id];
  const around = [...(connected.get(id) ?? [])];
  if (!here) return undefined;
  const upright = arrow === "ArrowUp" || arrow === "ArrowDown";
  const sign = arrow === "ArrowDown" || arrow === "ArrowRight" ? 1 : -1;
  const beside = around.flatMap((one) => [...(connected.get(one) ?? [])]).filter((one) => one !== id && positions[one]?.y === here.y);
  const [along, across] = upright ? (["y", "x"] as const) : (["x", "y"] as const);
  const distance = (one: string) => ({
    ahead: ((positions[one]?.[along] ?? 0) - here[along]) * sign,
    aside: Math.abs((positions[one]?.[across] ?? 0) - here[across]),
  });
  return [...new Set(upright ? around : [...beside, ...around.filter((one) => positions[one]?.y === here.y)])]
    .map((one) => ({ one, ...distance(one) }))
    .filter(({ ahead }) => ahead > 0)
    .sort((left, right) => left.ahead - right.ahead || left.aside - right.aside)[0]?.one;
}
