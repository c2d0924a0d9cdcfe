/** A form out of a JSON Schema: plain fields for plain types, JSON for all others. */
import { type Json, parseJson, printJson } from "../../api/json";

export interface FormField {
  name: string;
  kind: "text" | "integer" | "number" | "boolean" | "choice" | "json";
  required: boolean;
  hint: string;
  choices: Json[];
  /** What the field begins with, as text. */
  start: string;
  /** The value where it is left empty, as text; "" where there is none. */
  otherwise: string;
}

interface Schema {
  type?: string | string[];
  properties?: Record<string, Schema>;
  required?: string[];
  enum?: Json[];
  default?: Json;
  description?: string;
  title?: string;
  minimum?: Json;
  maximum?: Json;
  [name: string]: unknown;
}

/** The fields of an object's schema; `known` are values that a form begins with, `defaults` those that count where it has none. */
export function fieldsOf(schema: unknown, known: { [name: string]: Json } = {}, defaults: { [name: string]: Json } = {}): FormField[] {
  const { properties = {}, required = [] } = (schema ?? {}) as Schema;
  const names = [...Object.keys(properties), ...Object.keys(known).filter((name) => !Object.hasOwn(properties, name))];
  return names.map((name) => {
    // A name may be `constructor`, which every object has.
    const part = own(properties, name) ?? {};
    const value = Object.hasOwn(known, name) ? known[name] : part.default;
    const kind = kindOf(part, value);
    return {
      name,
      kind,
      required: required.includes(name),
      hint: hintOf(part),
      choices: part.enum ?? [],
      start: value === undefined ? "" : textOf(kind, value),
      otherwise: defaults[name] === undefined ? "" : textOf("text", defaults[name]),
    };
  });
}

function kindOf(part: Schema, value: Json | undefined): FormField["kind"] {
  if (part.enum) return "choice";
  const type = part.type ?? typeOf(value);
  if (type === "string") return "text";
  return type === "integer" || type === "number" || type === "boolean" ? type : "json";
}

function typeOf(value: Json | undefined): string | undefined {
  if (typeof value === "bigint") return "integer";
  return typeof value;
}

function hintOf({ title, description, minimum, maximum }: Schema): string {
  const bounds = [minimum === undefined ? "" : `at least ${minimum}`, maximum === undefined ? "" : `at most ${maximum}`];
  return [title, description, bounds.filter(Boolean).join(", ")].filter(Boolean).join(" · ");
}

function textOf(kind: FormField["kind"], value: Json): string {
  return kind === "text" && typeof value === "string" ? value : printJson(value, kind === "json" ? 2 : undefined);
}

/** The entry of that name, where an object has one of its own. */
export function own<Value>(entries: { [name: string]: Value }, name: string): Value | undefined {
  return Object.hasOwn(entries, name) ? entries[name] : undefined;
}

/** The payload that the texts of a form say, or what is wrong, by field. Empty optional fields are left out. */
export function valueOf(
  fields: FormField[],
  texts: Record<string, string>,
): { payload: { [name: string]: Json }; wrong: Record<string, string> } {
  const payload: { [name: string]: Json } = {};
  const wrong: Record<string, string> = {};
  for (const field of fields) {
    const text = own(texts, field.name) ?? field.start;
    if (text === "" && field.kind !== "text") {
      if (field.required) wrong[field.name] = "A value is needed.";
      continue;
    }
    if (text === "" && !field.required && field.start === "") continue;
    try {
      payload[field.name] = field.kind === "text" ? text : parseJson(text);
      if (field.kind === "integer" && !/^-?\d+$/.test(text.trim())) wrong[field.name] = "An integer is needed.";
      // 1e999 is no number that JSON has.
      if (field.kind === "number" && typeof payload[field.name] !== "bigint" && !Number.isFinite(payload[field.name])) {
        wrong[field.name] = "A number is needed.";
      }
    } catch {
      wrong[field.name] = field.kind === "json" ? "This is not JSON." : "A number is needed.";
    }
  }
  return { payload, wrong };
}
