/** A small schema and the names of a playbook, for tests. */
import type { Schema } from "./schema";
import type { Names } from "./template";

export const SCHEMA: Schema = {
  "x-docs": "dsl/keys",
  properties: {
    kind: { const: "Playbook", description: "Playbook." },
    workload: { type: "object", description: "Defaults.", "x-place": "workload" },
    workflow: { type: "array", items: { $ref: "#/$defs/Step" }, description: "The steps." },
  },
  $defs: {
    Step: {
      "x-docs": "dsl/keys",
      additionalProperties: false,
      properties: {
        step: { type: "string", description: "The step's name." },
        tool: { anyOf: [{ $ref: "#/$defs/Task" }, { type: "array", items: { $ref: "#/$defs/Task" } }], description: "What runs." },
        next: {
          anyOf: [{ type: "string" }, { type: "array", items: { type: "string" } }, { $ref: "#/$defs/Next" }],
          description: "Where to go.",
          "x-refers": "step",
        },
        wait: { anyOf: [{ enum: ["all", "any"] }, { type: "boolean" }], description: "How many.", default: "all" },
      },
    },
    Next: {
      additionalProperties: false,
      type: "object",
      properties: { arcs: { items: { $ref: "#/$defs/Arc" }, description: "Ways." } },
    },
    Arc: {
      "x-place": "arc",
      properties: { step: { description: "The step to go to.", "x-refers": "step" }, when: { description: "Guard." } },
    },
    Task: {
      "x-place": "tool",
      properties: { kind: { enum: ["http", "noop"], description: "The kind." }, desc: { description: "What for." } },
      allOf: [
        { if: { properties: { kind: { const: "http" } }, required: ["kind"] }, then: { $ref: "#/$defs/kind_http" } },
        { if: { properties: { kind: { const: "noop" } }, required: ["kind"] }, then: { $ref: "#/$defs/kind_noop" } },
      ],
    },
    kind_http: {
      description: "Calls an HTTP API.",
      "x-docs": "kinds/http",
      properties: {
        desc: true,
        url: { description: "Address." },
        endpoint: { description: "Another spelling of `url`." },
        libs: { maxProperties: 0, description: "Nothing." },
        auth: { description: "A credential.", "x-refers": "keychain" },
      },
    },
    kind_noop: { description: "Does nothing.", "x-docs": "kinds/noop" },
  },
  "x-templates": {
    names: {
      workload: { description: "The payload.", places: ["workload", "tool", "arc"] },
      ctx: { description: "Values.", places: ["tool", "arc"] },
      keychain: { description: "Credentials.", places: ["tool"] },
      iter: { description: "The iteration.", places: ["tool"], fields: ["index", "first"] },
      error: { description: "What went wrong.", places: ["arc"], fields: ["kind", "code"] },
    },
    own: { element: ["tool"], task: ["tool"], argument: ["tool", "arc"], step: ["tool", "arc"], self: ["arc"] },
    filters: ["join", "round"],
    tests: ["defined"],
    functions: ["now"],
  },
};

export const NAMES: Names = {
  workload: ["city", "<img src=x onerror=alert(1)>"],
  ctx: ["total"],
  vars: [],
  keychain: ["weather"],
  workbook: [],
  steps: [
    { step: "start", alias: null, iterator: "row", arguments: ["rate"], tasks: ["read"], iteration: ["page"], fields: ["rows", "row_count", "command_0", "command_0.rows", "read", "read.url"] },
    { step: "last", alias: "ending", iterator: null, arguments: [], tasks: [], iteration: [], fields: ["tax"] },
  ],
};
