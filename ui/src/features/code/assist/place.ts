/** Where in a playbook's tree the cursor is, also in a text that is half written. */
import { yamlLanguage } from "@codemirror/lang-yaml";
import type { SyntaxNode } from "@lezer/common";

/** One mapping or list on the way from the root to the cursor. */
export interface Level {
  /** The keys of the mapping other than the one at the cursor, and their texts; null: the value is no plain text. */
  keys: ReadonlyMap<string, string | null>;
  /** The key or the number of the entry that leads on; null at the end: the cursor is at a key of this mapping. */
  entry: string | number | null;
}

export interface Place {
  levels: Level[];
  /** What the cursor is at: a key, a value, or an entry of a list that may become either. */
  role: "key" | "value" | "item";
}

/** The part of a template before the cursor, without its braces. */
export interface Template {
  before: string;
  /** The place of the text that the template is a part of. */
  place: Place | null;
}

// No playbook has it: a character for private use.
const MARK = "\u{e000}";
const AT_KEY = /^\s*(?:- +)*$/;
const LONGEST_TEMPLATE = 2_000;
const OTHER_KEY = /\n\s*(?:- +)?[\w-]+:(?:\s|$)/;

/** The place of the word between two positions. */
export function placeOf(text: string, from: number, to: number): Place | null {
  const before = text.slice(0, from);
  const after = text.slice(to);
  const line = before.slice(before.lastIndexOf("\n") + 1);
  // A key alone in its line is one for the parser when it has a value.
  const isBare = AT_KEY.test(line) && !/^[\w-]*\s*:/.test(after);
  const marked = `${before}${MARK}${isBare ? ": 0" : ""}${after}`;
  const tree = yamlLanguage.parser.parse(marked);
  const node = tree.resolveInner(from + 1, -1);
  if (!/Literal(?:Content)?$/.test(node.name)) return null;
  const levels: Level[] = [];
  let role: Place["role"] = "value";
  let below: SyntaxNode = node;
  for (let above = node.parent; above; below = above, above = above.parent) {
    if (above.name === "Pair") {
      const key = textOf(above.getChild("Key"), marked);
      const atKey = below.name === "Key";
      if (atKey && levels.length === 0) role = "key";
      levels.unshift({ keys: siblings(above, marked), entry: atKey ? null : key });
    } else if (above.name === "Item") {
      levels.unshift({ keys: new Map(), entry: numberOf(above) });
    }
  }
  if (isBare && levels.at(-1)?.keys.size === 0 && typeof levels.at(-2)?.entry === "number") {
    // An entry of a list with nothing else in it: a mapping may begin here, or a text.
    return { levels: levels.slice(0, -1), role: "item" };
  }
  if (role === "value" && node.parent?.name === "Item") role = "item";
  return levels.length === 0 ? null : { levels, role };
}

/** The template around a position, if there is one. */
export function templateBefore(text: string, position: number): Template | null {
  const start = Math.max(0, position - LONGEST_TEMPLATE);
  const window = text.slice(start, position);
  const open = Math.max(window.lastIndexOf("{{"), window.lastIndexOf("{%"));
  if (open < 0 || open < Math.max(window.lastIndexOf("}}"), window.lastIndexOf("%}"))) return null;
  const before = window.slice(open + 2);
  if (OTHER_KEY.test(before)) return null;
  const rest = text.slice(position, position + LONGEST_TEMPLATE);
  const close = /^[^{\n]*?[}%]\}/.exec(rest);
  return { before, place: placeOf(text, start + open, position + (close?.[0].length ?? 0)) };
}

/** Whether a position is in a comment, or in a block of text such as code. */
export function isProse(text: string, position: number): boolean {
  const node = yamlLanguage.parser.parse(text).resolveInner(position, -1);
  return node.name === "Comment" || node.name === "BlockLiteralContent";
}

function siblings(pair: SyntaxNode, text: string): Map<string, string | null> {
  const found = new Map<string, string | null>();
  for (const other of pair.parent?.getChildren("Pair") ?? []) {
    const key = textOf(other.getChild("Key"), text);
    if (key.includes(MARK) || (other.from === pair.from && other.to === pair.to)) continue;
    const value = other.lastChild;
    found.set(key, value && /^(?:Quoted)?Literal$/.test(value.name) ? textOf(value, text) : null);
  }
  return found;
}

function numberOf(item: SyntaxNode): number {
  let number = 0;
  for (let other = item.prevSibling; other; other = other.prevSibling) if (other.name === "Item") number += 1;
  return number;
}

function textOf(node: SyntaxNode | null, text: string): string {
  if (!node) return "";
  const written = text.slice(node.from, node.to).trim();
  return /^(['"]).*\1$/s.test(written) ? written.slice(1, -1) : written;
}
