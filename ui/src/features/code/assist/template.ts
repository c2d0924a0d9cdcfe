/** What may be written at a place of a template: names, entries of scopes, filters, tests. */
import type { Schemas } from "../../../api/client";
import type { TemplateWords } from "./schema";

export type Names = Schemas["PlaybookNames"];

export interface Word {
  name: string;
  kind: "name" | "entry" | "filter" | "test" | "function";
  description?: string;
}

interface Where {
  /** The kind of place, if it is known. */
  place?: string;
  /** The step that the template is a part of. */
  step?: string;
}

/** How many characters before the cursor are the word that is being written. */
export function wordBefore(before: string): string {
  return /[\w-]*$/.exec(before)?.[0] ?? "";
}

/** The words that fit at the end of what is before the cursor. */
export function templateWords(before: string, words: TemplateWords, names: Names | null, where: Where): Word[] {
  const rest = before.slice(0, before.length - wordBefore(before).length);
  if (isInText(rest)) return [];
  if (/\|\s*$/.test(rest)) return words.filters.map((name) => ({ name, kind: "filter" }));
  if (/\bis\s+(?:not\s+)?$/.test(rest)) return words.tests.map((name) => ({ name, kind: "test" }));
  const chain = CHAIN.exec(rest)?.[1]?.replaceAll(/\s*\[\s*-?\d+\s*\]/g, ELEMENT).split(".").slice(0, -1) ?? [];
  const scope = chain[0]?.replaceAll(ELEMENT, "");
  // `load[0].id` is an entry of an element of what `load` is.
  const path = [...(chain[0]?.includes(ELEMENT) ? [ELEMENT] : []), ...chain.slice(1)];
  if (scope !== undefined) return entriesOf(scope, path, words, names, where).map((name) => ({ name, kind: "entry" }));
  return rest.endsWith(".") ? [] : namesAt(words, names, where);
}

/** What a name of a template is, in a sentence. */
export function aboutName(name: string, words: TemplateWords, names: Names | null, where: Where): string | undefined {
  return words.names[name]?.description ?? namesAt(words, names, { step: where.step }).find((word) => word.name === name)?.description;
}

function namesAt(words: TemplateWords, names: Names | null, { place, step }: Where): Word[] {
  const means = (places: string[] | undefined) => place === undefined || !places || places.includes(place);
  const found: Word[] = [];
  const add = (name: string | null | undefined, role: string, description: string) => {
    if (name && means(words.own[role]) && !found.some((word) => word.name === name)) found.push({ name, kind: "name", description });
  };
  const own = names?.steps.find((one) => one.step === step);
  add(own?.iterator, "element", "The element of this iteration.");
  own?.tasks.forEach((name) => add(name, "task", "The result of a task of this step."));
  own?.arguments.forEach((name) => add(name, "argument", "An argument of this step."));
  for (const one of names?.steps ?? []) {
    const role = one.step === step ? "self" : "step";
    [one.step, one.alias].forEach((name) => add(name, role, role === "self" ? "What the last call of this step returned." : "The result of a step."));
  }
  for (const [name, about] of Object.entries(words.names)) {
    if (means(about.places) && !found.some((word) => word.name === name)) found.push({ name, kind: "name", description: about.description });
  }
  return [...found, ...words.functions.map((name): Word => ({ name, kind: "function" }))];
}

/** An element of a list, as the server writes it. */
const ELEMENT = "[]";

/** A name and entries of it up to the last dot; `[0]` is an entry of a list. */
const CHAIN = /(?:^|[^\w.\])])((?:[A-Za-z_][\w-]*(?:\s*\[\s*-?\d+\s*\])*\.)+)$/;

function entriesOf(scope: string, path: string[], words: TemplateWords, names: Names | null, { step }: Where): string[] {
  const own = names?.steps.find((one) => one.step === step);
  const found = names?.steps.find((one) => one.step === scope || one.alias === scope);
  // A task of a step is read by its label there, and as an entry of the step elsewhere.
  if (own?.tasks.includes(scope)) return below(own.fields, [scope, ...path]);
  if (found) return below(found.fields, path);
  if (path.length > 0) return [];
  const fields = words.names[scope]?.fields ?? [];
  switch (scope) {
    case "workload":
    case "ctx":
    case "vars":
    case "keychain":
      return names?.[scope] ?? [];
    case "args":
    case "input":
      return own?.arguments ?? [];
    case "iter":
      return [...(own?.iteration ?? []), ...(own?.iterator ? [own.iterator] : []), ...fields.filter((name) => !own?.iteration.includes(name))];
    default:
      return fields;
  }
}

/** The names directly below a path. What follows from the text has no elements: there a number is left out. */
function below(fields: string[], path: string[]): string[] {
  const found = directlyBelow(fields, path);
  return found.length > 0 ? found : directlyBelow(fields, path.map((name) => name.replaceAll(ELEMENT, "")).filter(Boolean));
}

function directlyBelow(fields: string[], path: string[]): string[] {
  const begin = path.map((name) => `${name}.`).join("");
  return fields.filter((name) => name.startsWith(begin) && !name.includes(".", begin.length)).map((name) => name.slice(begin.length));
}

/** Whether the cursor is between quotes of the template. */
function isInText(before: string): boolean {
  let open = "";
  for (const character of before) {
    if (open === "" && (character === "'" || character === '"')) open = character;
    else if (character === open) open = "";
  }
  return open !== "";
}
