/** What the schema of playbooks says of a place: the parts of it that may hold there. */
import type { Level, Place } from "./place";

/** A part of the JSON Schema that the server answers, with its notes for editors. */
export interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema>;
  type?: string | string[];
  properties?: Record<string, Schema | boolean>;
  patternProperties?: Record<string, Schema | boolean>;
  additionalProperties?: Schema | boolean;
  maxProperties?: number;
  items?: Schema | boolean;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  if?: Schema;
  then?: Schema;
  required?: string[];
  const?: unknown;
  enum?: unknown[];
  default?: unknown;
  description?: string;
  "x-place"?: string;
  "x-refers"?: string;
  "x-docs"?: string;
  "x-templates"?: TemplateWords;
}

/** What templates may say. */
export interface TemplateWords {
  names: Record<string, { description: string; places: string[]; fields?: string[] }>;
  /** Where names of a playbook mean something: arguments, steps, tasks, the element of a loop. */
  own: Record<string, string[]>;
  filters: string[];
  tests: string[];
  functions: string[];
}

export interface Found {
  /** Every part of the schema that may hold at the place. */
  parts: Schema[];
  /** The kind of place that a template stands at. */
  place?: string;
  /** What a text here names. */
  refers?: string;
  /** The keys that the mapping has beside the cursor. */
  keys: Level["keys"];
}

export interface Key {
  name: string;
  description?: string;
  default?: unknown;
  docs?: string;
}

type Keys = Level["keys"];
const DEPTH = 40;
const NO_KEYS: Keys = new Map();

/** The parts of the schema for what is at a place: the mapping of a key, the value of one, the entry of a list. */
export function schemaAt(root: Schema, place: Place): Found {
  const walk = new Walk(root);
  const { levels } = place;
  let parts = walk.expanded([root], levels[0]?.keys ?? NO_KEYS);
  levels.forEach(({ entry }, at) => {
    if (entry === null) return;
    const next = typeof entry === "number" ? items(parts) : values(parts, entry);
    if (typeof entry !== "number") walk.refers = undefined;
    parts = walk.expanded(next, levels[at + 1]?.keys ?? null);
  });
  const last = levels.at(-1);
  return { parts, place: walk.place, refers: walk.refers, keys: last?.entry === null ? last.keys : NO_KEYS };
}

/** The keys that a mapping may have, each once; those of a kind before those of every task. */
export function keysOf(parts: Schema[]): Key[] {
  const found = new Map<string, Key>();
  for (const part of parts.toReversed()) {
    for (const [name, about] of Object.entries(part.properties ?? {})) {
      // What has no description only narrows a key; what may have no entries means nothing.
      if (typeof about === "boolean" || !about.description || Number(about.maxProperties ?? 1) === 0 || found.has(name)) continue;
      found.set(name, { name, description: about.description, default: about.default, docs: part["x-docs"] });
    }
  }
  return [...found.values()];
}

/** The words that a value may be. */
export function wordsOf(parts: Schema[]): string[] {
  const found = new Set<string>();
  for (const part of parts) {
    const types = [part.type ?? []].flat();
    for (const word of part.enum ?? []) if (word !== null) found.add(String(word));
    if (part.const !== undefined && part.const !== null) found.add(String(part.const));
    if (types.includes("boolean") && !part.enum) ["true", "false"].forEach((word) => found.add(word));
  }
  return [...found];
}

class Walk {
  place?: string;
  refers?: string;

  constructor(readonly root: Schema) {}

  /** The parts that hold for a mapping with these keys; null: what the value is, is not known. */
  expanded(from: (Schema | boolean)[], keys: Keys | null): Schema[] {
    const found: Schema[] = [];
    for (const part of from) this.add(part, keys, found, DEPTH);
    return found;
  }

  private add(part: Schema | boolean | undefined, keys: Keys | null, found: Schema[], depth: number): void {
    if (typeof part !== "object" || part === null || depth === 0) return;
    found.push(part);
    this.place = part["x-place"] ?? this.place;
    this.refers = part["x-refers"] ?? this.refers;
    if (part.$ref) this.add(this.resolved(part), keys, found, depth - 1);
    for (const branch of part.allOf ?? []) this.add(branch, keys, found, depth - 1);
    for (const branches of [part.anyOf, part.oneOf]) {
      if (!branches) continue;
      const fitting = keys === null ? branches : branches.filter((branch) => this.fits(branch, keys, depth - 1));
      for (const branch of fitting.length > 0 ? fitting : branches) this.add(branch, keys, found, depth - 1);
    }
    if (part.if && part.then && keys && this.holds(part.if, keys)) this.add(part.then, keys, found, depth - 1);
  }

  private resolved(part: Schema): Schema | undefined {
    const name = /^#\/\$defs\/(.+)$/.exec(part.$ref ?? "")?.[1];
    return name === undefined ? undefined : this.root.$defs?.[name];
  }

  /** Whether a mapping with these keys can be meant by a branch. */
  private fits(branch: Schema, keys: Keys, depth: number): boolean {
    if (depth === 0) return false;
    if (branch.$ref) {
      const target = this.resolved(branch);
      return target !== undefined && this.fits(target, keys, depth - 1);
    }
    const inner = branch.anyOf ?? branch.oneOf;
    if (inner) return inner.some((one) => this.fits(one, keys, depth - 1));
    if (keys.size === 0) return true;
    if (branch.type !== undefined && ![branch.type].flat().includes("object")) return false;
    const properties = branch.properties ?? {};
    return [...keys].every(([key, text]) => {
      const about = properties[key];
      if (about === undefined) return branch.additionalProperties !== false || matching(branch, key) !== undefined;
      return typeof about === "boolean" || text === null || about.const === undefined || String(about.const) === text;
    });
  }

  /** Whether the condition of a part holds for a mapping: keys that are there, words that they have. */
  private holds(condition: Schema, keys: Keys): boolean {
    if (condition.required?.some((key) => !keys.has(key))) return false;
    if (condition.anyOf && !condition.anyOf.some((one) => this.holds(one, keys))) return false;
    return Object.entries(condition.properties ?? {}).every(([key, about]) => {
      const text = keys.get(key);
      if (typeof about === "boolean" || text === undefined || text === null) return true;
      if (about.const !== undefined) return String(about.const) === text;
      return !about.enum || about.enum.some((word) => String(word) === text);
    });
  }
}

function values(parts: Schema[], key: string): (Schema | boolean)[] {
  return parts.flatMap((part) => part.properties?.[key] ?? matching(part, key) ?? part.additionalProperties ?? []);
}

function items(parts: Schema[]): (Schema | boolean)[] {
  return parts.flatMap((part) => part.items ?? []);
}

function matching(part: Schema, key: string): Schema | boolean | undefined {
  return Object.entries(part.patternProperties ?? {}).find(([pattern]) => new RegExp(pattern, "u").test(key))?.[1];
}
