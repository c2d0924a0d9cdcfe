import { expect, test } from "vitest";

import { COPIES, curlOf } from "./copies";

const ROOT = "http://127.0.0.1:8765";

test("what is typed becomes one word of the shell, whatever it holds", () => {
  const [patch] = COPIES.patch("7", { name: "it's", huge: 18446744073709551617n }, "a b");
  expect(patch?.command).toBe(`printf %s '{"name":"it'\\''s","huge":18446744073709551617}' | noetl ctx patch 7 --patch - --reason 'a b'`);
  expect(patch && curlOf(patch, ROOT)).toBe(
    'curl -H "Authorization: Bearer $(cat ~/.noetl/token)" -X PATCH -H \'Content-Type: application/json\' ' +
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
