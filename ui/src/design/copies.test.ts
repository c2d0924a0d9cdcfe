import { expect, test } from "vitest";

import { COPIES, curlOf } from "./copies";

const ROOT = "http://127.0.0.1:8765";

test("what is typed becomes one word of the shell, whatever it holds", () => {
  const [patch] = COPIES.patch("7", { name: "it's", huge: 18446744073709551617n }, "a b");
  expect(patch?.command).toBe(`printf %s '{"name":"it'\\''s","huge":18446744073709551617}' | noetl ctx patch 7 --patch - --reason 'a b'`);
  expect(patch && curlOf(patch, ROOT)).toBe(
    'curl -H "Authorization: Bearer $(cat "${NOETL_HOME:-$HOME/.noetl}/token")" -X PATCH -H \'Content-Type: application/json\' ' +
      `-d '{"patch":{"name":"it'\\''s","huge":18446744073709551617},"reason":"a b"}' ${ROOT}/api/executions/7/ctx`,
  );
});

test("a name is one part of an address", () => {
  const copies = COPIES.schedules([{ name: "a/b c", state: "paused" }], []);
  expect(copies.map(({ path, command }) => [path, command])).toContainEqual([
    "/api/schedules/a%2Fb%20c/resume",
    "noetl schedule resume 'a/b c'",
  ]);
});

test("an execution offers what fits its state", () => {
  const words = (status: string, ended_at: string | null) => COPIES.execution({ execution_id: "7", status, ended_at }).map(({ what }) => what);
  expect(words("paused", null)).toEqual(expect.arrayContaining(["Resume it", "Cancel it"]));
  expect(words("failed", "2026-11-21T10:00:00Z")).toContain("Redrive it");
  expect(words("failed", "2026-11-21T10:00:00Z")).not.toContain("Result");
});

test("a redrive, a start and a limit say what was chosen and leave out what was not", () => {
  expect(COPIES.redrive("7", "failure", null, "")[0]?.command).toBe("noetl redrive 7");
  expect(COPIES.redrive("7", "load[failed]", 4, "ok")[0]?.command).toBe("noetl redrive 7 --from 'load[failed]' --version 4 --reason ok");
  expect(COPIES.start("a/b", 2, {})[0]?.command).toBe("noetl exec a/b@2");
  expect(COPIES.start("a/b", undefined, { n: 1 })[0]?.command).toBe(`printf %s '{"n":1}' | noetl exec a/b --payload -`);
  expect(COPIES.limit("api", { concurrent: null, rate: 10, per: 60, burst: 3 })[0]?.command).toBe("noetl limit set api --rate 10 --per 60 --burst 3");
  expect(COPIES.limit("api", { concurrent: 4, rate: null, per: 1, burst: 1 })[0]?.body).toEqual({ concurrent: 4 });
});

test("what steers a terminal, or reorders what is read, is copied as its code", () => {
  const [query] = COPIES.sql("select '\x03'\nrm -rf x\n\u202e\x1b[201~");
  expect(query?.command).toBe("noetl sql $'select \\u0027\\u0003\\u0027\\u000arm -rf x\\u000a\\u202e\\u001b[201~'");
  const [patch] = COPIES.patch("7", { name: "\x7f\x9b\\" }, "");
  expect(patch?.command).toBe(`printf %s $'{"name":"\\u007f\\u009b\\u005c\\u005c"}' | noetl ctx patch 7 --patch -`);
  expect(COPIES.sql("select 1\nwhere true")[0]?.command, "lines of a query stay lines").toBe("noetl sql 'select 1\nwhere true'");
  expect(COPIES.sql("=ls")[0]?.command, "zsh replaces the word by a path").toBe("noetl sql '=ls'");
});

test("what begins like an option is none", () => {
  expect(COPIES.sql("-- all\nselect 1")[0]?.command).toBe("noetl sql -- '-- all\nselect 1'");
  expect(COPIES.limit("--help", { concurrent: 4 })[0]?.command).toBe("noetl limit set --concurrent 4 -- --help");
  expect(COPIES.fire("-x", {})[0]?.command).toBe("printf %s '{}' | noetl trigger fire --payload - -- -x");
});

test("the path of a playbook is one part of an address", () => {
  const paths = COPIES.playbook("a/{b,c}/graph?x#y", 2).map(({ path }) => path);
  expect(paths).toContain("/api/catalog/a%2F%7Bb%2Cc%7D%2Fgraph%3Fx%23y?version=2");
  expect(paths).toContain("/api/catalog/a%2F%7Bb%2Cc%7D%2Fgraph%3Fx%23y/graph?version=2");
});
