import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { expect, test } from "vitest";

import { refresh } from "./refresh";

const TOPIC = "execution:1";
const settled = () => new Promise((resolve) => setTimeout(resolve));

/** A query whose answers come when the test says so; each is how many changes the server had when it was asked. */
function watched() {
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  const asked: ((failure?: Error) => void)[] = [];
  let changes = 0;
  const queryFn = () =>
    new Promise<number>((resolve, reject) => {
      const seen = changes;
      asked.push((failure) => (failure ? reject(failure) : resolve(seen)));
    });
  const observer = new QueryObserver(client, { queryKey: ["execution", "1", "steps"], queryFn });
  const shown: (number | undefined)[] = [];
  observer.subscribe(({ data, fetchStatus }) => fetchStatus === "idle" && shown.push(data));
  const change = async () => {
    changes += 1;
    refresh(client, TOPIC);
    await settled();
  };
  const answer = async (failure?: Error) => {
    asked.at(-1)?.(failure);
    await settled();
  };
  return { asked, shown, change, answer };
}

test("changes that come quicker than answers: every answer is shown, one request is under way, and the last one has all", async () => {
  const { asked, shown, change, answer } = watched();
  await answer();
  for (let i = 0; i < 3; i++) {
    await change();
    await change();
    await change();
    await answer();
  }
  await answer();
  expect(shown.filter((value, at) => value !== shown[at - 1])).toEqual([0, 1, 3, 6, 9]);
  expect(asked).toHaveLength(5);
});

test("a change that comes while the first answer is under way is read after it", async () => {
  const { asked, shown, change, answer } = watched();
  await change();
  expect(asked).toHaveLength(1);
  await answer();
  await answer();
  expect([asked.length, shown.at(-1)]).toEqual([2, 1]);
});

test("a read that fails is followed by the one that a change has asked for", async () => {
  const { asked, shown, change, answer } = watched();
  await answer();
  await change();
  await change();
  await answer(new Error("away"));
  await answer();
  expect([asked.length, shown.at(-1)]).toEqual([3, 2]);
});
