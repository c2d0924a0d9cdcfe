/** Completion in a playbook: keys, words and names of the schema, names and filters of templates. */
import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { pickedCompletion } from "@codemirror/autocomplete";
import type { EditorView } from "@codemirror/view";

import { helpBox } from "./help";
import { isProse, type Place, placeOf, type Template, templateBefore } from "./place";
import { type Key, keysOf, type Schema, schemaAt, wordsOf } from "./schema";
import { type Names, templateWords, wordBefore } from "./template";

/** What the server says of playbooks, and of this one; null where it does not. */
export interface Knowledge {
  schema: () => Schema | Promise<Schema | null>;
  names: () => Names | null;
}

const WORD = /[^\s{}[\],:"'#|]*$/;
/** The type of a completion after which its value is offered. */
export const KEY = "key";
/** A key that is another spelling is offered behind the one it stands for. */
const OTHER_SPELLING = /^Another spelling/;

export function complete(known: Knowledge) {
  return (context: CompletionContext): CompletionResult | null | Promise<CompletionResult | null> => {
    const schema = known.schema();
    if (!(schema instanceof Promise)) return completed(context, schema, known.names());
    return schema.then((loaded) => loaded && completed(context, loaded, known.names()));
  };
}

function completed(context: CompletionContext, schema: Schema, names: Names | null): CompletionResult | null {
  const text = context.state.doc.toString();
  const template = templateBefore(text, context.pos);
  return template ? inTemplate(context, template, schema, names) : inDocument(context, text, schema, names);
}

function inTemplate({ pos, explicit }: CompletionContext, template: Template, schema: Schema, names: Names | null): CompletionResult | null {
  const words = schema["x-templates"];
  if (!words) return null;
  const written = wordBefore(template.before);
  if (written === "" && !explicit && !/[.|{]\s*$/.test(template.before === "" ? "{" : template.before)) return null;
  const place = template.place ? schemaAt(schema, template.place).place : undefined;
  const found = templateWords(template.before, words, names, { place, step: stepOf(template.place) });
  const options = found.map(
    (word, at): Completion => ({
      label: word.name,
      type: word.kind,
      detail: word.kind === "name" ? undefined : word.kind,
      boost: -Math.min(at, 99),
      ...(word.description ? { info: () => helpBox({ title: word.name, text: word.description }) } : {}),
    }),
  );
  return options.length > 0 ? { from: pos - written.length, options, validFor: /^[\w-]*$/ } : null;
}

function inDocument({ pos, explicit }: CompletionContext, text: string, schema: Schema, names: Names | null): CompletionResult | null {
  const line = text.slice(text.lastIndexOf("\n", pos - 1) + 1, pos);
  const written = WORD.exec(line)?.[0] ?? "";
  // Without a word there is nothing to go by but a place that was just opened.
  if (written === "" && !explicit && !/(?:[:,-]\s|[{[]\s?)$/.test(line)) return null;
  if (isProse(text, pos)) return null;
  const place = placeOf(text, pos - written.length, pos);
  if (!place) return null;
  const found = schemaAt(schema, place);
  const options = [
    ...(place.role === "value" ? [] : keyOptions(keysOf(found.parts), found.keys)),
    ...(place.role === "key" ? [] : wordOptions(schema, place, wordsOf(found.parts), nameList(found.refers, names, stepOf(place)))),
  ];
  return options.length > 0 ? { from: pos - written.length, options, validFor: /^[\w./-]*$/ } : null;
}

/** The step that a place is a part of. */
export function stepOf(place: Place | null): string | undefined {
  const [root, , step] = place?.levels ?? [];
  if (root?.entry !== "workflow" || !step) return undefined;
  return step.keys.get("step") ?? undefined;
}

function keyOptions(keys: Key[], taken: ReadonlyMap<string, unknown>): Completion[] {
  return keys
    .filter(({ name }) => !taken.has(name))
    .map((key, at) => ({
      label: key.name,
      type: KEY,
      detail: key.default === undefined ? undefined : `default ${shown(key.default)}`,
      boost: (OTHER_SPELLING.test(key.description ?? "") ? -50 : 0) - Math.min(at, 49),
      info: () => helpOfKey(key),
      apply: writeKey,
    }));
}

function wordOptions(schema: Schema, place: Place, words: string[], names: { name: string; detail: string }[]): Completion[] {
  const isKind = place.levels.at(-1)?.entry === "kind";
  return [
    ...names.map(({ name, detail }, at): Completion => ({ label: name, detail, type: "name", boost: 50 - Math.min(at, 49) })),
    ...words.map((word): Completion => {
      const kind = isKind ? schema.$defs?.[`kind_${word}`] : undefined;
      const info = kind ? () => helpBox({ title: word, text: kind.description, docs: kind["x-docs"] }) : undefined;
      return { label: word, type: "word", ...(info ? { info } : {}), boost: isKind && !kind ? -50 : 0 };
    }),
  ];
}

function nameList(refers: string | undefined, names: Names | null, step: string | undefined): { name: string; detail: string }[] {
  const list = (found: string[] | undefined, detail: string) => (found ?? []).map((name) => ({ name, detail }));
  switch (refers) {
    case "step":
      return list(names?.steps.map((one) => one.step), "step");
    case "task":
      return list(names?.steps.find((one) => one.step === step)?.tasks, "task");
    case "workbook":
      return list(names?.workbook, "task of the workbook");
    case "keychain":
      return list(names?.keychain, "keychain");
    default:
      return [];
  }
}

export function helpOfKey(key: Key): HTMLElement {
  const about = key.default === undefined ? undefined : `Default: ${shown(key.default)}`;
  return helpBox({ title: key.name, text: key.description, more: about, docs: key.docs });
}

function shown(value: unknown): string {
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** Write a key with its colon, unless the colon is there. */
function writeKey(view: EditorView, completion: Completion, from: number, to: number): void {
  const rest = view.state.doc.lineAt(to).text.slice(to - view.state.doc.lineAt(to).from);
  const insert = /^\s*:/.test(rest) ? completion.label : `${completion.label}: `;
  view.dispatch({
    changes: { from, to, insert },
    selection: { anchor: from + insert.length },
    annotations: pickedCompletion.of(completion),
    userEvent: "input.complete",
  });
}
