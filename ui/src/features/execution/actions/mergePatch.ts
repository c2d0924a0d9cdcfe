/** What a JSON Merge Patch (RFC 7396) makes of a context, and where that differs. */
import type { Schemas } from "../../../api/client";
import { type Json, printJson } from "../../../api/json";
import type { PastState } from "../queries";

type Change = Schemas["ChangeView"];
type Mapping = { [name: string]: Json };

/** The context as the API tells it. `omitted`: names whose values are too large to be told. */
export interface Context {
  values: Mapping;
  omitted: string[];
  leftOut: number;
}

export function contextOf(state: PastState): Context {
  const ctx = state.values.filter((value) => value.scope === "ctx");
  const shown = ctx.filter((value) => !value.omitted);
  return {
    values: Object.fromEntries(shown.map(({ name, value }) => [name, value as Json])),
    omitted: ctx.filter((value) => value.omitted).map(({ name }) => name),
    leftOut: state.values_left_out,
  };
}

/** The places that a patch changes, with their values before and after. */
export function changesOf({ values, omitted }: Context, patch: Mapping): Change[] {
  const large = omitted.filter((name) => name in patch);
  const rest = Object.fromEntries(Object.entries(patch).filter(([name]) => !large.includes(name)));
  return [
    ...large.map((name) => ({ path: name, kind: patch[name] === null ? "removed" : "changed", before: null, after: null, omitted: true })),
    ...differences("", values, merge(values, rest)),
  ];
}

export function merge(value: Json | undefined, patch: Json): Json {
  if (!isMapping(patch)) return patch;
  const merged: Mapping = Object.assign(Object.create(null), isMapping(value) ? value : {});
  for (const [name, part] of Object.entries(patch)) {
    if (part === null) delete merged[name];
    else merged[name] = merge(merged[name], part);
  }
  return merged;
}

function differences(path: string, before: Json | undefined, after: Json | undefined): Change[] {
  if (before === undefined) return [{ path, kind: "added", before: null, after, omitted: false }];
  if (after === undefined) return [{ path, kind: "removed", before, after: null, omitted: false }];
  if (isMapping(before) && isMapping(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
    return names.flatMap((name) => differences(path ? `${path}.${name}` : name, own(before, name), own(after, name)));
  }
  return printJson(before) === printJson(after) ? [] : [{ path, kind: "changed", before, after, omitted: false }];
}

/** A name like `constructor` is one of the context only where the context has it. */
function own(mapping: Mapping, name: string): Json | undefined {
  return Object.hasOwn(mapping, name) ? mapping[name] : undefined;
}

function isMapping(value: Json | undefined): value is Mapping {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
